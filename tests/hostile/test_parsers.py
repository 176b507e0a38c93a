"""Files that kill, stall or bloat a parser: the daemon goes on, they are plain text, their
neighbour stays fresh.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.daemon import Daemon, passing_daemon
from tests.hostile.neighbour import Neighbour

GIB = 1 << 30
# A module that Python loads at the start of each process. In parser processes and bulk workers, the
# parser then does what a content says. No real content is known that does this for long: each that is
# found gets a guard. One that stalls has two seconds of CPU in place of ten.
SITE = """
import sys
if any(f"cocosearchd.indexing.pool.{name}" in sys.orig_argv for name in ("parser_worker", "bulk_worker")):
    import os, resource, time
    from cocosearchd.indexing.pipeline import parse_result
    parse = parse_result.parse
    def odd(path, data, *rest):
        if b"CRASH" in data:
            os.abort()
        if b"BOMB" in data:
            bombs = [b"x" * (1 << 24) for _ in range(1 << 12)]
        if b"STALL" in data:
            _, hard = resource.getrlimit(resource.RLIMIT_CPU)
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 2, hard))
            while True:
                pass
        return parse(path, data, *rest)
    parse_result.parse = odd
"""
HARMS = {"crash.py": b"CRASH quokka\n", "bomb.py": b"BOMB wombat\n", "stall.py": b"STALL numbat\n"}


class PeakMemory:
    """The most memory that any one process of a daemon, and all together, have had; sampled every
    20 ms.

    Look for new processes every 0.2 s: that reads all of the machine, in 10 ms of CPU. A process
    that harms has been ready for longer, or takes as long to start.
    """

    def __init__(self, daemon: Daemon) -> None:
        assert daemon.process is not None
        self._process = psutil.Process(daemon.process.pid)
        self.largest, self.together = 0, 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        processes = list[psutil.Process]()
        for number in itertools.count():
            if self._done.wait(0.02):
                return
            if number % 10 == 0:
                processes = [self._process, *self._process.children(recursive=True)]
            sizes = list[int]()
            for process in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    sizes.append(process.memory_info().rss)
            self.largest, self.together = (
                max([self.largest, *sizes]),
                max(self.together, sum(sizes)),
            )


pytestmark = pytest.mark.timeout(300)  # a parser has a low priority


@pytest.fixture
def odd_daemon(cluster: Path, tmp_path: Path) -> Iterator[Daemon]:
    """A daemon whose parsers obey what they are given."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE)
    with passing_daemon(cluster, PYTHONPATH=str(tmp_path / "site")) as daemon:
        daemon.start()
        yield daemon


def unparsed(daemon: Daemon, index: str) -> dict[str, str]:
    (status,) = (
        status_of_index
        for status_of_index in daemon.call("status")["indexes"]
        if status_of_index["name"] == index
    )
    return {file["path"]: file["sentence"] for file in status["unparsed"]}


def quarantines(daemon: Daemon) -> int:
    return daemon.log.count("file_quarantined")


def worker_ends(daemon: Daemon) -> int:
    return daemon.log.count("worker_process_ended") + daemon.log.count("bulk_worker_ended")


def until_unparsed(daemon: Daemon, index: str, paths: set[str], limit_s: float = 150.0) -> None:
    end = time.monotonic() + limit_s
    while set(unparsed(daemon, index)) != paths:
        assert time.monotonic() < end, (unparsed(daemon, index), daemon.log[-4000:])
        time.sleep(0.2)


