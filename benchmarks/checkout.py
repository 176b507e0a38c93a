"""Time of a checkout that changes 5,000 files, there and back, through the real programs and git.

    python -m benchmarks.checkout [--files N] [--lines N] [--processes N]

The repository is made of the standard library of the running Python, cut into files of about 120
lines, or of as many as are said. Its other branch differs in every file: most have one definition
edited, a tenth is moved, a tenth deleted and as many are new. Prints, for each switch, the time and
the CPU seconds of all processes from the end of git until everything is searchable, and how many
embeddings were computed. With processes that do bulk work beside the indexing process
(`indexing.processes`), theirs are `workers`: where each has a core of its own, it is `worker` that
takes the longest.
"""

import argparse
import shutil
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from benchmarks.measure import cpu_seconds, machine, say
from tests.daemon import Daemon, git, make_daemon

LINES = 120  # of a file
EMBEDDINGS = ("computed", "reused")


def main() -> None:
    """Make the repository, switch, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--lines", type=int, default=LINES, help="of a file, about")
    add_processes(parser)
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="cocosearch-bench-"))
    root = work / "root"
    daemon = make_daemon(**worker_settings(arguments.processes))
    say(machine())
    try:
        say(f"repository: {make_repository(root, arguments.files, arguments.lines)}")
        daemon.start()
        measured(
            daemon,
            "first index",
            lambda: daemon.ctl("up", str(root), "--name", "bench", "--wait", limit_s=3600),
        )
        for branch in ("other", "main", "other", "main"):
            git(root, "switch", "--quiet", branch)
            measured(daemon, f"switch to {branch}", lambda: None)
        daemon.stop()
    finally:
        daemon.sweep()
        shutil.rmtree(daemon.home, ignore_errors=True)
        shutil.rmtree(work, ignore_errors=True)


def add_processes(parser: argparse.ArgumentParser) -> None:
    """The argument that says how many processes do bulk work beside the indexing process."""
    parser.add_argument(
        "--processes", type=int, help="beside the indexing process; by itself as the daemon chooses"
    )


def worker_settings(processes: int | None) -> dict[str, str]:
    """Return the environment that sets the number of worker processes."""
    return {} if processes is None else {"COCOSEARCH_INDEXING_PROCESSES": str(processes)}


def measured(daemon: Daemon, title: str, act: Callable[[], object], index: str = "bench") -> None:
    """One figure: from now until in sync."""
    cpu_before, began = parts(daemon), time.perf_counter()
    act()
    daemon.ctl("sync", "--index", index, "--timeout", "600", limit_s=700)
    wall = time.perf_counter() - began
    after = parts(daemon)
    spent = {name: after[name] - cpu_before[name] for name in after if name not in EMBEDDINGS}
    figures = ", ".join(f"{name} {seconds:.2f}" for name, seconds in spent.items())
    texts = ", ".join(f"{what} {after[what] - cpu_before[what]:.0f}" for what in EMBEDDINGS)
    say(
        f"{title:<16} {wall:6.2f} s wall, {sum(spent.values()):6.2f} s CPU ({figures}); embeddings: {texts}"
    )


def parts(daemon: Daemon) -> dict[str, float]:
    """CPU seconds of each part of a daemon, and texts embedded.

    `worker` is the indexer process, `workers` are its processes, and `analysis` are the other
    processes of the daemon, with those that have ended.
    """
    assert daemon.process is not None
    benchmark = psutil.Process(daemon.process.pid)
    postgres = daemon.postgres()
    texts = daemon.json("status")["worker"]
    children = benchmark.children()
    worker = [child for child in children if child.pid == texts["pid"]]
    servers = {process.pid for process in postgres}
    analysis_processes = [
        child for child in children if child not in worker and child.pid not in servers
    ]
    alone = sum(map(own_seconds, worker))
    return {
        "daemon": own_seconds(benchmark),
        "analysis": cpu_seconds([benchmark, *analysis_processes]) - own_seconds(benchmark),
        "worker": alone,
        "workers": cpu_seconds(
            [*worker, *(child for process in worker for child in process.children())]
        )
        - alone,
        "PostgreSQL": cpu_seconds(postgres),
        **{what: texts[what] for what in EMBEDDINGS},
    }


def own_seconds(process: psutil.Process) -> float:
    """Return the CPU seconds of the process without its children."""
    times = process.cpu_times()
    return float(times.user + times.system)


def make_repository(root: Path, files: int, length: int) -> str:
    """Two branches, `main` and `other`, with files of about `length` lines; a line that says what
    they are.
    """
    texts = list(zip(range(files), pieces(length), strict=False))
    for number, lines in texts:
        write(root, number, "package", lines)
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "main")
    git(root, "switch", "--quiet", "--create", "other")
    for number, lines in texts:
        if number % 10 == 0:
            place(root, number, "package").unlink()
            write(root, number, "moved", lines)
        elif number % 10 == 1:
            place(root, number, "package").unlink()
            write(root, number + files, "package", [f"# new {number}", *reversed(lines)])
        else:
            write(root, number, "package", edited(lines, number))
    git(root, "add", "--all", ".")
    git(root, "commit", "--quiet", "--message", "other")
    git(root, "switch", "--quiet", "main")
    size = sum(len("\n".join(lines)) for _, lines in texts)
    return f"{len(texts)} files, {size / 1e6:.1f} MB; the other branch differs in all of them"


def pieces(length: int = LINES) -> Iterator[list[str]]:
    """The standard library in pieces of about `length` lines, cut at blank lines."""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if "site-packages" in path.parts or "lib2to3" in path.parts:
            continue
        piece: list[str] = []
        for line in path.read_text("utf-8", "replace").splitlines():
            piece.append(line)
            if len(piece) >= length and not line.strip():
                yield piece
                piece = []


def edited(lines: list[str], number: int) -> list[str]:
    """One line more, in the middle."""
    middle = len(lines) // 2
    indent = lines[middle][: len(lines[middle]) - len(lines[middle].lstrip())]
    return [*lines[:middle], f"{indent}# edited on the other branch, {number}", *lines[middle:]]


def place(root: Path, number: int, top: str) -> Path:
    """Return the path of a file."""
    return root / top / f"part{number % 50}" / f"module_{number}.py"


def write(root: Path, number: int, top: str, lines: list[str]) -> None:
    """One file."""
    path = place(root, number, top)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
