"""Share of bug reports whose fix is found, through a running daemon and its public interface.

    python -m benchmarks.quality.issues --cases CASES.jsonl --repositories DIR [--only OWNER/NAME ...]

A case is a line of JSON: `id`, `set`, `snapshot` (the repository), `base` (the commit to index),
`query` (the text of the issue) and `gold` (the files that its fix changed). DIR has the git
repositories as OWNER+NAME/repo. Each is checked out into one root, case by case in the order of
their dates, so that each checkout is indexed as a change of the one before. Nothing but the files
of the commit is visible: no history, which would hold the fix.

Printed: the share of cases with *all* files among the first k, by set and by length; for answers of
at most 2,000, 4,000 and 8,000 tokens the share of cases with all files in them, and the mean share
of the changed lines that they show (`bundles`).
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import machine
from benchmarks.quality.__main__ import INDEX_S, index
from benchmarks.quality.bundles import BUDGETS, Lines, changed_lines, share_shown, shown_lines
from cocosearch_ipc.address import rpc_socket
from cocosearch_ipc.client import call
from tests.daemon import Daemon, make_daemon

LIMIT = 50
DEPTHS = (1, 5, 10, 50)
LONG = 2000  # characters


@dataclass(frozen=True, slots=True)
class Case:
    """An issue, and the files that its fix changed."""

    name: str
    group: str
    repository: str
    base: str
    query: str
    gold: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The rank of each file of a case from 1, None where it is not found; the daemon's time.

    `bundles` are the lines of the answers within `BUDGETS`, `changed` those of the fix.
    """

    case: Case
    ranks: tuple[int | None, ...]
    milliseconds: float
    bundles: tuple[Lines, ...]
    changed: Lines

    def has_all(self, depth: int) -> bool:
        """Return True if all files of the fix are among the first `depth`."""
        return all(rank is not None and rank <= depth for rank in self.ranks)


