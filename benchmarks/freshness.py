"""Time until a save is noticed: the daemon beside Watchman and watchfiles, in turn.

    python -m benchmarks.freshness [--files 1000] [--turns 200]

All three watch one root of small files, and take turns, so that they share whatever load there is.
The CPU of the daemon's processes for a save depends less on that load than the clock does. Watchman
(Debian's package; left out where it is missing) learns that a file changed; the daemon has it
parsed, embedded and committed.
"""

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import psutil
import watchfiles

from benchmarks.main_job import everything, say
from benchmarks.measure import cpu_seconds, machine, spread
from benchmarks.watching import populate
from cocosearch_ipc.client import call
from tests.daemon import Daemon, make_daemon

SYNC_MS = 10_000
IDLE_S = 20.0


class Watchman:
    """A server of its own, asked over its socket in JSON, one connection for each question as
    `cocosearchctl` does.
    """

    def __init__(self, home: Path, root: Path) -> None:
        self._socket, self._root = home / "watchman.sock", root
        files = [
            f"--sockname={self._socket}",
            f"--statefile={home / 'state'}",
            f"--logfile={home / 'log'}",
        ]
        self._process = subprocess.Popen(
            ["watchman", "--foreground", "--no-save-state", *files, "--log-level=0"]
        )
        self.process = psutil.Process(self._process.pid)
        end = time.monotonic() + 30
        while not self._socket.exists():
            assert time.monotonic() < end, "watchman does not start"
            time.sleep(0.05)
        self.ask("watch", str(root))

    def ask(self, *command: Any) -> Any:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._socket))
            connection.sendall(json.dumps(command).encode() + b"\n")
            with connection.makefile("rb") as reader:
                reply = json.loads(reader.readline())
        assert "error" not in reply, reply
        return reply

    def sync(self) -> str:
        """Its clock, after a cookie."""
        clock: str = self.ask("clock", str(self._root), {"sync_timeout": SYNC_MS})["clock"]
        return clock

    def since(self, clock: str) -> list[str]:
        """Names that changed, after a cookie."""
        params = {"since": clock, "fields": ["name"], "sync_timeout": SYNC_MS}
        names: list[str] = self.ask("query", str(self._root), params)["files"]
        return names

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)


@contextmanager
def default_watchfiles(root: Path) -> Iterator["Queue[tuple[str, float]]"]:
    """(file name, when it was told) of what `watchfiles.watch(root)` says."""
    events, stop = Queue[tuple[str, float]](), threading.Event()

    def listen() -> None:
        for changes in watchfiles.watch(root, stop_event=stop, rust_timeout=500):
            now = time.perf_counter()
            for _, path in changes:
                events.put((Path(path).name, now))

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    time.sleep(1)
    yield events
    stop.set()
    thread.join()


class Daemons:
    """The measured daemons, turn by turn."""

    def __init__(self, daemon: Daemon, root: Path, watchman: Watchman | None) -> None:
        self._rpc, self._root, self._watchman = (
            str(daemon.home / "run" / "rpc.sock"),
            root,
            watchman,
        )
        self._processes = everything(daemon)
        self.found: dict[str, list[float]] = defaultdict(list)
        self.cpu: dict[str, float] = defaultdict(float)  # seconds of the daemon's processes

    def idle_turn(self) -> None:
        """Nothing is pending."""
        with self._timed("sync, nothing pending: cocosearchd"):
            assert call(self._rpc, "sync", {"index": "bench"})["fresh"]
        if self._watchman is not None:
            with self._timed("sync, nothing pending: Watchman"):
                self._watchman.sync()
        reply = call(self._rpc, "search", {"query": "value", "index": "bench", "limit": 1})
        self.found["the wait inside of a cached query"].append(reply["timings_ms"]["sync"])

    def saving_turn(self, number: int) -> None:
        """One file is saved for each."""
        word = f"quokka{number}"
        with self._timed("save -> in sync and searchable: cocosearchd"):
            self._save(f"synced_{number % 10}", word)
            assert call(self._rpc, "sync", {"index": "bench", "timeout_ms": SYNC_MS})["fresh"]
        with self._timed("save -> searchable, nobody waits: cocosearchd"):
            self._save(f"polled_{number % 10}", f"wombat{number}")
            request = {
                "query": f"wombat{number}",
                "index": "bench",
                "limit": 1,
                "sync_timeout_ms": 0,
            }
            while not any(
                f"wombat{number}" in hit["content"]
                for hit in call(self._rpc, "search", request)["results"]
            ):
                pass
        if self._watchman is not None:
            clock = self._watchman.sync()
            with self._timed("save -> known to have changed: Watchman"):
                self._save(f"watched_{number % 10}", word)
                assert f"watched_{number % 10}.py" in self._watchman.since(clock)

    def watchfiles_turn(self, number: int, events: "Queue[tuple[str, float]]") -> None:
        """Until its default says so."""
        began = time.perf_counter()
        self._save(f"told_{number}", "x")
        while (item := events.get(timeout=30))[0] != f"told_{number}.py":
            pass
        self.found["save -> known to have changed: watchfiles' default"].append(
            (item[1] - began) * 1000
        )

    def _save(self, name: str, word: str) -> None:
        (self._root / f"{name}.py").write_text(f"def {word}():\n    return 1\n")

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        cpu_before = cpu_seconds(self._processes)
        began = time.perf_counter()
        yield
        self.found[what].append((time.perf_counter() - began) * 1000)
        self.cpu[what] += cpu_seconds(self._processes) - cpu_before


def measure(daemon: Daemon, root: Path, turns: int, watchman: Watchman | None) -> None:
    """All turns, and what the processes used for them."""
    measured = Daemons(daemon, root, watchman)
    for _ in range(turns):
        measured.idle_turn()
    for number in range(turns):
        measured.saving_turn(number)
    with default_watchfiles(root) as events:
        for number in range(max(1, turns // 5)):
            measured.watchfiles_turn(number, events)
    for what, values in measured.found.items():
        say(what, spread(values))
        if what.endswith("cocosearchd"):
            say(f"{what}, CPU", f"{measured.cpu[what] / len(values) * 1000:.1f} ms on average")
    processes = {"cocosearchd, all processes": everything(daemon)}
    if watchman is not None:
        processes["Watchman"] = [watchman.process]
    time.sleep(10)
    cpu_before = {name: cpu_seconds(process) for name, process in processes.items()}
    time.sleep(IDLE_S)
    for name, process in processes.items():
        say(
            f"idle CPU: {name}",
            f"{(cpu_seconds(process) - cpu_before[name]) / IDLE_S:.2%} of a core over {IDLE_S:.0f} s",
        )


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=200)
    chosen = parser.parse_args()
    sys.stdout.write(f"{machine()}\n")
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cocosearch-bench-")))
        root = work / "root"
        root.mkdir()
        populate(root, chosen.files)
        # In a repository Watchman's cookies are made in `.git`, and disturb nobody.
        subprocess.run(["git", "init", "-q", root], check=True)
        daemon = make_daemon()
        stack.callback(shutil.rmtree, daemon.home, ignore_errors=True)
        stack.callback(daemon.sweep)
        watchman = Watchman(work, root) if shutil.which("watchman") else None
        if watchman is not None:
            stack.callback(watchman.close)
        daemon.start()
        daemon.ctl("up", str(root), "--name", "bench", "--wait", limit_s=3600)
        time.sleep(5)  # young files are read again
        measure(daemon, root, chosen.turns, watchman)
        daemon.stop()


if __name__ == "__main__":
    main()
