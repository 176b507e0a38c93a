"""Memory that is returned: a daemon indexes several roots, answers, rests, and clears all of them.

    python -m benchmarks.memory [--roots 12] [--sources DIRECTORY ...] [--megabytes 40] [--rest 60] [--json]

Prints PSS by role (see `tests.footprint`) at a fresh start, after each root, a minute after the
last one, and every ten seconds after `clear` of all; then the state directory by entry. The sources
are the Python files of this interpreter's standard library and of the environment, copied, so that
no built-in exclusion leaves them out.
"""

import argparse
import json
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measure import machine
from tests.daemon import Daemon, make_daemon
from tests.footprint import MB, Footprint, measured_footprint, state_bytes

SETTLED_S = 5.0  # the processes of a fresh start are ready by then
QUESTIONS = (
    "where is the configuration read",
    "parse",
    "retry after a failure",
    "lang:python path:**/test* assert",
)


def main() -> None:
    """Measure, print, and leave nothing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--roots", type=int, default=12)
    parser.add_argument("--sources", type=Path, nargs="*", default=python_sources())
    parser.add_argument(
        "--megabytes", type=float, default=40.0, help="of all roots together, about"
    )
    parser.add_argument(
        "--rest", type=float, default=60.0, help="seconds to rest before and after clear"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    corpus = Path(tempfile.mkdtemp(prefix="cocosearch-memory-"))
    daemon = make_daemon()
    sys.stdout.write(f"{machine()}\n")
    try:
        roots = make_roots(options.sources, corpus, options.roots, options.megabytes)
        table = dict(measurements(daemon, roots, options.rest))
    finally:
        daemon.sweep()
        shutil.rmtree(daemon.home, ignore_errors=True)
        shutil.rmtree(corpus, ignore_errors=True)
    if options.json:
        sys.stdout.write(
            json.dumps({moment: footprint.total for moment, footprint in table.items()}) + "\n"
        )


def measurements(
    daemon: Daemon, roots: Sequence[Path], rest_s: float
) -> Iterator[tuple[str, Footprint]]:
    """The footprint at each moment, printed as it is taken. Starts and stops the daemon."""
    daemon.start()
    time.sleep(SETTLED_S)
    yield reported(daemon, "fresh start")
    for number, root in enumerate(roots, 1):
        daemon.ctl("up", str(root), "--name", f"root{number}", "--wait", limit_s=3600)
        for question in QUESTIONS:
            daemon.call("search", query=question, index=f"root{number}")
        yield reported(daemon, f"{number} roots")
    yield from resting(daemon, "after work", rest_s)
    daemon.clear()
    yield from resting(daemon, "after clear", rest_s)
    for name, size in sorted(state_bytes(daemon).items()):
        sys.stdout.write(f"state/{name}: {size / MB:.1f} MB\n")
    daemon.stop()


def resting(daemon: Daemon, moment: str, rest_s: float) -> Iterator[tuple[str, Footprint]]:
    """Every ten seconds, without work."""
    began = time.monotonic()
    yield reported(daemon, f"{moment}, 0 s")
    while (passed := time.monotonic() - began) < rest_s:
        time.sleep(min(10.0, rest_s - passed))
        yield reported(daemon, f"{moment}, {time.monotonic() - began:.0f} s")


def reported(daemon: Daemon, moment: str) -> tuple[str, Footprint]:
    """A moment and its footprint, printed."""
    footprint = measured_footprint(daemon)
    sys.stdout.write(f"{moment}: {footprint}\n")
    sys.stdout.flush()
    return moment, footprint


def python_sources() -> list[Path]:
    """The standard library and the environment's packages."""
    return [Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))]


def make_roots(sources: Sequence[Path], corpus: Path, count: int, megabytes: float) -> list[Path]:
    """Copy Python files of `sources`, evenly chosen, into `count` roots of about the same size."""
    every = [
        (source, path)
        for source in sources
        for path in sorted(source.rglob("*.py"))
        if path.is_file()
    ]
    size = sum(path.stat().st_size for _, path in every)
    files = every[:: max(1, round(size / MB / megabytes))]
    total, done = sum(path.stat().st_size for _, path in files), 0
    roots = [corpus / f"root{number + 1}" for number in range(count)]
    for source, path in files:
        root = roots[min(count - 1, done * count // max(total, 1))]
        done += path.stat().st_size
        names = [
            name.replace("site-packages", "packages") for name in path.relative_to(source).parts
        ]
        target = root.joinpath(source.name.replace("site-packages", "packages"), *names)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    sys.stdout.write(f"{len(files)} files, {total / MB:.1f} MB in {count} roots\n")
    return roots


if __name__ == "__main__":
    main()
