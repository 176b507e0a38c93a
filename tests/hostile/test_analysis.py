"""Long texts that only begin something are analysed in worker processes, and block no one."""

import signal
import time
from pathlib import Path

import psutil
import pytest

from cocosearchd.search.lexical.analysis.analyser import SIZE
from tests.daemon import Daemon, passing_daemon
from tests.hostile.neighbour import Neighbour

# Bytes of each file. A file of more than 1 MiB is not indexed.
SHORT, LONG = 40_000, 1_000_000
IMPATIENT = {"PYTHONPATH": str(Path(__file__).parent / "impatient")}
LINE = 90  # characters: a file of longer lines counts as minified
# Name and what the file is made of.
TEXTS = {
    "comments.c": "/* " * (LINE // 3) + "\n",
    "comments.lua": "{- --[[ " * (LINE // 8) + "\n",
    "comments.py": '"""\'\'\'"' + "'''" * 25 + "\n",
    "pointers.cpp": "int ** " * (LINE // 7) + "\n",
    "functions.java": "void f(int a, " * (LINE // 14) + "\n",
    "blanks.ts": " " * LINE + "\n",
    "marks.md": "a" + "\u0327\u0301" * (LINE // 2) + "\n",
    "words.txt": "aB" * (LINE // 2) + "\n",
    "unicode.rb": "\u6f22\uff9e\u0301" * (LINE // 3) + "\n",
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)])
def test_long_texts_keep_the_neighbour_fresh(
    shared: Daemon, hostile_root: Path, neighbour: Neighbour, size: int
) -> None:
    neighbour.watch(shared)
    for name, line in TEXTS.items():
        (hostile_root / name).write_bytes((line * (size // len(line.encode()))).encode())
    (hostile_root / "harmless.py").write_text("def harmless_in_between():\n    pass\n")
    shared.ctl("up", str(hostile_root))
    neighbour.assert_fresh(shared, rounds=8 if size == LONG else 4)
    shared.ctl("sync", limit_s=300)
    answer = shared.call("search", query="harmless_in_between", index="hostile")
    assert [result["path"] for result in answer["results"]][:1] == ["harmless.py"]
    status = shared.call("status")
    notes = [note for index in status["indexes"] for note in index["notes"]]
    assert not any("searched by" in note or "searched without" in note for note in notes), notes


@pytest.mark.parametrize(
    "variables", [IMPATIENT, pytest.param({}, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_saves_survive_the_end_of_an_analysis_process(
    cluster: Path, neighbour: Neighbour, variables: dict[str, str]
) -> None:
    with passing_daemon(cluster, **variables) as daemon:
        daemon.start()
        neighbour.watch(daemon)
        neighbour.assert_fresh(daemon, rounds=1)
        ended = signalled_workers(daemon, signal.SIGKILL)
        neighbour.assert_fresh(daemon)
        ended += signalled_workers(daemon, signal.SIGSTOP)
        (neighbour.root / "stopped.py").write_text("def saved_while_it_was_stopped():\n    pass\n")
        daemon.ctl("sync", limit_s=90)
        neighbour.assert_fresh(daemon)
        daemon.stop()
        assert not any(worker.is_running() for worker in ended)


def signalled_workers(daemon: Daemon, number: signal.Signals) -> list[psutil.Process]:
    """Send a signal to all analysis processes, of which there are some; return them."""
    workers = analysis_workers(daemon)
    assert workers
    for worker in workers:
        worker.send_signal(number)
    return workers


SPINNING = {"SPIN_AT": "spins.py", "PYTHONPATH": str(Path(__file__).parent / "freezing")}
SPIN_S = 12.0  # texts that spin do so for longer: each is ended after 5 s of CPU, twice


def test_more_texts_that_spin_than_may_be_slow_keep_the_neighbour_fresh(
    cluster: Path, tmp_path: Path, neighbour: Neighbour
) -> None:
    """No text is known that does: a process is made to spin by the name of a file."""
    roots = [tmp_path / f"hostile_{number}" for number in range(SIZE.max_slow + 1)]
    for root in roots:
        root.mkdir()
        (root / "harmless.py").write_text("def harmless():\n    pass\n")
    with passing_daemon(cluster, **SPINNING) as daemon:
        daemon.start()
        neighbour.watch(daemon)
        for root in roots:
            daemon.index(root)
        neighbour.assert_fresh(daemon, rounds=1)
        for root in roots:
            (root / "spins.py").write_text("def of_the_spinning():\n    pass\n")
        begun, took_s = time.monotonic(), list[float]()
        while time.monotonic() - begun < SPIN_S:
            took_s.append(neighbour.save_and_query(daemon, sync_timeout_ms=60_000))
        assert max(took_s) < SPIN_S / 2, took_s


def analysis_workers(daemon: Daemon) -> list[psutil.Process]:
    return daemon.children("cocosearchd.search.lexical.analysis.analysis_worker")
