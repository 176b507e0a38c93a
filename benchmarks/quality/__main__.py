"""Ranking quality through a running daemon and its public interface: NDCG@10 over annotated
queries.

    python -m benchmarks.quality.clone DIRECTORY
    python -m benchmarks.quality --checkouts DIRECTORY [--folds DIRECTORY] [--all-files] [--only NAME ...]

A daemon of its own is started, indexes the repositories, is asked every query and ended. By default
only files of code are indexed, as the published systems do; `--all-files` indexes whatever a user
would have.

The shipped weights were fitted on these very repositories. An honest figure needs weights that have
not seen the one they are asked about: `python -m training.ranking.fit --checkouts DIRECTORY --folds
FOLDS` writes such weights, and `--folds FOLDS` runs one daemon for each of them. Such a daemon is
started again with the weights that were fitted without vectors, without paths and without
definitions, to say what each is worth.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import machine
from benchmarks.quality.corpus import CATEGORIES, CODE_SUFFIXES, Repository, questions, repositories
from benchmarks.quality.metric import Result, Target, ndcg
from cocosearch_ipc.address import rpc_socket
from cocosearch_ipc.client import call, stream
from cocosearch_ipc.render.line_range import extent
from tests.daemon import make_daemon

RESULTS = Path(__file__).parent / "results"
PROFILES = ("code", "classic")
INDEX_S, WARM_S = 600.0, 60.0
# On this half of the benchmark, as its authors publish them; ripgrep as they run it.
PUBLISHED = {
    "semble": 0.866,
    "CodeRankEmbed hybrid": 0.876,
    "CodeRankEmbed": 0.780,
    "ripgrep": 0.128,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One query's figures under one system: a profile, or `code` without a group of its signals.

    Targets with lines are found by the lines that a result shows (`ndcg`), by those of its chunk
    alone (`chunk_ndcg`), or by any lines of the file (`file_ndcg`).
    """

    repository: str
    category: str
    system: str
    query: str
    ndcg: float
    chunk_ndcg: float
    file_ndcg: float