def test_saves_that_harm_their_parser_cost_one_process_each(
    odd_daemon: Daemon, hostile_root: Path, neighbour: Neighbour
) -> None:
    daemon = odd_daemon
    (hostile_root / "good.py").write_text("def platypus():\n    return 1\n")
    daemon.index(hostile_root)
    neighbour.watch(daemon)
    with PeakMemory(daemon) as peak:
        # One after the other: saves that come together are parsed together, and end one more.
        for number, (name, data) in enumerate(HARMS.items(), 1):
            (hostile_root / name).write_bytes(data)
            neighbour.assert_fresh(daemon, rounds=2)
            until_unparsed(daemon, "hostile", set(list(HARMS)[:number]))
        neighbour.assert_fresh(daemon)
    assert peak.largest < 1.1 * GIB
    assert (quarantines(daemon), worker_ends(daemon)) == (3, 3), "each once"
    assert daemon.log.count("indexer_died") == 0, "the indexing process lives"
    for word, name in (
        ("quokka", "crash.py"),
        ("wombat", "bomb.py"),
        ("numbat", "stall.py"),
        ("platypus", "good.py"),
    ):
        assert daemon.paths(word, "--index", "hostile", "--limit", "1") == [name], (
            "it is searched as plain text"
        )
    output = daemon.ctl("status").stdout
    assert "crash.py is searched as plain text, without definitions: it ended or stalled" in output
    assert "change its content" in output

    assert daemon.stop() == 0
    daemon.start()
    for root in (hostile_root, neighbour.root):
        daemon.index(root)
    (hostile_root / "copy.py").write_bytes(HARMS["stall.py"])
    (hostile_root / "crash.py").write_text("def quokka():\n    return 1\n")
    neighbour.assert_fresh(daemon)
    until_unparsed(daemon, "hostile", {"bomb.py", "stall.py", "copy.py"})
    assert (quarantines(daemon), worker_ends(daemon)) == (3, 3), "none was parsed again"
    (result,) = daemon.query("quokka", "--index", "hostile", "--limit", "1")["results"]
    assert (result["path"], result["symbol_name"]) == ("crash.py", "quokka"), (
        "a changed content is parsed"
    )


@pytest.mark.parametrize("files", [100, pytest.param(300, marks=pytest.mark.slow)])
def test_a_first_index_with_killers_loses_no_file(
    odd_daemon: Daemon, hostile_root: Path, neighbour: Neighbour, files: int
) -> None:
    daemon = odd_daemon
    neighbour.watch(daemon)
    for number in range(files):
        text = "".join(
            f"def name_{number}_{part}():\n    return {part}\n\n\n" for part in range(files // 5)
        )
        (hostile_root / f"f{number}.py").write_text(text)
    (hostile_root / "f40_crash.py").write_bytes(HARMS["crash.py"])
    (hostile_root / "f80_crash.py").write_bytes(HARMS["crash.py"] * 2)
    daemon.ctl("up", str(hostile_root))
    neighbour.assert_fresh(daemon, rounds=5)
    daemon.index(hostile_root)
    until_unparsed(daemon, "hostile", {"f40_crash.py", "f80_crash.py"})
    assert quarantines(daemon) == 2
    assert worker_ends(daemon) <= 4, "with others, and alone"
    assert daemon.json("stats", "hostile")["parse_health"]["python"]["ok"] == files


def test_a_java_file_of_angle_brackets_is_plain_text(
    shared: Daemon, hostile_root: Path, neighbour: Neighbour
) -> None:
    """In 80 columns and 101 KB; it took 14.8 GB in 20 s."""
    neighbour.watch(shared)
    (hostile_root / "Main.java").write_text("class Main { void run() {} }\n")
    shared.index(hostile_root)
    deaths = shared.call("status")["worker"]["deaths"]
    with PeakMemory(shared) as peak:
        (hostile_root / "Bomb.java").write_text(
            "\n".join("a<" * 40 for _ in range(1260)) + "quokka"
        )
        neighbour.assert_fresh(shared, rounds=5)
        assert shared.ctl("sync", "--index", "hostile").returncode == 0
    assert peak.largest < 1.1 * GIB
    assert shared.paths("quokka", "--index", "hostile", "--limit", "1") == ["Bomb.java"]
    assert shared.call("status")["worker"]["deaths"] == deaths


def test_a_file_that_ends_the_parser_of_kotlin(
    shared: Daemon, hostile_root: Path, neighbour: Neighbour
) -> None:
    """A real one, without a hook: its scanner aborts at 1,025 nested templates."""
    neighbour.watch(shared)
    (hostile_root / "a.kt").write_text('val a = "${\n' * 1_100 + "quokka")
    shared.index(hostile_root)
    neighbour.assert_fresh(shared)
    assert set(unparsed(shared, "hostile")) == {"a.kt"}
    assert shared.paths("quokka", "--index", "hostile", "--limit", "1") == ["a.kt"]
    (hostile_root / "a.kt").write_text("fun quokka() = 1\n")
    (result,) = shared.query("quokka", "--index", "hostile", "--limit", "1")["results"]
    assert result["symbol_name"] == "quokka"
    assert unparsed(shared, "hostile") == {}
