"""Run a hostile corpus through a real daemon and judge it: `python -m tests.hostile.campaign
--help`.

Every input must be searchable or left out with a reason. Meanwhile the daemon and its indexer
process live on, saves in a neighbouring root stay fresh within seconds, and all processes
together stay below a bound of memory.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from cocosearch_ipc.client import CallFailed
from cocosearchd.forms.path_forms import path_text
from tests.daemon import Daemon, passing_daemon
from tests.hostile.corpus import Case, cases
from tests.hostile.neighbour import FRESH_WITHIN_S, Neighbour
from tests.machine_speed import FairClock

SAMPLE_EVERY_S, SAVE_EVERY_S = 0.25, 0.5
SHOWN_PROBLEMS = 40
INDEX_LIMIT_S = 1800.0  # all inputs take eleven minutes on a quiet machine


@dataclass
class Report:
    """The judgement of a campaign. It passes where `problems` is empty."""

    inputs: int = 0
    searchable: int = 0
    left_out: int = 0
    saves: int = 0
    slowest_save_s: float = 0.0
    peak_bytes: int = 0
    contained_deaths: int = 0  # of boxed worker processes, which may die
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        summary = (
            f"{self.inputs} inputs: {self.searchable} searchable, {self.left_out} left out with a reason; "
            f"{self.saves} saves beside them, the slowest {self.slowest_save_s:.2f} s; "
            f"peak memory {self.peak_bytes / 2**30:.2f} GiB; {self.contained_deaths} boxed processes ended"
        )
        return "\n".join([summary, *self.problems[:SHOWN_PROBLEMS]])


def run_campaign(
    daemon: Daemon, neighbour: Neighbour, root: Path, inputs: Sequence[Case], limit_bytes: int
) -> Report:
    """Write the inputs below `root`, index them, and judge what became of each."""
    report = Report(inputs=len(inputs))
    neighbour.watch(daemon)
    status = daemon.call("status")
    for case in inputs:
        case.write(os.path.join(os.fsencode(root), case.path))
    with _sampling(daemon, report), _saving(daemon, neighbour, report):
        daemon.ctl("up", str(root), "--wait", limit_s=INDEX_LIMIT_S)
        indexed = _indexed_paths(daemon, root.name)
        for case in inputs:
            problem = _judge(daemon, root.name, case, indexed, report)
            if problem is not None:
                report.problems.append(f"{case.group} {case.name} {case.path[:80]!r}: {problem}")
    _check_processes(daemon, status, report, limit_bytes)
    return report


def _judge(daemon: Daemon, index: str, case: Case, indexed: set[str], report: Report) -> str | None:
    """Why the case was not treated as it should be, or None."""
    path = path_text(case.path)
    if path in indexed:
        report.searchable += 1
        if case.outcome == "left out":
            return "it is indexed"
        return _missing_marker(daemon, index, case, path)
    if case.outcome == "searchable":
        return f"it is not indexed: {_reason(daemon, index, path)}"
    if not _reason(daemon, index, path):
        return "it is left out without a reason"
    report.left_out += 1
    return None


def _missing_marker(daemon: Daemon, index: str, case: Case, path: str) -> str | None:
    if not case.marker or case.outcome != "searchable":
        return None
    with FairClock() as clock:
        results = daemon.call("search", query=case.marker, index=index, limit=3)["results"]
    if clock.fair_s > FRESH_WITHIN_S:
        return f"the query for it took {clock.took_s:.1f} s"
    paths = [result["path"] for result in results]
    return None if path in paths else f"the query {case.marker} shows {paths}"


def _reason(daemon: Daemon, index: str, path: str) -> str:
    answer = daemon.call(
        "search", query="anything", index=index, limit=1, explain=True, why_not=path
    )
    why_not: dict[str, str] = answer["explain"]["why_not"]
    return why_not["reason"]


def _indexed_paths(daemon: Daemon, index: str) -> set[str]:
    paths: set[str] = set()
    cursor = None
    while True:
        page = daemon.call("list_files", index=index, limit=1000, cursor=cursor)
        paths.update(file["path"] for file in page["files"])
        cursor = page["cursor"]
        if cursor is None:
            return paths


def _check_processes(
    daemon: Daemon, previous: dict[str, Any], report: Report, limit_bytes: int
) -> None:
    status = daemon.call("status")
    if status["pid"] != previous["pid"]:
        report.problems.append("the daemon was started again")
    if deaths := status["worker"]["deaths"] - previous["worker"]["deaths"]:
        report.problems.append(f"the indexer process died {deaths} times")
    if report.peak_bytes > limit_bytes:
        report.problems.append(f"memory reached {report.peak_bytes / 2**30:.2f} GiB")
    if not report.saves:
        report.problems.append("no save was tried beside it")
    events = (
        json.loads(line).get("event") for line in daemon.log.splitlines() if line.startswith("{")
    )
    report.contained_deaths = sum(
        event in {"bulk_worker_ended", "parser_ended"} for event in events
    )


@contextmanager
def _repeating(action: Callable[[], None], every_s: float) -> Iterator[None]:
    """Run an action again and again in a thread while the context is open."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_s):
            action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _saving(daemon: Daemon, neighbour: Neighbour, report: Report) -> Iterator[None]:
    def save() -> None:
        report.saves += 1
        try:
            took_s = neighbour.save_and_query(daemon)
        except (AssertionError, CallFailed) as error:
            report.problems.append(f"a save beside the corpus: {str(error)[:300]}")
            return
        report.slowest_save_s = max(report.slowest_save_s, took_s)
        if took_s > FRESH_WITHIN_S:
            report.problems.append(f"a save beside the corpus took {took_s:.2f} s")

    with _repeating(save, SAVE_EVERY_S):
        yield


@contextmanager
def _sampling(daemon: Daemon, report: Report) -> Iterator[None]:
    def sample() -> None:
        report.peak_bytes = max(report.peak_bytes, _memory_bytes(daemon))

    with _repeating(sample, SAMPLE_EVERY_S):
        yield


def _memory_bytes(daemon: Daemon) -> int:
    """Unshared memory of the daemon and all below it, in bytes."""
    assert daemon.process is not None
    total = 0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(daemon.process.pid)
        for member in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                memory = member.memory_info()
                total += memory.rss - memory.shared
    return total


@contextmanager
def _deep_directory() -> Iterator[Path]:
    """A temporary directory whose tree may be as deep as the kernel allows.

    Python's own removal recurses, and fails.
    """
    directory = tempfile.mkdtemp(prefix="hostile-")
    try:
        yield Path(directory)
    finally:
        subprocess.run(["rm", "-rf", directory], check=True)


def main() -> int:
    """Run seeds one after the other; exit with 1 at the first that has a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument(
        "--size", type=int, default=200_000, help="bytes that contents are pumped to"
    )
    parser.add_argument(
        "--limit-gib", type=float, default=4.0, help="memory of all processes together"
    )
    arguments = parser.parse_args()
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        with passing_daemon() as daemon, _deep_directory() as directory:
            daemon.start()
            roots = [directory / name for name in ("hostile", "neighbour")]
            for root in roots:
                root.mkdir()
            (roots[1] / "main.py").write_text("def neighbour_main():\n    return 1\n")
            inputs = list(cases(seed, arguments.size))
            limit_bytes = int(arguments.limit_gib * 2**30)
            report = run_campaign(daemon, Neighbour(roots[1]), roots[0], inputs, limit_bytes)
            print(f"seed {seed}: {report}", flush=True)
        if report.problems:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
