"""`grep` of the daemon and the command line against GNU grep and ripgrep on the same files, in turn.

    python -m benchmarks.grep [--files 10000] [--turns 15] [DIRECTORY ...]

Files are the Python files below the directories, by default those of the standard library and of
the installed packages, copied into one tree. The matching lines of each file are counted by the
daemon and by ripgrep: the counts must be equal. While greps run, the daemon is asked for its indexes
every few milliseconds: these times are the delays that a grep makes for other clients.
"""

import argparse
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import machine, spread, timed
from cocosearch_ipc.address import rpc_socket
from cocosearch_ipc.client import call
from tests.daemon import Daemon, make_daemon

PATTERNS = ("qzx", "should_retry", r"class \w+Error", r"self\.\w+\(", "def ", "import")
# Counted, but not timed: anchors, classes, alternatives, repetitions, boundaries, flags, text beyond
# ASCII. No blank of Unicode: it is one for ripgrep, and none for RE2.
COUNTED_PATTERNS = (
    *(
        r"^import re$",
        r"\bNone\b",
        r"[A-Z]{6,}_ID",
        r"foo|bar",
        r"x{3}",
        r"[ \t]+$",
        r"(?i)todo|fixme",
    ),
    *(r"[^\x00-\x7f]", r"\.\.\.", r"raise \w+\(.*%s", r"^\s*@\w+", r"ü", r"=\s*-?\d+\.\d+$"),
)
LIMIT = 200  # lines of a reply
PAGE = 1000
INDEX_S = 900.0
PAUSE_S = 0.003  # between two questions beside a grep


