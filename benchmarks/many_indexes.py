"""Cost of one question to many small indexes of a daemon, beside a question to one of them.

    python -m benchmarks.many_indexes [--indexes 100] [--files 20] [--questions 20] [--unwatched] [--home DIRECTORY]

Indexes are slices of the standard library and of the installed packages: `--files` neighbouring files
each. Questions go through the socket, each one new and without the cache, to all indexes and to one.
CPU is that of the daemon and of PostgreSQL. With `--home` the indexes are made once and kept. With
`--unwatched` there are no watchers, and questions do not wait for freshness.
"""

import argparse
import random
import re
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import psutil

from benchmarks.measure import cpu_seconds, machine, percentile
from cocosearch_ipc import client
from tests.daemon import Daemon

COMMON_WORDS = (
    "config", "path", "error", "parse", "value", "name", "test", "file", "data", "type", "close", "read",
    "message", "option", "result", "default", "encode", "format", "version", "index",
)  # fmt: skip
_SENTENCE = re.compile(r'"""\s*([A-Z][a-z]+(?: [a-z]+){3,9})')
_DEFINITION = re.compile(r"^ *(?:def|class) ([A-Za-z]\w{6,})", re.MULTILINE)
_REPORT_LINES = 12  # of code in a report
_MAX_FILE_BYTES = 60_000
_WARM_UP = 3  # questions before those that count
_ATTEMPTS = 5  # to add an index
_REST_S = 5.0  # between two of them


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a kind of question: wall time of each in ms, CPU of one on average in ms."""

    wall_ms: Sequence[float]
    cpu_ms: float

    def cells(self) -> str:
        """Columns of the table: wall p50, wall p95, CPU."""
        p50, p95 = (percentile(self.wall_ms, share) for share in (0.5, 0.95))
        return f"{p50:.1f} | {p95:.1f} | {self.cpu_ms:.1f}"


def main() -> None:
    """Index, ask, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--indexes", type=int, default=100)
    parser.add_argument("--files", type=int, default=20, help="of each index")
    parser.add_argument("--questions", type=int, default=20, help="of each kind")
    parser.add_argument("--home", type=Path, help="keep the indexes here for the next time")
    parser.add_argument("--unwatched", action="store_true", help="without inotify and freshness")
    options = parser.parse_args()
    sys.stdout.write(f"{machine()}\n")
    home = options.home or Path(tempfile.mkdtemp(prefix="cocosearch-many-"))
    home.mkdir(exist_ok=True)
    home.chmod(0o711)
    daemon = Daemon(home / "daemon", make_variables(home, unwatched=options.unwatched))
    daemon.home.mkdir(exist_ok=True, mode=0o711)
    try:
        roots = list(make_roots(home / "roots", options.indexes, options.files))
        fill(daemon, roots)
        print_costs(daemon, roots, make_questions(roots, options.questions))
        daemon.stop()
    finally:
        daemon.sweep()
        if options.home is None:
            shutil.rmtree(home, ignore_errors=True)


def make_variables(home: Path, *, unwatched: bool) -> dict[str, str]:
    """Make the environment of the daemon."""
    variables = {"COCOSEARCH_SERVER_ALLOWED_ROOTS": str(home)}
    if unwatched:
        variables |= {
            "COCOSEARCH_WATCHING_BACKEND": "polling",
            "COCOSEARCH_WATCHING_POLL_S": "3600",
            "COCOSEARCH_SEARCH_SYNC_TIMEOUT_MS": "0",
        }
    return variables


