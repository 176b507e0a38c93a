"""`bench`: measures this machine through the running daemon. Leaves no index or file behind.

It indexes and changes a scratch copy of Python's standard library, which is the same on every
machine, or of a directory of the user's. Queries go to the user's index if there is one, without
and with the cache. An interrupted run cleans up too.
"""

import argparse
import contextlib
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import daemon_calls, exits, program
from cocosearch_ipc.cli.running.termination import is_alive
from cocosearch_ipc.render import output, tables
from cocosearch_ipc.render.line_range import on_disk

Env = Mapping[str, str]

PREFIX = "cocosearch-bench-"
SAVES = 10
STARTS = 10
SAVE_DEADLINE_S = 60.0
PAGE_FILES = 1000
INDEX_S = 300.0  # silence after which a first index counts as stuck
QUESTIONS = (
    "where are errors handled",
    "open a connection with a timeout",
    "parse command line arguments",
    "read settings from the environment",
    "write the result to a file",
    "compare two versions",
    "wait until everything is done",
    "convert bytes to text",
    "remove what is left over",
    "log a warning",
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A measurement of `n` samples. `p50` and `p95` use the nearest rank."""

    name: str
    unit: str
    n: int
    p50: float
    p95: float | None = None


def run(args: argparse.Namespace, env: Env) -> int:
    """Measure and print. Raises `client.CallFailed`."""
    path = address.rpc_socket(env)
    client.call(path, "status")
    if args.index:
        # fail before the measurement, not after it
        client.call(path, "index_stats", {"index": args.index})
    _sweep(path)
    machine = _machine()
    progress = _Progress(quiet=args.json)
    with _scratch(path, args, progress) as (root, indexed):
        figures = [*indexed, *_saves(path, root, progress)]
        index = args.index or _own_index(path) or root.name
        figures += [*_questions(path, index, progress), *_starts(env, index, progress)]
        status = client.call(path, "status")
    progress.say("")
    machine["load_after"] = round(os.getloadavg()[0], 2)
    if args.json:
        memory = status["rss_bytes"]
        queried = None if index.startswith(PREFIX) else index
        report = {
            "machine": machine,
            "asked": queried,
            "figures": [asdict(f) for f in figures],
            "rss_bytes": memory,
        }
        output.document(report)
    else:
        _print(machine, figures, status, index)
    return exits.OK


def _print(
    machine: Mapping[str, Any], figures: Sequence[Figure], status: Mapping[str, Any], index: str
) -> None:
    output.line(
        f"cocosearchd {status['version']} on {machine['cpus']} x {machine['processor']}, "
        f"Python {machine['python']}, load {machine['load_before']} to {machine['load_after']}"
    )
    output.line("")
    rows = [("figure", "p50", "p95", "unit", "n")]
    for figure in figures:
        worst = "" if figure.p95 is None else f"{figure.p95:,.1f}"
        rows.append((figure.name, f"{figure.p50:,.1f}", worst, figure.unit, str(figure.n)))
    output.lines(tables.table(rows))
    rss = status["rss_bytes"]
    parts = ", ".join(
        f"{name} {tables.size(count)}" for name, count in rss.items() if name != "total"
    )
    output.line("")
    output.line(f"memory  {tables.size(rss.get('total', 0))} ({parts})")
    queried = "the scratch index" if index.startswith(PREFIX) else f"the index {index}"
    output.line(
        f"Queries used {queried}; the indexed files were in a scratch directory, which is deleted."
    )
    if machine["load_before"] > machine["cpus"] / 2:
        output.note("note: the machine was busy, so its times are not reliable")


@contextlib.contextmanager
def _scratch(
    path: str, args: argparse.Namespace, progress: "_Progress"
) -> Iterator[tuple[Path, list[Figure]]]:
    """Index a scratch directory; yield it with the figures of that, and delete both afterwards."""
    root = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")).resolve()
    try:
        progress.say("copying files")
        _copy_tree(Path(args.tree), root) if args.tree else _fill(root, args.files)
        progress.say("indexing")
        yield root, _first_index(path, root)
    finally:
        # a second Ctrl-C would leave the index behind
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        with contextlib.suppress(client.CallFailed):
            client.call(path, "clear_index", {"index": root.name})
        shutil.rmtree(root, ignore_errors=True)
        signal.signal(signal.SIGINT, handler)


def _first_index(path: str, root: Path) -> list[Figure]:
    """Index a directory; return the figures: rates, CPU of all processes of the daemon, rows."""
    cpu_before = _cpu_seconds(path)
    began = time.perf_counter()
    client.call(path, "index_codebase", {"path": str(root), "name": root.name})
    *_, last = client.stream(path, "follow", {"index": root.name}, INDEX_S)
    took = time.perf_counter() - began
    cpu = _cpu_seconds(path) - cpu_before
    if not last["chunks"]:
        raise _bench_error(f"no file of {root} was indexed ({last['failed']} files failed)")
    size = sum(file.stat().st_size for file in _indexed_files(path, root))
    rows = client.call(path, "index_stats", {"index": root.name})["size_bytes"]
    return [
        Figure("index: files", "1/s", 1, last["done"] / took),
        Figure("index: chunks", "1/s", 1, last["chunks"] / took),
        Figure("index: source", "kB/s", 1, size / took / 1000),
        Figure("index: CPU of a file", "ms", 1, cpu / last["done"] * 1000),
        Figure("index: CPU of a MB", "s", 1, cpu / size * 1e6),
        Figure("index: rows, to the files", "x", 1, rows / size),
    ]


def _indexed_files(path: str, root: Path) -> Iterator[Path]:
    """Yield the indexed files of a directory. The index has its name."""
    request = {"index": root.name, "limit": PAGE_FILES}
    cursor: str | None = ""
    while cursor is not None:
        page = client.call(path, "list_files", request | ({"cursor": cursor} if cursor else {}))
        cursor = page["cursor"]
        yield from (root / on_disk(file["path"]) for file in page["files"])


def _cpu_seconds(path: str) -> float:
    """Return the CPU seconds of all processes of the daemon, with those that have ended."""
    return float(client.call(path, "status")["cpu_s"]["total"])


def _copy_tree(source: Path, root: Path) -> None:
    """Copy a directory without its repository. Raises `CallFailed` if it cannot be read."""
    try:
        shutil.copytree(
            source,
            root,
            symlinks=True,
            ignore=shutil.ignore_patterns(".git"),
            copy_function=_copy_regular,
            dirs_exist_ok=True,
        )
    except shutil.Error as error:
        (path, _, reason), *further_errors = error.args[0]
        more = f", and {len(further_errors):,} more" if further_errors else ""
        raise _bench_error(f"{path} cannot be copied: {reason}{more}") from error
    except OSError as error:
        raise _bench_error(f"{source} cannot be copied: {error.strerror}") from error


def _copy_regular(source: str, target: str) -> None:
    """Copy a regular file. Others, such as pipes and sockets, are left out, as an index does."""
    if os.path.isfile(source):
        shutil.copyfile(source, target)


def _fill(root: Path, count: int) -> None:
    """Copy `count` modules of the standard library to `root`."""
    library = Path(sysconfig.get_path("stdlib"))
    sources = [file for file in sorted(library.glob("*.py")) if file.stat().st_size < 200_000]
    sources += [
        file for file in sorted(library.glob("*/*.py")) if "site-packages" not in file.parts
    ]
    for number, source in enumerate(sources[:count]):
        shutil.copyfile(source, root / f"{number:03}_{source.name}")


def _saves(path: str, root: Path, progress: "_Progress") -> Iterator[Figure]:
    """Measure the time from a saved file to an answer that contains it."""
    times = list[float]()
    for number in range(SAVES):
        progress.say(f"saving {number + 1} of {SAVES}")
        name = f"saved_just_now_{number}"
        (root / "saved.py").write_text(f"def {name}():\n    return {number}\n", "utf-8")
        began = time.perf_counter()
        while not _is_found(path, name, root.name):
            if time.perf_counter() - began > SAVE_DEADLINE_S:
                raise _bench_error(f"a saved file was not found within {SAVE_DEADLINE_S:g} s")
        times.append((time.perf_counter() - began) * 1000)
    yield _figure("save to answer", "ms", times)


def _is_found(path: str, name: str, index: str) -> bool:
    reply = client.call(path, "search", {"query": name, "index": index, "limit": 1})
    return bool(reply["results"]) and name in reply["results"][0]["content"]


def _bench_error(message: str) -> client.CallFailed:
    return client.CallFailed(message, "cocosearchctl doctor", code=0)


def _questions(path: str, index: str, progress: "_Progress") -> Iterator[Figure]:
    progress.say(f"asking {index}")
    for name, cached, rounds in (("question, cold", False, 3), ("question, cached", True, 10)):
        times = list[float]()
        served = list[float]()
        for _ in range(rounds):
            for text in QUESTIONS:
                began = time.perf_counter()
                params = {"query": text, "index": index} | ({} if cached else {"use_cache": False})
                reply = client.call(path, "search", params)
                if cached and reply["cache"] == "miss":
                    continue  # this one has filled the cache
                times.append((time.perf_counter() - began) * 1000)
                served.append(reply["timings_ms"]["total"])
        yield _figure(name, "ms", times)
        yield _figure(f"{name}: in the daemon", "ms", served)


def _starts(env: Env, index: str, progress: "_Progress") -> Iterator[Figure]:
    """Measure a query as a command, and a Python that does nothing for comparison."""
    commands = (
        ("python -c pass", [sys.executable, "-c", "pass"]),
        (
            "cocosearchctl query",
            [program.ctl_path(env), "query", QUESTIONS[0], "--index", index, "--limit", "3"],
        ),
    )
    cpu = list[float]()
    for name, command in commands:
        progress.say(f"starting {name}")
        samples = [_cost(command, env) for _ in range(STARTS)]
        cpu.append(_figure("", "", [used for used, _ in samples]).p50)
        yield _figure(f"{name}: CPU", "ms", [used for used, _ in samples])
        yield _figure(f"{name}: wall", "ms", [wall for _, wall in samples])
    yield Figure("query: CPU of a bare Python", "x", STARTS, cpu[1] / cpu[0])


def _cost(command: Sequence[str], env: Env) -> tuple[float, float]:
    """Return CPU and wall time of a command in milliseconds."""
    usage_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, env=dict(env), check=True, capture_output=True)
    wall = time.perf_counter() - began
    usage_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = (
        usage_after.ru_utime + usage_after.ru_stime - usage_before.ru_utime - usage_before.ru_stime
    )
    return used * 1000, wall * 1000


def _figure(name: str, unit: str, values: Sequence[float]) -> Figure:
    ranked = sorted(values)
    at: Callable[[int], float] = lambda percent: ranked[(len(ranked) - 1) * percent // 100]  # noqa: E731
    return Figure(name, unit, len(ranked), at(50), at(95))


def _own_index(path: str) -> str | None:
    """Return the index that a plain query would use, else the largest index."""
    candidates = [
        index
        for index in client.call(path, "list_indexes")["indexes"]
        if not index["name"].startswith(PREFIX)
    ]
    with contextlib.suppress(client.CallFailed):
        default = str(client.call(path, "index_stats", daemon_calls.with_cwd({}))["index"])
        return default if not default.startswith(PREFIX) else None
    return str(max(candidates, key=lambda index: index["chunks"])["name"]) if candidates else None


def _sweep(path: str) -> None:
    """Delete the scratch indexes of killed runs."""
    for index in client.call(path, "list_indexes")["indexes"]:
        owner = index["name"].removeprefix(PREFIX).partition("-")[0]
        if index["name"].startswith(PREFIX) and owner.isdecimal() and not is_alive(int(owner)):
            client.call(path, "clear_index", {"index": index["name"]})
            shutil.rmtree(index["root"], ignore_errors=True)


def _machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cpus": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


class _Progress:
    """A progress line on standard error; silent if that is not a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._live = sys.stderr.isatty() and not quiet

    def say(self, text: str) -> None:
        """Show the current step."""
        if self._live:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
