"""The long test: rounds of random changes to several roots, with kills of the daemon, the indexer
process and PostgreSQL.

    python -m tests.flows.soak [--rounds 1000] [--ops 400] [--seed 1] [--keep]

In a round, threads change three roots at once, somebody saves and asks all the time, and most
rounds have a fault: a kill -9, or a stopped daemon whose queue of events overflows before it goes
on. Then everything is asked to be in sync, and the rows, their text and the answers are compared
with the disk. Ends with 1 if anything ever differed.
"""

import argparse
import asyncio
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cocosearch_ipc.client import CallFailed, call
from cocosearchd.config.settings import DatabaseSettings, SearchSettings
from cocosearchd.forms.path_forms import path_bytes, path_text
from cocosearchd.search.answers.clipped_lines import clip_lines
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.chunk_reads import file_chunks
from tests.daemon import Daemon, make_daemon
from tests.watching.operations import Operations, as_git_sees, difference

# name -> (may the root itself be replaced, is it a repository); threads for each.
ROOTS = {"plain": (False, False), "repository": (False, True), "replaced": (True, True)}
THREADS = 2
KILLS = ("daemon", "worker", "postgres", "daemon and postgres")
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
SYNC_S = 300.0  # niced, and beside others: only somebody who never gets there takes this long
PLAIN = re.compile(rb"[a-zA-Z.]+")
WHOLE = re.compile(rb"(def word\d+\(\):\n    return \d+\n)+")  # `Operations.content`, not cut off
ANSWERS = 3  # questions for each root after a round


@dataclass
class Plot:
    """One root, who changes it, and the empty repository that reads its ignore files."""

    name: str
    path: bytes
    hands: list[Operations]
    scratch: bytes


@dataclass
class Tally:
    """Counts of the events so far."""

    counts: Counter[str] = field(default_factory=Counter)
    divergences: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str, number: int = 1) -> None:
        with self.lock:
            self.counts[what] += number

    def differs(self, what: str) -> None:
        with self.lock:
            self.divergences.append(what)
        say(f"DIVERGENCE {what}")


def say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


