"""Share of bug reports whose fix is found, through a running daemon and its public interface.

    python -m benchmarks.quality.issues --cases CASES.jsonl --repositories DIR [--only OWNER/NAME ...]
        [--outcomes FILE] [--turns N] [--all-indexes] [--history [--without-history]]

A case is a line of JSON: `id`, `set`, `snapshot` (the repository), `base` (the commit to index),
`query` (the text of the issue) and `gold` (the files that its fix changed). DIR has the git
repositories as OWNER+NAME/repo. Each is checked out into a root of its own, case by case in the
order of their dates, so that each checkout is indexed as a change of the one before. Nothing but
the files of the commit is visible. With `--history` each checkout is a repository whose HEAD is the
commit, so that the daemon reads the ancestors, as in a user's checkout; with `--without-history`
too, the daemon is set not to: the difference of these two runs is what history adds.

A run over hundreds of cases takes hours. `--outcomes` keeps each case as it is done, and the same
command goes on where it was cut off. With `--turns` all repositories are visited N times, and each
visit asks every N-th case: a run that is cut off has cases of every repository and time.
`--all-indexes` asks each question to the indexes of all repositories at once.

Printed: the share of cases with *all* files among the first k, by set, length and repository; for
answers of at most 2,000, 4,000 and 8,000 tokens the share of cases with all files in them, and the
mean share of the changed lines that they show (`bundles`).
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from benchmarks.quality.__main__ import INDEX_S, index
from benchmarks.quality.bundles import FixHistory, Lines, share_shown, shown_lines
from benchmarks.quality.issue_outcomes import (
    BUDGETS,
    Bundle,
    Case,
    Outcome,
    OutcomeFile,
    print_table,
    read_cases,
    take_turns,
)
from cocosearch_ipc.address import rpc_socket
from cocosearch_ipc.client import call
from tests.daemon import Daemon, make_daemon

LIMIT = 50
HISTORY_S = 120.0  # until the daemon has read the ancestors of a commit
_SEED = 20261127  # of the order of repositories


class RepositoryRun:
    """The cases of one repository, asked of one index whose root is checked out for each.

    With `all_indexes` other indexes are asked as well; only files of this one count. With
    `as_repository` the root is a git repository; `waits_for_history` if the daemon reads it.
    """

    def __init__(
        self,
        socket: str,
        repository: Path,
        name: str,
        folder: Path,
        *,
        all_indexes: bool,
        as_repository: bool,
        waits_for_history: bool,
    ) -> None:
        self._socket = socket
        self._repository = repository
        self._index = name.rpartition("/")[2]
        self._root = folder / name.replace("/", "+") / self._index
        self._history = FixHistory(repository)
        self._as_repository = as_repository
        self._waits_for_history = waits_for_history
        self._scope = {"all_indexes": True} if all_indexes else {"index": self._index}

    def check_out(self, case: Case) -> None:
        """Check out the commit of a case, and wait until it is searchable."""
        is_new = not self._root.exists()
        self._root.mkdir(parents=True, exist_ok=True)
        check_out(self._repository, case.base, self._root)
        if self._as_repository:
            make_repository(self._repository, case.base, self._root)
            shutil.copy(self._root.parent / "index", self._root / ".git" / "index")
        if is_new:
            index(self._socket, self._index, self._root)
        wait = {"index": self._index, "timeout_ms": 600_000}
        call(self._socket, "sync", wait, timeout_s=INDEX_S)

    def ask(self, case: Case) -> Outcome:
        """Check out the commit of a case and ask its question."""
        self.check_out(case)
        request = {"query": case.query, "limit": LIMIT, "use_cache": False, **self._scope}
        if self._waits_for_history:
            self._await_history(case)
        reply = call(self._socket, "search", request)
        if not reply["fresh"]:
            sys.stderr.write(f"{case.name}: not fresh: {reply['stale_reason']}\n")
        changed = self._history.changed_lines(case.name.rpartition("-")[2], case.gold)
        bundles = tuple(
            self._bundle(
                case, call(self._socket, "search", request | {"budget_tokens": budget}), changed
            )
            for budget in BUDGETS
        )
        return Outcome(case, self._ranks(case, reply), reply["timings_ms"]["total"], bundles)

    def _await_history(self, case: Case) -> None:
        """Wait until the daemon has read the ancestors of the commit of a case."""
        arguments = ("rev-list", "--no-merges", "--max-count=1", case.base)
        newest = _git(self._repository, *arguments).strip()
        request = {"query": case.query, "limit": 5, "index": self._index, "explain": True}
        deadline = time.monotonic() + HISTORY_S
        while time.monotonic() < deadline:
            report = call(self._socket, "search", request)["explain"].get("report")
            if report is None or newest.startswith((report["history"] or {}).get("newest", "-")):
                return
            time.sleep(0.5)
        sys.stderr.write(f"{case.name}: no history\n")

    def _ranks(self, case: Case, reply: dict[str, Any]) -> tuple[int | None, ...]:
        files = dict.fromkeys((hit["index"], hit["path"]) for hit in reply["results"])
        rank_by_file = {file: rank for rank, file in enumerate(files, 1)}
        return tuple(rank_by_file.get((self._index, path)) for path in case.gold)

    def _bundle(self, case: Case, reply: dict[str, Any], changed: Lines) -> Bundle:
        own_hits = [hit for hit in reply["results"] if hit["index"] == self._index]
        lines = shown_lines({"results": own_hits})
        has_all = set(case.gold) <= lines.keys()
        return Bundle(len(reply["results"]), has_all, share_shown(changed, lines))


def dated_cases(repository: Path, cases: Sequence[Case]) -> list[Case]:
    """Sort cases by the dates of their commits."""
    return sorted(cases, key=lambda case: (_date(repository, case.base), case.name))


def _date(repository: Path, commit: str) -> int:
    return int(_git(repository, "show", "-s", "--format=%ct", commit))


def check_out(repository: Path, commit: str, root: Path) -> None:
    """Make a directory the tree of a commit. The repository's own index is not touched.

    A copy of a repository may lack its largest files: they are named and left out. Raises
    `CalledProcessError` for any other fault.
    """
    environment = os.environ | {"GIT_INDEX_FILE": str(root.parent / "index")}
    git = ["git", f"--git-dir={repository}", f"--work-tree={root}"]
    steps = [["read-tree", "--reset", commit], ["checkout-index", "-afuq"], ["clean", "-qfdx"]]
    for step in steps:
        process = subprocess.run(
            [*git, *step], env=environment, cwd=root, stderr=subprocess.PIPE, text=True
        )
        sys.stderr.write(process.stderr)
        if process.returncode and not _lacks_only_files(process.stderr):
            process.check_returncode()


def make_repository(repository: Path, commit: str, root: Path) -> None:
    """Make a directory a git repository at a commit, with the objects of `repository`.

    It has no other reference, so all that can be reached are ancestors of the commit.
    """
    git_dir = root / ".git"
    if not git_dir.exists():
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        alternates = git_dir / "objects" / "info" / "alternates"
        alternates.write_text(f"{repository / 'objects'}\n", "utf-8")
    (git_dir / "HEAD").write_text(f"{commit}\n", "utf-8")


def _lacks_only_files(complaints: str) -> bool:
    lines = complaints.splitlines()
    return bool(lines) and all("unable to read sha1 file of" in line for line in lines)


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", f"--git-dir={repository}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run_cases(
    daemon: Daemon,
    folders: dict[str, Path],
    cases: Sequence[Case],
    *,
    turns: int = 1,
    all_indexes: bool = False,
    as_repository: bool = False,
    waits_for_history: bool = False,
) -> Iterator[Outcome]:
    """Ask all cases, repository by repository, in `turns`. `folders`: repository -> its git directory.

    With `all_indexes` all repositories are indexed before the first question.
    """
    by_repository = defaultdict[str, list[Case]](list)
    for case in cases:
        by_repository[case.repository].append(case)
    parts = {
        name: list(take_turns(dated_cases(folders[name], members), turns))
        for name, members in by_repository.items()
    }
    order = sorted(parts)
    random.Random(_SEED).shuffle(order)
    socket = rpc_socket(daemon.environment)
    with tempfile.TemporaryDirectory() as temporary:
        runs = {
            name: RepositoryRun(
                socket,
                folders[name],
                name,
                Path(temporary),
                all_indexes=all_indexes,
                as_repository=as_repository,
                waits_for_history=waits_for_history,
            )
            for name in order
        }
        if all_indexes:
            for name in order:
                runs[name].check_out(parts[name][0][0])
        for turn in range(turns):
            for name in order:
                yield from map(runs[name].ask, parts[name][turn])


def _find_repositories(directory: Path, cases: Sequence[Case]) -> dict[str, Path]:
    """Return the git directory of each repository of the cases that is there; name the others."""
    folders = {
        name: directory / name.replace("/", "+") / "repo"
        for name in sorted({case.repository for case in cases})
    }
    for name, folder in folders.items():
        if not folder.is_dir():
            sys.stderr.write(f"{name}: no repository at {folder}\n")
    return {name: folder.resolve() for name, folder in folders.items() if folder.is_dir()}


def _run(arguments: argparse.Namespace, cases: Sequence[Case], file: OutcomeFile | None) -> None:
    """Ask the cases of a daemon of its own and print the table, with what the file has already."""
    folders = _find_repositories(arguments.repositories, cases)
    outcomes = file.read(cases) if file else []
    names = {outcome.case.name for outcome in outcomes}
    pending = [case for case in cases if case.repository in folders and case.name not in names]
    daemon = make_daemon()
    if arguments.weights is not None:
        daemon.variables["COCOSEARCH_SEARCH_WEIGHTS_FILE"] = str(arguments.weights.resolve())
    daemon.variables["COCOSEARCH_SEARCH_HISTORY"] = str(not arguments.without_history).lower()
    try:
        daemon.start()
        for outcome in run_cases(
            daemon,
            folders,
            pending,
            turns=arguments.turns,
            all_indexes=arguments.all_indexes,
            as_repository=arguments.history,
            waits_for_history=arguments.history and not arguments.without_history,
        ):
            outcomes.append(outcome)
            if file is not None:
                file.append(outcome)
            sys.stderr.write(f"{len(outcomes)} of {len(cases)}: {outcome.case.name}\n")
        daemon.stop()
    finally:
        daemon.sweep()
        shutil.rmtree(daemon.home, ignore_errors=True)
        if outcomes:
            print_table(outcomes)


def main() -> int:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], metavar="OWNER/NAME")
    parser.add_argument("--outcomes", type=Path, help="a file of cases that are done; added to")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--all-indexes", action="store_true")
    parser.add_argument("--history", action="store_true", help="checkouts are git repositories")
    parser.add_argument("--without-history", action="store_true", help="which the daemon ignores")
    parser.add_argument("--weights", type=Path, help="weights other than the shipped ones")
    arguments = parser.parse_args()
    cases = [
        case
        for case in read_cases(arguments.cases)
        if not arguments.only or case.repository in arguments.only
    ]
    if not _find_repositories(arguments.repositories, cases):
        return 1
    sys.stdout.write(f"{machine()}\n")
    _run(arguments, cases, OutcomeFile(arguments.outcomes) if arguments.outcomes else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
