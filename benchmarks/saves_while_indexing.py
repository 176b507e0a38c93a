"""Time until a save is found while 10,000 files are indexed: a file is saved every 200 ms.

    python -m benchmarks.saves_while_indexing [--files N] [--processes N]

Saves in an index at rest come first, in the same minute and on the same daemon: the ratio is what
bulk work costs a person. Then the same while a first index of N files is made, in the index that is
being made and in the one at rest.
"""

import argparse
import shutil
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.checkout import LINES, add_processes, measured, pieces, worker_settings, write
from benchmarks.measure import machine, percentile, say, spread
from cocosearch_ipc.client import call
from tests.daemon import Daemon, make_daemon

EVERY_S = 0.2
IDLE_SAVES = 50
PATIENCE_S = 30.0


def main() -> None:
    """Run all measurements and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=10_000)
    add_processes(parser)
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="cocosearch-bench-"))
    daemon = make_daemon(**worker_settings(arguments.processes))
    say(machine())
    try:
        rest, busy = work / "rest", work / "busy"
        make_files(rest, 500)
        make_files(busy, arguments.files)
        daemon.start()
        daemon.ctl("up", str(rest), "--name", "rest", "--wait", limit_s=600)
        idle = Saves(daemon, "rest", rest)
        for _ in range(IDLE_SAVES):
            idle.one()
        say(f"save to searchable, idle                  {spread(idle.found)}")
        crowd(daemon, rest, busy, idle.found)
        daemon.stop()
    finally:
        daemon.sweep()
        shutil.rmtree(daemon.home, ignore_errors=True)
        shutil.rmtree(work, ignore_errors=True)


def crowd(daemon: Daemon, rest: Path, busy: Path, idle: list[float]) -> None:
    """Saves in turns in both indexes until the first index of one of them is made."""
    done = threading.Event()

    def index() -> None:
        try:
            up = ("up", str(busy), "--name", "busy", "--wait")
            measured(daemon, "first index", lambda: daemon.ctl(*up, limit_s=3600), "busy")
        finally:
            done.set()

    bulk = threading.Thread(target=index)
    bulk.start()
    while "busy" not in {index["name"] for index in daemon.json("status")["indexes"]}:
        time.sleep(0.1)
    saves = {
        "the index being made": Saves(daemon, "busy", busy),
        "another index": Saves(daemon, "rest", rest),
    }
    while not done.is_set():
        for rates in saves.values():
            rates.one()
    bulk.join()
    for name, rates in saves.items():
        say(f"save to searchable, {name:<21} {spread(rates.found)}")
        ratios = [percentile(rates.found, share) / percentile(idle, share) for share in (0.5, 0.95)]
        say(f"ratio to idle of the same minute          p50 {ratios[0]:.1f}, p95 {ratios[1]:.1f}")


class Saves:
    """Milliseconds from the end of write() to the first answer that shows it, without waiting for
    freshness.
    """

    def __init__(self, daemon: Daemon, index: str, root: Path) -> None:
        self._socket, self._index, self._root = str(daemon.home / "run" / "rpc.sock"), index, root
        self.found: list[float] = []

    def one(self) -> None:
        """Save, find, and rest for what is left of `EVERY_S`."""
        word = f"wombat{self._index}{len(self.found)}"
        (self._root / f"saved_{len(self.found) % 10}.py").write_text(
            f"def {word}():\n    return 1\n"
        )
        began = time.perf_counter()
        params = {"query": word, "index": self._index, "sync_timeout_ms": 0, "limit": 1}
        while True:
            results = call(self._socket, "search", params)["results"]
            if results and word in results[0]["content"]:
                break
            assert time.perf_counter() - began < PATIENCE_S, word
            time.sleep(0.005)
        took = time.perf_counter() - began
        self.found.append(took * 1000)
        time.sleep(max(0.0, EVERY_S - took))


def make_files(root: Path, files: int) -> None:
    """Parts of the standard library, as often as needed; no two files are equal."""
    texts = list(pieces())
    for number in range(files):
        write(root, number, "package", [f"# {number}", *texts[number % len(texts)][: LINES // 2]])


if __name__ == "__main__":
    main()