class Soak:
    """One daemon and its roots, through all rounds."""

    def __init__(self, base: Path, daemon: Daemon, seed: int, ops: int) -> None:
        self.daemon, self.seed, self.ops = daemon, seed, ops
        self.rng = random.Random(seed)
        self.tally = Tally()
        self.plots = [self._plot(base, number, name) for number, name in enumerate(ROOTS)]
        self.socket = str(daemon.home / "run" / "rpc.sock")
        self._struck = threading.Event()
        self._log_at = 0
        self._probes = 0

    def _plot(self, base: Path, number: int, name: str) -> Plot:
        replaced, repository = ROOTS[name]
        (base / name).mkdir()
        path, scratch = os.fsencode(base / name), os.fsencode(base / f"{name}.scratch")
        subprocess.run([b"git", b"init", b"-q", b"--bare", scratch], check=True)
        seeds = [self.seed * 1000 + number * 10 + thread for thread in range(THREADS)]
        hands = [
            Operations(path, seed, replace_root=replaced, repository=repository) for seed in seeds
        ]
        hands[0].begin()
        return Plot(name, path, hands, scratch)

    # -- a round

    def begin(self) -> None:
        self.daemon.start()
        (Path(os.fsdecode(self.plots[0].path)) / "probe").mkdir()
        for plot in self.plots:
            self.daemon.ctl("up", os.fsdecode(plot.path), "--name", plot.name)

    def round(self, number: int) -> None:
        """Changes with a fault among them, then the comparison."""
        faults = self._faults(number)
        for plot in self.plots:
            plot.hands[0].thin_out()
        done = threading.Event()
        self._struck.clear()
        hands = [
            threading.Thread(target=self._change, args=(hand,))
            for plot in self.plots
            for hand in plot.hands
        ]
        prober = threading.Thread(target=self._probe, args=(done,))
        for thread in (*hands, prober):
            thread.start()
        for fault in faults:
            time.sleep(self.rng.uniform(0, 0.3))
            fault()
        self._struck.set()
        for thread in hands:
            thread.join()
        done.set()
        prober.join()
        self._compare(number)
        self._read_log()

    def _change(self, hand: Operations) -> None:
        """The second half comes after the first fault has struck, so that whoever starts again
        meets changes.
        """
        hand.said.clear()
        share = -(-self.ops // (len(ROOTS) * THREADS))
        for number in range(share):
            if number == share // 2:
                self._struck.wait()
            hand.step()
            if hand.rng.random() < 0.3:
                time.sleep(hand.rng.random() * 0.02)

    def _faults(self, number: int) -> list[Callable[[], None]]:
        """Two rounds of five have a kill, two an overflow: by number, so that a thousand have more
        than 200 of each.
        """
        faults = list[Callable[[], None]]()
        if number % 5 in (1, 3):
            victim = KILLS[number // 5 % len(KILLS)]
            faults.append(lambda: self._kill(victim))
        if number % 5 in (2, 3):
            faults.append(self._overflow)
        return faults

    def _kill(self, victim: str) -> None:
        """kill -9, and start again what does not start by itself; changes go on meanwhile."""
        self.tally.count(f"kill -9 {victim}")
        if victim == "worker":
            self._kill_worker()
        if "postgres" in victim:
            self.daemon.kill_postgres()
        if "daemon" in victim:
            self.daemon.kill()
            self._struck.set()
            time.sleep(self.rng.uniform(0, 0.2))
            self.daemon.start()

    def _kill_worker(self) -> None:
        try:
            pid = call(self.socket, "status", {})["worker"]["pid"]
            if pid:
                os.kill(pid, signal.SIGKILL)
        except (CallFailed, ProcessLookupError):
            self.tally.count("worker was not there to be killed")

    def _overflow(self) -> None:
        """A stopped daemon reads no events: more than the queue holds, and what comes after them is
        lost.
        """
        process, plot = self.daemon.process, self.rng.choice(self.plots)
        assert process is not None
        self._struck.set()
        self._in_sync(plot.name, limit_s=5)  # until it listens at all, nothing can be lost
        noise = [Path(os.fsdecode(plot.path), name) for name in ("noise0.py", "noise1.py")]
        process.send_signal(signal.SIGSTOP)
        # Until all threads have stopped, one of them goes on reading events: on a busy machine,
        # more than are too many.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        try:
            for path in noise:
                path.touch()
            for turn in range(int(QUEUE.read_text()) + 200):
                os.utime(noise[turn % 2])  # equal neighbours are one event, so two names take turns
            for _ in range(10):
                plot.hands[0].step()
        except FileNotFoundError:
            self.tally.count("root was replaced during an overflow")
        finally:
            process.send_signal(signal.SIGCONT)

    def _circumstances(self, request: dict[str, Any], reply: dict[str, Any]) -> str:
        """Describe a wrong answer: how it came to be, and whether the next one is right."""
        details = {name: reply[name] for name in ("as_of", "cache", "timings_ms")}
        hits = [(hit["path"], hit["match_type"], hit["content"][:60]) for hit in reply["results"]]
        try:
            again = call(self.socket, "search", request | {"limit": 3}, timeout_s=30)
        except CallFailed as error:
            return f"{details}, {hits}; asked again: {error}"
        return f"{details}, {hits}; asked again: {again['as_of']}, {[hit['path'] for hit in again['results']]}"

    def _probe(self, done: threading.Event) -> None:
        """Save and ask, all the time: an answer that calls itself fresh must hold what was saved
        before it.
        """
        directory = Path(os.fsdecode(self.plots[0].path)) / "probe"
        while not done.is_set():
            self._probes += 1
            word = f"probe{self.seed}x{self._probes}"
            (directory / f"page{self._probes % 5}.md").write_text(
                f"# {word}\n\nThis page says {word}.\n"
            )
            request = {
                "query": word,
                "index": self.plots[0].name,
                "limit": 1,
                "sync_timeout_ms": 2000,
            }
            try:
                reply = call(self.socket, "search", request, timeout_s=30)
            except CallFailed:
                self.tally.count("questions without an answer")
                time.sleep(0.02)
                continue
            self.tally.count(
                "questions answered fresh" if reply["fresh"] else "questions answered not fresh"
            )
            if reply["fresh"] and not any(word in hit["content"] for hit in reply["results"]):
                self.tally.differs(
                    f"seed {self.seed}: fresh, but {word} was not found: {self._circumstances(request, reply)}"
                )

    # -- the comparison

    def _compare(self, number: int) -> None:
        for plot in self.plots:
            where = f"seed {self.seed}, round {number}, {plot.name}"
            reason = self._in_sync(plot.name)
            if reason is not None:
                self.tally.differs(f"{where}: not in sync after {SYNC_S:.0f} s: {reason}")
                continue
            disk = as_git_sees(plot.path, plot.scratch)
            stored, torn = asyncio.run(self._stored(plot.name))
            if stored != disk:
                self.tally.differs(
                    f"{where}: {difference(stored, disk)}; {self._heals(plot)}; {plot.hands[0].said[-40:]}"
                )
            for path in torn:
                self.tally.differs(f"{where}: {path}: its chunks are not its text")
            self._ask(where, plot, disk)

    def _heals(self, plot: Plot) -> str:
        """Return whether the answer was only late."""
        time.sleep(3)
        self._in_sync(plot.name)
        right = asyncio.run(self._stored(plot.name))[0] == as_git_sees(plot.path, plot.scratch)
        return "right three seconds later" if right else "still wrong three seconds later"

    def _in_sync(self, index: str, limit_s: float = SYNC_S) -> str | None:
        """None, or why not."""
        end, reason = time.monotonic() + limit_s, "no answer"
        while time.monotonic() < end:
            try:
                reply = call(
                    self.socket,
                    "sync",
                    {"index": index, "timeout_ms": min(10_000, int(limit_s * 1000))},
                )
                if reply["fresh"]:
                    return None
                reason = f"{reply['reason']} {reply['pending']}"
            except CallFailed as error:
                reason = error.message
            time.sleep(0.1)
        return reason

    async def _stored(self, index: str) -> tuple[dict[bytes, bytes], list[str]]:
        """The files of an index (path -> hash of the content), and those whose rows are not what
        the file says.

        Spare rows are counted: none may be without a name, and none named without being there.
        """
        async with Database.open(
            call(self.socket, "status", {})["store"]["dsn"], DatabaseSettings()
        ) as db:
            record = next(
                record for record in await index_records.list_indexes(db) if record.name == index
            )
            files = [
                file
                for file in await index_records.file_records(db, record)
                if not file.skip_reason
            ]
            root = next(plot.path for plot in self.plots if plot.name == index)
            torn = {
                file.path
                async for file in file_chunks(db, record, None)
                if not all(
                    says(root, file.path, c.start_byte, c.end_byte, c.content) for c in file.chunks
                )
            }
            torn |= set(await index_records.damaged_files(db, record))
        return {
            path_bytes(file.path): file.content_hash
            for file in files
            if file.language in ("python", "markdown")
        }, sorted(torn)

    def _ask(self, where: str, plot: Plot, disk: dict[bytes, bytes]) -> None:
        """Words of files that are there are found; whatever is found is on the disk as it is
        shown.
        """
        plain = sorted(path for path in disk if PLAIN.fullmatch(path.rpartition(b"/")[2]))
        for path in self.rng.sample(plain, min(ANSWERS, len(plain))):
            data = Path(os.fsdecode(plot.path), os.fsdecode(path)).read_bytes()
            definitions = data.split(b"def ")
            if len(definitions) < 2 or b"(" not in definitions[1]:
                continue
            word = definitions[1].partition(b"(")[0].decode()
            # A file twelve folders deep may rank below 200 others; among those of its name it must
            # be there.
            same_name = {"paths": [f"**/{path.rpartition(b'/')[2].decode()}"]}
            if not self._finds(where, plot, word, {}) and not self._finds(
                where, plot, word, same_name
            ):
                self.tally.differs(f"{where}: {word} of {path!r} is not found")
            if path.endswith(b".py") and WHOLE.fullmatch(data):
                self._define(where, plot, word, path_text(path))

    def _define(self, where: str, plot: Plot, word: str, path: str) -> None:
        """The code graph knows the definition in a file, and none that is not on the disk."""
        request = {"target": word, "index": plot.name, "sync_timeout_ms": 60_000}
        try:
            reply = call(self.socket, "definition", request)
        except CallFailed as error:
            self.tally.differs(f"{where}: {word} of {path!r} is not defined: {error.message}")
            return
        paths = {item["path"] for name in reply["names"] for item in name["definitions"]}
        self.tally.count("definitions compared", len(paths))
        if path not in paths:
            self.tally.differs(f"{where}: {word} is not defined in {path!r}, but in {paths}")
        for defining in paths:
            file = Path(os.fsdecode(plot.path), os.fsdecode(path_bytes(defining)))
            if not file.exists() or word.encode() not in file.read_bytes():
                self.tally.differs(f"{where}: {word} is not on disk in {defining!r}")

    def _finds(self, where: str, plot: Plot, word: str, more: dict[str, Any]) -> bool:
        """Return whether a word is among the best results, after comparing them with the disk."""
        request = {
            "query": word,
            "index": plot.name,
            "limit": 200,
            "sync_timeout_ms": 60_000,
        } | more
        reply = call(self.socket, "search", request)
        for hit in reply["results"]:
            if not says(
                plot.path,
                hit["path"],
                hit["start_byte"],
                hit["end_byte"],
                hit["content"],
                as_shown=True,
            ):
                self.tally.differs(
                    f"{where}: {hit['path']} is shown as it is not, fresh: {reply['fresh']}"
                )
        return any(word in hit["content"] for hit in reply["results"])

    def _read_log(self) -> None:
        with (self.daemon.home / "log").open("rb") as log:
            log.seek(self._log_at)
            news = log.read()
            self._log_at = log.tell()
        self.tally.count("overflows seen", news.count(b"queue of events overflowed"))
        failed = [line for line in news.splitlines() if b'"task_failed"' in line]
        self.tally.count("tasks that failed", len(failed))
        for line in failed:
            say(line.decode("utf-8", "replace"))
        self.tally.count("tracebacks", news.count(b"Traceback"))


def says(
    root: bytes, path: str, start: int, end: int, text: str, *, as_shown: bool = False
) -> bool:
    """Return whether the file holds the text at these bytes; `as_shown`: with its long lines cut,
    as in answers.
    """
    try:
        data = Path(os.fsdecode(root), os.fsdecode(path_bytes(path))).read_bytes()
    except OSError:
        return False
    content = data[start:end].decode("utf-8", "replace")
    return text == (clip_lines(content, SearchSettings().line_width) if as_shown else content)


@contextmanager
def soaking(
    seed: int, ops: int, *, keep: bool = False, cluster: Path | None = None
) -> Iterator[Soak]:
    """A running daemon over new roots, on a copy of `cluster`; nothing is left of them at the
    end.
    """
    daemon = make_daemon()
    daemon.cluster = cluster
    base = daemon.home / "roots"
    base.mkdir()
    try:
        soak = Soak(base, daemon, seed, ops)
        soak.begin()
        yield soak
        daemon.stop()
    finally:
        daemon.sweep()
        if keep:
            say(f"kept: {daemon.home}")
        else:
            shutil.rmtree(daemon.home, ignore_errors=True)


def run(soak: Soak, rounds: int) -> None:
    """All rounds; every tenth says how it goes."""
    began = time.monotonic()
    for number in range(rounds):
        soak.round(number)
        if number % 10 == 9 or number + 1 == rounds:
            took = time.monotonic() - began
            say(
                f"{number + 1} of {rounds} rounds, {took / (number + 1):.1f} s each, divergences: "
                f"{len(soak.tally.divergences)}, {summary(soak.tally)}"
            )


def summary(tally: Tally) -> str:
    """Counts, for people."""
    kills = sum(number for what, number in tally.counts.items() if what.startswith("kill"))
    return f"kills: {kills}, " + ", ".join(
        f"{what}: {number}" for what, number in sorted(tally.counts.items())
    )


def main() -> int:
    """0 if no answer and no row ever differed."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--rounds", type=int, default=1000)
    arguments.add_argument(
        "--ops", type=int, default=400, help="operations in a round, over all threads"
    )
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument(
        "--keep", action="store_true", help="leave the roots, the state and the log"
    )
    chosen: Any = arguments.parse_args()
    say(f"seed {chosen.seed}, {chosen.rounds} rounds of {chosen.ops} operations")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the daemon is ended as well
    with soaking(chosen.seed, chosen.ops, keep=chosen.keep) as soak:
        run(soak, chosen.rounds)
        return 1 if soak.tally.divergences else 0


if __name__ == "__main__":
    sys.exit(main())