def main() -> int:
    """Run, print, and write the results beside the commit they are of."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkouts", type=Path, default=Path("/tmp/cocosearch-quality"))
    parser.add_argument("--folds", type=Path)
    parser.add_argument("--all-files", action="store_true")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    arguments = parser.parse_args()
    chosen = [
        repository
        for repository in repositories()
        if not arguments.only or repository.name in arguments.only
    ]
    missing = [
        repository.name
        for repository in chosen
        if not (arguments.checkouts / repository.name).is_dir()
    ]
    if missing:
        sys.stderr.write(
            f"no checkout of {', '.join(missing)}\nhint: python -m benchmarks.quality.clone {arguments.checkouts}\n"
        )
        return 1
    answered = [
        answer
        for weights, selected in runs(chosen, arguments.folds)
        for answer in measured(
            arguments.checkouts, selected, weights, all_files=arguments.all_files
        )
    ]
    report(answered, cross_validated=bool(arguments.folds), all_files=arguments.all_files)
    return 0


def runs(
    chosen: Sequence[Repository], folder: Path | None
) -> Iterator[tuple[Path | None, list[Repository]]]:
    """The weights of each run, None for the shipped ones, and the repositories to be asked about
    with them.
    """
    if folder is None:
        yield None, list(chosen)
        return
    for file in sorted(folder.glob("fold-*.json")):
        held_out = json.loads(file.read_text("utf-8"))["held_out"]
        yield file.resolve(), [repository for repository in chosen if repository.name in held_out]


def measured(
    checkouts: Path, chosen: Sequence[Repository], weights: Path | None, *, all_files: bool
) -> Iterator[Asked]:
    """Start a daemon, index, ask, and end it."""
    daemon = make_daemon()
    if not all_files:
        daemon.variables["COCOSEARCH_INDEXING_INCLUDE"] = ",".join(
            f"*{suffix}" for suffix in CODE_SUFFIXES
        )
    if weights is not None:
        daemon.variables["COCOSEARCH_SEARCH_WEIGHTS_FILE"] = str(weights)
    try:
        daemon.start()
        socket = rpc_socket(daemon.environment)
        for repository in chosen:
            root = (checkouts / repository.name / repository.benchmark_root).resolve()
            index(socket, repository.name, root)
            yield from answers(socket, repository.name, {profile: profile for profile in PROFILES})
        daemon.stop()
        for file in sorted(weights.parent.glob(f"without-*/{weights.name}")) if weights else ():
            daemon.variables["COCOSEARCH_SEARCH_WEIGHTS_FILE"] = str(file)
            daemon.start()
            for repository in chosen:
                until_warm(socket, repository.name)
                yield from answers(
                    socket, repository.name, {file.parent.name.replace("-", " "): "code"}
                )
            daemon.stop()
    finally:
        daemon.sweep()
        shutil.rmtree(daemon.home, ignore_errors=True)


def index(socket: str, name: str, root: Path) -> None:
    """Add a root and wait until it is searchable and at rest."""
    call(socket, "index_codebase", {"path": str(root), "name": name}, timeout_s=INDEX_S)
    *_, last = stream(socket, "follow", {"index": name}, idle_s=INDEX_S)
    call(socket, "sync", {"index": name, "timeout_ms": 60_000}, timeout_s=90.0)
    sys.stderr.write(f"{name}: {last}\n")


def until_warm(socket: str, name: str) -> None:
    """Wait until a daemon that was started again answers from memory."""
    deadline = time.monotonic() + WARM_S
    params = {"query": "main", "index": name, "explain": True, "use_cache": False}
    while call(socket, "search", params)["explain"]["lexical"]["state"] != "warm":
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name} is not warm after {WARM_S:.0f} s")
        time.sleep(0.1)


def answers(socket: str, name: str, systems: Mapping[str, str]) -> Iterator[Asked]:
    """Every query of a repository under every system, each the name of a profile."""
    for question in questions(name):
        for system, profile in systems.items():
            request = {
                "query": question.text,
                "index": name,
                "limit": 10,
                "profile": profile,
                "use_cache": False,
            }
            reply = call(socket, "search", request)
            targets = question.targets
            results = [_shown(hit) for hit in reply["results"]]
            chunks = [
                Result(hit["path"], hit["start_line"], hit["end_line"]) for hit in reply["results"]
            ]
            yield Asked(
                name,
                question.category,
                system,
                question.text,
                ndcg(targets, results),
                ndcg(targets, chunks),
                ndcg([Target(target.path) for target in targets], results),
            )


def _shown(hit: Mapping[str, Any]) -> Result:
    """Return a result with the lines that it shows: its chunk, and what is shown around it."""
    context = (hit["context_before"] or "", hit["context_after"] or "")
    lines = extent(context[0], hit["start_line"], hit["end_line"], context[1])
    return Result(hit["path"], *lines)


def report(answered: Sequence[Asked], *, cross_validated: bool, all_files: bool) -> None:
    """Print the tables and write them with the commit they are of."""
    systems = tuple(dict.fromkeys(answer.system for answer in answered))
    summary = {
        system: figures([answer for answer in answered if answer.system == system])
        for system in systems
    }
    kind = (
        "weights from other repositories"
        if cross_validated
        else "shipped weights, fitted on these repositories"
    )
    files = "all files" if all_files else "files of code"
    lines = [machine(), f"NDCG@10, {files}, {kind}, {len(answered) // len(systems)} queries"]
    lines += [f"  {name:<24} {value:.3f}" for name, value in PUBLISHED.items()]
    rows = list(summary["code"])
    widths = {system: max(8, len(system)) for system in systems}
    lines.append(
        "  ".join([f"{'':<24}", *(f"{system:>{width}}" for system, width in widths.items())])
    )
    lines += [
        "  ".join(
            [
                f"{row:<24}",
                *(f"{summary[system][row]:{width}.4f}" for system, width in widths.items()),
            ]
        )
        for row in rows
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    RESULTS.mkdir(exist_ok=True)
    name = f"{'cv' if cross_validated else 'shipped'}-{'all' if all_files else 'code'}.json"
    body = {"commit": head, "machine": machine(), "published": PUBLISHED, "ndcg_at_10": summary}
    (RESULTS / name).write_text(json.dumps(body, indent=1) + "\n", "utf-8")


def figures(answered: Sequence[Asked]) -> dict[str, float]:
    """The mean over repositories of their queries' means; by category over queries; by
    repository.
    """
    names = sorted({answer.repository for answer in answered})
    by_name = {name: [answer for answer in answered if answer.repository == name] for name in names}
    of_lines = {name: _mean(answer.ndcg for answer in by_name[name]) for name in names}
    of_files = (_mean(answer.file_ndcg for answer in by_name[name]) for name in names)
    of_chunks = (_mean(answer.chunk_ndcg for answer in by_name[name]) for name in names)
    means = {
        "overall": _mean(of_lines.values()),
        "overall, any lines": _mean(of_files),
        "overall, lines of chunks": _mean(of_chunks),
    }
    for category in CATEGORIES:
        values = [answer.ndcg for answer in answered if answer.category == category]
        means[category] = float(np.mean(values)) if values else float("nan")
    return means | of_lines


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


if __name__ == "__main__":
    sys.exit(main())