def main() -> int:
    """Make the tree, index it, compare and print; 1 if an answer differs from ripgrep's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directories", type=Path, nargs="*", metavar="DIRECTORY")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=15)
    arguments = parser.parse_args()
    directories = arguments.directories or [
        Path(sysconfig.get_path("purelib")),
        Path(sysconfig.get_path("stdlib")),
        Path(sysconfig.get_path("purelib", vars={"base": sys.base_prefix})),
    ]
    daemon = make_daemon()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        size = copy_files(directories, root, arguments.files)
        try:
            daemon.start()
            return compare(daemon, root, size, arguments.turns)
        finally:
            daemon.sweep()
            shutil.rmtree(daemon.home, ignore_errors=True)


def copy_files(directories: Sequence[Path], root: Path, count: int) -> int:
    """Copy at most `count` files of text; return the sum of their sizes in bytes."""
    size = copied = 0
    for number, directory in enumerate(directories):
        for path in sorted(directory.rglob("*.py")):
            data = path.read_bytes()
            if copied == count:
                return size
            name = path.relative_to(directory)
            if "site-packages" in name.parts or len(data) > 1 << 19 or not is_text(data):
                continue
            target = root / f"part{number}" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            copied += 1
            size += len(data)
    return size


def is_text(data: bytes) -> bool:
    """Return True for text that all three read alike, if it is more than blanks."""
    if not data.strip():
        return False
    try:
        return "\0" not in data.decode("utf-8")
    except UnicodeDecodeError:
        return False


def compare(daemon: Daemon, root: Path, size: int, turns: int) -> int:
    """Index the tree, compare all patterns, and print the table."""
    socket = rpc_socket(daemon.environment)
    call(socket, "index_codebase", {"path": str(root), "name": "tree"}, timeout_s=INDEX_S)
    while not call(socket, "sync", {"index": "tree", "timeout_ms": 60_000}, timeout_s=90)["fresh"]:
        time.sleep(0.2)
    searched = sorted(path for path, _ in counted_by_daemon(socket, "^", mode="files"))
    first = median(timed(lambda: grep(socket, "qzx"), 1))
    print(machine())
    print(f"{len(searched)} files, {size / 1e6:.1f} MB; the first grep {first / 1000:.2f} s")
    differences = 0
    for pattern in COUNTED_PATTERNS:
        counts = dict(counted_by_daemon(socket, pattern))
        if counts != counted_by_ripgrep(root, pattern, searched):
            differences += 1
            print(f"{pattern!r}: NOT as ripgrep")
    print(f"{len(COUNTED_PATTERNS)} other patterns: {differences} differ from ripgrep")
    for pattern in PATTERNS:
        counts = dict(counted_by_daemon(socket, pattern))
        is_equal = counts == counted_by_ripgrep(root, pattern, searched)
        differences += not is_equal
        print(row(daemon, socket, root, pattern, turns, sum(counts.values())), end="")
        print(", as ripgrep" if is_equal else ", NOT as ripgrep")
    print(f"beside greps, another client waits {spread(delays_beside(socket))}")
    daemon.stop()
    return int(differences > 0)


def row(daemon: Daemon, socket: str, root: Path, pattern: str, turns: int, line_count: int) -> str:
    """Return the medians of one pattern, in ms, and the ratios to GNU grep."""
    command = [str(daemon.bin / "cocosearchctl"), "grep", pattern, "--limit", str(LIMIT)]
    runs: dict[str, Callable[[], object]] = {
        "RPC": lambda: grep(socket, pattern),
        "GNU grep": lambda: run(["grep", "-rnE", pattern, "."], root),
        "ripgrep": lambda: run(["rg", "-n", "--no-ignore", "--hidden", pattern, "."], root),
        "CLI": lambda: run(command, root, daemon.environment),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, one_run in runs.items():
            times[name] += timed(one_run, 1)
    medians = {name: median(values) for name, values in times.items()}
    texts = ", ".join(f"{name} {value:.0f}" for name, value in medians.items())
    ratios = ", ".join(
        f"to {name} {medians['RPC'] / medians[name]:.2f}, CLI {medians['CLI'] / medians[name]:.2f}"
        for name in ("GNU grep", "ripgrep")
    )
    return f"{pattern!r}: {line_count:,} lines, ms {texts}; {ratios}"


def grep(socket: str, pattern: str, **parameters: Any) -> dict[str, Any]:
    """Ask the daemon."""
    request = {"pattern": pattern, "index": "tree", "limit": LIMIT} | parameters
    reply: dict[str, Any] = call(socket, "grep", request, timeout_s=60)
    return reply


def run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> bytes:
    """Run a program into a pipe; return its output."""
    return subprocess.run(
        command, cwd=folder, capture_output=True, check=False, env=environment
    ).stdout


def counted_by_daemon(socket: str, pattern: str, mode: str = "counts") -> Iterator[tuple[str, int]]:
    """Yield each file with matches and their number, page by page."""
    cursor: dict[str, str] = {}
    while True:
        reply = grep(socket, pattern, mode=mode, limit=PAGE, **cursor)
        if not reply["complete"] or not reply["fresh"]:
            raise RuntimeError(json.dumps(reply["notes"]))
        yield from ((file["path"], file["count"]) for file in reply["files"])
        if reply["cursor"] is None:
            return
        cursor = {"cursor": reply["cursor"]}


def counted_by_ripgrep(root: Path, pattern: str, searched: Sequence[str]) -> dict[str, int]:
    """Return the number of matching lines of each file that the daemon searches."""
    output = run(["rg", "-c", "--null", "--no-ignore", "--hidden", pattern, "."], root)
    rows = (line.split(b"\0") for line in output.splitlines())
    counts = {path.decode().removeprefix("./"): int(count) for path, count in rows}
    return {path: counts[path] for path in searched if path in counts}


def delays_beside(socket: str) -> list[float]:
    """Return the wall milliseconds of small requests while greps with many lines run."""
    ended = threading.Event()

    def keep_grepping() -> None:
        for pattern in PATTERNS * 4:
            grep(socket, pattern, limit=PAGE)
        ended.set()

    thread = threading.Thread(target=keep_grepping)
    thread.start()
    delays = list[float]()
    while not ended.is_set():
        delays += timed(lambda: call(socket, "list_indexes", {}), 1)
        time.sleep(PAUSE_S)
    thread.join()
    return delays


if __name__ == "__main__":
    sys.exit(main())