def make_roots(home: Path, count: int, files: int) -> Iterator[Path]:
    """Copy `files` neighbouring source files to each of `count` directories, unless they are there."""
    paths = (
        (source, path)
        for source in (Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib")))
        for path in sorted(source.rglob("*.py"))
        if path.is_file() and 500 < path.stat().st_size < _MAX_FILE_BYTES
        if source.name == "site-packages" or "site-packages" not in path.parts
    )
    for number in range(count):
        root = home / f"part{number:04}"
        members = list(islice(paths, files))
        if len(members) < files:
            raise SystemExit(f"only enough files for {number} indexes of {files} files")
        if not root.exists():
            for source, path in members:
                target = root / path.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        yield root


def fill(daemon: Daemon, roots: Sequence[Path]) -> None:
    """Start the daemon and wait until each root is searchable, its words in memory."""
    (daemon.home / "log").unlink(missing_ok=True)  # of an earlier run
    daemon.start()
    names = {index["name"] for index in daemon.call("list_indexes")["indexes"]}
    began = time.perf_counter()
    for root in roots:
        if root.name not in names:
            add_index(daemon, root)
    while daemon.log.count("lexical_warm") < len(roots):
        time.sleep(0.2)
    files, chunks = count_rows(daemon)
    sys.stdout.write(
        f"{len(roots)} indexes, {files} files, {chunks} chunks,"
        f" ready after {time.perf_counter() - began:.0f} s\n"
    )


def add_index(daemon: Daemon, root: Path) -> None:
    """Add an index. On a busy machine, PostgreSQL may not answer in time: ask again."""
    for _ in range(_ATTEMPTS):
        try:
            daemon.index(root, root.name)
        except client.CallFailed:
            time.sleep(_REST_S)
        else:
            return
    raise SystemExit(f"{root.name} could not be added")


def count_rows(daemon: Daemon) -> tuple[int, int]:
    """Count the files and chunks of all indexes."""
    rows = daemon.call("list_indexes")["indexes"]
    return sum(row["files"] for row in rows), sum(row["chunks"] for row in rows)


def make_questions(roots: Sequence[Path], count: int) -> Mapping[str, Sequence[str]]:
    """Make `count` questions of each kind, from the texts of the roots."""
    rng = random.Random(5)
    texts = {
        path: path.read_text("utf-8", "replace")
        for root in roots
        for path in sorted(root.rglob("*.py"))
    }
    names = [name for text in texts.values() for name in set(_DEFINITION.findall(text))]
    rare_names = sorted(name for name in set(names) if names.count(name) == 1)
    sentences = sorted(
        {sentence for text in texts.values() for sentence in _SENTENCE.findall(text)}
    )
    total = count + _WARM_UP
    return {
        "a rare name": rng.sample(rare_names, total),
        "a sentence": rng.sample(sentences, total),
        "a common word": [f"{word}{suffix}" for suffix in ("", "s", "ed") for word in COMMON_WORDS][
            :total
        ],
        "a report": [make_report(rng, texts, rng.choice(sentences)) for _ in range(total)],
    }


def make_report(rng: random.Random, texts: Mapping[Path, str], title: str) -> str:
    """Make a bug report: a title, prose, lines of code and a stack trace through a file."""
    path = rng.choice(sorted(texts))
    lines = [line for line in texts[path].splitlines() if line.strip()]
    start = rng.randrange(max(1, len(lines) - _REPORT_LINES))
    code = "\n".join(lines[start : start + _REPORT_LINES])
    prose = ". ".join(rng.sample(_SENTENCE.findall("\n".join(texts.values())), 4))
    return (
        f"{title}\n\nSince the last release this fails. {prose}.\n\n```python\n{code}\n```\n\n"
        f'Traceback (most recent call last):\n  File "{"/".join(path.parts[-2:])}", line {start + 1}, in run\n'
        f"    {lines[start].strip()}\nValueError: unexpected value\n"
    )


def print_costs(
    daemon: Daemon, roots: Sequence[Path], questions: Mapping[str, Sequence[str]]
) -> None:
    """Ask the questions of each kind, and print a row of the table."""
    sys.stdout.write(
        f"| question to {len(roots)} indexes | wall p50 ms | p95 | CPU ms"
        " | of one index: wall p50 ms | p95 | CPU ms | CPU ratio | n |\n|---|---|---|---|---|---|---|---|---|\n"
    )
    for kind, texts in questions.items():
        every = measure(daemon, texts, all_indexes=True)
        single = measure(daemon, texts, index=roots[len(roots) // 2].name)
        sys.stdout.write(
            f"| {kind} | {every.cells()} | {single.cells()}"
            f" | {every.cpu_ms / single.cpu_ms:.1f} | {len(texts) - _WARM_UP} |\n"
        )
        sys.stdout.flush()


def measure(daemon: Daemon, texts: Sequence[str], **parameters: object) -> Cost:
    """Ask each text once; the first ones warm up."""
    for text in texts[:_WARM_UP]:
        daemon.call("search", query=text, use_cache=False, **parameters)
    assert daemon.process is not None
    processes = [psutil.Process(daemon.process.pid), *daemon.postgres()]
    cpu_s = cpu_seconds(processes)
    wall_ms = []
    for text in texts[_WARM_UP:]:
        began = time.perf_counter()
        daemon.call("search", query=text, use_cache=False, **parameters)
        wall_ms.append((time.perf_counter() - began) * 1000)
    return Cost(wall_ms, (cpu_seconds(processes) - cpu_s) * 1000 / len(wall_ms))


if __name__ == "__main__":
    main()