def read_cases(path: Path) -> list[Case]:
    """Read the cases of a file."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
    return [_read_case(row) for row in rows]


def _read_case(row: dict[str, Any]) -> Case:
    return Case(
        row["id"], row["set"], row["snapshot"], row["base"], row["query"], tuple(row["gold"])
    )


def run_repository(daemon: Daemon, repository: Path, cases: Sequence[Case]) -> Iterator[Outcome]:
    """Check out each case in turn and ask its question."""
    socket = rpc_socket(daemon.environment)
    name = cases[0].repository.rpartition("/")[2]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / name
        root.mkdir()
        for number, case in enumerate(dated_cases(repository, cases)):
            _check_out(repository, case.base, root)
            if number == 0:
                index(socket, name, root)
            call(socket, "sync", {"index": name, "timeout_ms": 600_000}, timeout_s=INDEX_S)
            request = {"query": case.query, "index": name, "limit": LIMIT, "use_cache": False}
            reply = call(socket, "search", request)
            bundles = tuple(
                shown_lines(call(socket, "search", request | {"budget_tokens": budget}))
                for budget in BUDGETS
            )
            changed = changed_lines(repository, case.name.rpartition("-")[2], case.gold)
            yield _outcome(case, reply, bundles, changed)
        call(socket, "clear_index", {"index": name})


def _outcome(
    case: Case, reply: dict[str, Any], bundles: tuple[Lines, ...], changed: Lines
) -> Outcome:
    paths = list(dict.fromkeys(hit["path"] for hit in reply["results"]))
    ranks = {path: rank for rank, path in enumerate(paths, 1)}
    if not reply["fresh"]:
        sys.stderr.write(f"{case.name}: not fresh: {reply['stale_reason']}\n")
    times = reply["timings_ms"]
    return Outcome(case, tuple(map(ranks.get, case.gold)), times["total"], bundles, changed)


def dated_cases(repository: Path, cases: Sequence[Case]) -> list[Case]:
    """Sort cases by the dates of their commits."""
    return sorted(cases, key=lambda case: (_date(repository, case.base), case.name))


def _date(repository: Path, commit: str) -> int:
    return int(_git(repository, "show", "-s", "--format=%ct", commit))


def _check_out(repository: Path, commit: str, root: Path) -> None:
    """Make a directory the tree of a commit. The repository's own index is not touched."""
    environment = os.environ | {"GIT_INDEX_FILE": str(root.parent / "index")}
    command = ["git", f"--git-dir={repository}", f"--work-tree={root}"]
    for arguments in (["read-tree", "--reset", "-u", commit], ["clean", "-qfdx"]):
        subprocess.run([*command, *arguments], check=True, env=environment, cwd=root)


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", f"--git-dir={repository}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Print a row for each set and length."""
    groups = defaultdict[str, list[Outcome]](list)
    for outcome in outcomes:
        is_long = len(outcome.case.query) > LONG
        for group in ("all", outcome.case.group, f"{'over' if is_long else 'up to'} {LONG:,}"):
            groups[group].append(outcome)
    sys.stdout.write(f"| cases | n | {' | '.join(f'@{depth}' for depth in DEPTHS)} |\n")
    for group, members in groups.items():
        shares = " | ".join(
            f"{np.mean([outcome.has_all(depth) for outcome in members]):.3f}" for depth in DEPTHS
        )
        sys.stdout.write(f"| {group} | {len(members)} | {shares} |\n")
    for number, budget in enumerate(BUDGETS):
        sys.stdout.write(f"{_describe_bundles(outcomes, number, budget)}\n")
    times = [outcome.milliseconds for outcome in outcomes]
    sys.stdout.write(f"server time p50 {np.median(times):.0f} ms, max {max(times):.0f} ms\n")


def _describe_bundles(outcomes: Sequence[Outcome], number: int, budget: int) -> str:
    """Return a line about the answers within a budget; `number` is that of the budget."""
    bundles = [outcome.bundles[number] for outcome in outcomes]
    in_bundle = [
        set(outcome.case.gold) <= bundle.keys()
        for outcome, bundle in zip(outcomes, bundles, strict=True)
    ]
    line_shares = [
        share
        for outcome, bundle in zip(outcomes, bundles, strict=True)
        if (share := share_shown(outcome.changed, bundle)) is not None
    ]
    return (
        f"within {budget:,} tokens: all files {np.mean(in_bundle):.3f} (n={len(in_bundle)}), changed "
        f"lines {np.mean(line_shares):.3f} (n={len(line_shares)}), {np.mean(list(map(len, bundles))):.1f}"
        " files"
    )


def write_ranks(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write a line of JSON for each case: its name, the ranks of its files, its bundles."""
    rows = (
        {
            "id": outcome.case.name,
            "ranks": outcome.ranks,
            "in_bundles": [
                [file in bundle for file in outcome.case.gold] for bundle in outcome.bundles
            ],
            "lines": [share_shown(outcome.changed, bundle) for bundle in outcome.bundles],
        }
        for outcome in outcomes
    )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def main() -> int:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], metavar="OWNER/NAME")
    parser.add_argument("--ranks", type=Path, help="write the rank of each file as JSON lines")
    parser.add_argument("--weights", type=Path, help="weights other than the shipped ones")
    arguments = parser.parse_args()
    sys.stdout.write(f"{machine()}\n")
    by_repository = defaultdict[str, list[Case]](list)
    for case in read_cases(arguments.cases):
        if not arguments.only or case.repository in arguments.only:
            by_repository[case.repository].append(case)
    daemon = make_daemon()
    if arguments.weights is not None:
        daemon.variables["COCOSEARCH_SEARCH_WEIGHTS_FILE"] = str(arguments.weights.resolve())
    outcomes = list[Outcome]()
    try:
        daemon.start()
        for name, cases in sorted(by_repository.items()):
            folder = arguments.repositories / name.replace("/", "+") / "repo"
            if not folder.is_dir():
                sys.stderr.write(f"{name}: no repository at {folder}\n")
                continue
            outcomes += run_repository(daemon, folder.resolve(), cases)
            sys.stderr.write(f"{name}: {len(cases)} cases\n")
            if arguments.ranks is not None:
                write_ranks(arguments.ranks, outcomes)
        daemon.stop()
    finally:
        daemon.sweep()
        shutil.rmtree(daemon.home, ignore_errors=True)
    if outcomes:
        print_table(outcomes)
    return 0 if outcomes else 1


if __name__ == "__main__":
    sys.exit(main())
