"""Faults around a running daemon: stopped processes, exhausted resources, servers that answer
nonsense.

Each time: nothing that is not known is called fresh while it lasts, and afterwards everything is
right by itself.
"""

import contextlib
import itertools
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cocosearch_ipc.client import CallFailed, call
from tests.daemon import Daemon, lasting_handles
from tests.embedding.ollama_server import Script, ollama_server
from tests.machine_speed import FairClock
from tests.waiting import wait_until

STATE_BYTES = 400 << 20  # PostgreSQL takes about 60 MB of it, and its logs 64 more


def ask(daemon: Daemon, word: str, timeout_ms: int = 20_000) -> Any:
    """The answer to a word; None while there is none."""
    request = {"query": word, "index": "project", "limit": 3, "sync_timeout_ms": timeout_ms}
    try:
        return call(
            str(daemon.home / "run" / "rpc.sock"),
            "search",
            request,
            timeout_s=timeout_ms / 1000 + 10,
        )
    except CallFailed:
        return None


def told(reply: Any, word: str) -> bool:
    return reply is not None and any(word in hit["content"] for hit in reply["results"])


def honest(reply: Any, word: str) -> bool:
    """Return whether an answer finds the word or does not claim to be fresh.

    No answer is honest, too.
    """
    return reply is None or told(reply, word) or not reply["fresh"]


def save(project: Path, word: str) -> None:
    (project / "src" / f"{word}.py").write_text(f"def {word}():\n    return 1\n")


def recovers(daemon: Daemon, word: str) -> None:
    def right() -> bool:
        reply = ask(daemon, word)
        assert honest(reply, word), daemon.log[-4000:]
        return told(reply, word) and bool(reply["fresh"])

    wait_until(right, daemon.log[-4000:])


def test_a_daemon_that_was_stopped_has_missed_nothing(shared: Daemon, project: Path) -> None:
    shared.index(project)
    assert shared.process is not None
    shared.process.send_signal(signal.SIGSTOP)
    save(project, "written_while_stopped")
    (project / "README.md").unlink()
    shared.process.send_signal(signal.SIGCONT)
    assert told(ask(shared, "written_while_stopped"), "written_while_stopped")
    assert not told(ask(shared, "Sample"), "# Sample")


def test_a_worker_that_was_stopped_makes_nothing_fresh(shared: Daemon, project: Path) -> None:
    shared.index(project)
    worker = psutil.Process(shared.json("status")["worker"]["pid"])
    worker.suspend()
    save(project, "written_while_stopped")
    late = ask(shared, "written_while_stopped", 2000)
    assert (late["fresh"], late["pending"]) == (False, ["src/written_while_stopped.py"])
    assert told(ask(shared, "should_retry", 500), "should_retry"), "questions do not need it"
    worker.resume()
    recovers(shared, "written_while_stopped")
    assert shared.json("status")["worker"]["deaths"] == 0


def test_a_frozen_server_can_be_seen(daemon: Daemon, project: Path) -> None:
    daemon.index(project)
    with daemon.freezing_postgres():
        with FairClock() as clock:
            while (status := daemon.call("status"))["store"]["state"] == "up":
                time.sleep(0.2)
        assert clock.fair_s < 10, "status says soon that the store does not answer"
    assert status["store"]["state"] == "unresponsive"
    assert "answers nothing" in status["store"]["reason"]
    assert status["indexes"][0]["name"] == "project"
    assert told(ask(daemon, "should_retry"), "should_retry")


def test_questions_to_a_frozen_server_end(daemon: Daemon, project: Path) -> None:
    """Each is answered from memory or gets a sentence, and what was saved meanwhile is found soon
    after the thaw.
    """
    daemon.index(project)
    assert told(ask(daemon, "should_retry"), "should_retry")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search", {"query": "listen and serve", "index": "project"}),
        ("get_file", {"path": "README.md", "index": "project"}),
        ("find_related", {"path": "src/retry.py", "line": 4, "index": "project"}),
        ("list_files", {"index": "project"}),
        ("index_stats", {"index": "project"}),
        ("clear_index", {"index": "project"}),
        ("index_codebase", {"path": str(project.parent)}),
    ]
    with daemon.freezing_postgres():
        assert told(ask(daemon, "should_retry"), "should_retry"), "it is kept"
        assert daemon.call("sync", index="project")["fresh"], "nothing has changed"
        for method, parameters in calls:
            with pytest.raises(CallFailed, match="is there, and answers nothing"):
                daemon.call(method, **parameters)
        save(project, "written_while_frozen")
        late = daemon.call("sync", index="project", timeout_ms=2000)
        assert (late["fresh"], late["pending"]) == (False, ["src/written_while_frozen.py"])
        earlier = ask(daemon, "should_retry", 100)
        assert told(earlier, "should_retry"), "it is kept, and said to be an earlier one"
        assert not earlier["fresh"]
    recovers(daemon, "written_while_frozen")
    assert told(ask(daemon, "should_retry"), "should_retry"), "it was not cleared"


def test_a_daemon_with_a_frozen_server_stops(daemon: Daemon) -> None:
    with daemon.freezing_postgres():
        assert daemon.stop() == 0
        assert daemon.postgres() == []


@pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="limits of another process: Linux only"
)
@pytest.mark.slow
@pytest.mark.parametrize("victim", ["daemon", "worker"])
def test_no_file_handles_left(daemon: Daemon, project: Path, victim: str) -> None:
    daemon.index(project)
    pid = daemon.json("status")["pid" if victim == "daemon" else "worker"]
    pid = pid if isinstance(pid, int) else pid["pid"]
    previous_limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    handles = [int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (max(handles) + 1, previous_limits[1]))
    for number in range(3):
        folder = project / f"new{number}"
        folder.mkdir()
        (folder / "inside.py").write_text(f"def written_without_handles{number}():\n    pass\n")
        reply = ask(daemon, f"written_without_handles{number}", 300)
        assert honest(reply, f"written_without_handles{number}"), reply
    resource.prlimit(pid, resource.RLIMIT_NOFILE, previous_limits)
    for number in range(3):
        recovers(daemon, f"written_without_handles{number}")


def leave_one_handle(pid: int) -> None:
    """Limit the file handles of a process to those that it has, and one for whoever asks."""
    used = lasting_handles(pid)
    free = next(number for number in itertools.count() if number not in used)
    _, hard_limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free + 1, hard_limit))


def says_that_no_handle_is_left(pid: int, ask: Callable[[], str]) -> bool:
    """Leave one handle and ask. Again where that says nothing: an idle connection, or a segment that
    was merged, may have been closed meanwhile.
    """
    for _ in range(10):
        leave_one_handle(pid)
        if "no file handles are left" in ask():
            return True
    return False


@pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="limits of another process: Linux only"
)
def test_a_daemon_without_file_handles_says_so(shared: Daemon, project: Path) -> None:
    """`status` is what people ask then, and `up` asks it, too."""
    shared.index(project)
    pid = shared.call("status")["pid"]
    previous_limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    try:
        assert says_that_no_handle_is_left(pid, lambda: str(shared.call("status")["warnings"]))
        directory = project.parent / "other"
        directory.mkdir()
        assert says_that_no_handle_is_left(
            pid, lambda: shared.ctl("up", str(directory), check=False).stderr
        )
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, previous_limits)
    assert not any("handles" in warning for warning in shared.call("status")["warnings"])
    recovers(shared, "should_retry")


@contextlib.contextmanager
def small_disk(daemon: Daemon, part: str, size: int) -> Iterator[Path]:
    """A small file system for the daemon's state, or a part of it; skips where mounting is not
    allowed.
    """
    directory = daemon.home / "state" / part
    directory.mkdir(mode=0o711, parents=True)
    options = f"size={size},mode=711"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", directory], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        daemon.sweep()
        subprocess.run(["umount", "--lazy", directory], check=True)


@contextlib.contextmanager
def mounted(*arguments: str | Path) -> Iterator[None]:
    """Mounts for a while; skips where that is not allowed."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", arguments[-1]], check=True)


def test_a_disk_that_is_unplugged_and_comes_after_the_daemon(
    daemon: Daemon, project: Path, tmp_path: Path
) -> None:
    """Its files are kept and not called fresh, over a restart as well; with the disk nothing is
    made anew.
    """
    disk, directory = tmp_path / "disk", tmp_path / "place"
    disk.mkdir()
    directory.mkdir()
    with mounted("-t", "tmpfs", "none", disk):
        shutil.copytree(project, disk, dirs_exist_ok=True)
        with mounted("--bind", disk, directory):
            daemon.index(directory, "project")
        for _ in range(2):
            late = ask(daemon, "should_retry", 5000)
            assert told(late, "should_retry")
            assert (late["fresh"], "mount that again" in late["stale_reason"]) == (False, True)
            (index_status,) = daemon.call("status")["indexes"]
            assert (index_status["state"], index_status["files"] > 0) == ("root_missing", True)
            assert daemon.stop() == 0
            daemon.start()
        with mounted("--bind", disk, directory):
            back = ask(daemon, "should_retry")
            assert (told(back, "should_retry"), back["fresh"]) == (True, True)
            worker = daemon.call("status")["worker"]
            assert (worker["computed"], worker["parsed"]) == (0, 0)
            for entry in disk.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            assert not told(ask(daemon, "should_retry"), "should_retry"), (
                "what is deleted there is deleted"
            )


def fill(disk: Path) -> Path:
    """A file that leaves no room."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    assert os.statvfs(disk).f_bavail < 32
    return ballast


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "size", "message"),
    [
        pytest.param("", STATE_BYTES, "the disk of the database is full", id="everything"),
        pytest.param("postgres", STATE_BYTES, "the disk of the database is full", id="postgresql"),
        pytest.param("cocoindex", 16 << 20, "the disk of the state directory is full", id="memory"),
        pytest.param(
            "embeddings",
            4 << 20,
            "vector_cache_not_opened error=database or disk is full",
            id="vectors",
        ),
    ],
)
def test_a_full_disk_below_the_state(
    stopped: Daemon, project: Path, part: str, size: int, message: str
) -> None:
    with small_disk(stopped, part, size) as disk:
        full_and_free_again(stopped, project, disk, message)


def full_and_free_again(stopped: Daemon, project: Path, disk: Path, message: str) -> None:
    stopped.variables["COCOSEARCH_INDEXING_MIN_FREE_BYTES"] = "0"
    stopped.start()
    stopped.index(project)
    ballast = fill(disk)
    for number in range(20):
        body = "".join(
            f"def written_on_a_full_disk{number}_{line}(): return {line}\n" for line in range(400)
        )
        (project / "src" / f"full{number}.py").write_text(body)
    word = "written_on_a_full_disk19_399"
    for _ in range(3):
        assert honest(ask(stopped, word, 1000), word)
    wait_until(lambda: message in stopped.ctl("status").stdout + stopped.log, message, 12)
    ballast.unlink()
    recovers(stopped, word)
    assert stopped.stop() == 0


def test_a_disk_that_is_nearly_full_is_named_by_whoever_waits_for_it(
    stopped: Daemon, project: Path
) -> None:
    stopped.variables["COCOSEARCH_INDEXING_MIN_FREE_BYTES"] = str(1 << 40)
    stopped.start()
    with stopped.begin("up", str(project), "--wait") as up:
        assert up.stderr is not None
        message = next((line for line in up.stderr if "indexing waits: " in line), "")
        up.terminate()
    assert "are needed" in message


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.slow, id="fast"),
        pytest.param(signal.SIGQUIT, id="immediate"),
    ],
)
def test_postgresql_restarts_in_the_middle_of_its_transactions(
    daemon: Daemon, project: Path, number: signal.Signals
) -> None:
    """Restart it like its administrator, and like a power cut."""
    daemon.index(project)
    for file in range(60):
        save(project, f"written_beside_{file}")
    time.sleep(0.15)
    daemon.postgres()[0].send_signal(number)
    assert honest(ask(daemon, "written_beside_59", 500), "written_beside_59")
    for file in (0, 31, 59):
        recovers(daemon, f"written_beside_{file}")


@pytest.mark.slow
def test_a_model_server_that_talks_nonsense(stopped: Daemon, project: Path) -> None:
    """Errors, silence, garbage, vectors of another kind: work waits for it, and words are found
    meanwhile.
    """
    script = Script()
    with ollama_server(script) as url:
        stopped.variables |= {
            "COCOSEARCH_EMBEDDER_PROVIDER": "ollama",
            "COCOSEARCH_OLLAMA_URL": url,
            "COCOSEARCH_EMBEDDER_TIMEOUT_S": "1",
        }
        stopped.start()
        stopped.index(project)
        troubles: list[tuple[str, dict[str, Any]]] = [
            ("errors", {"status": 503}),
            ("garbage", {"raw": b"<html>a proxy says hello</html>"}),
            ("lists", {"raw": b'{"embeddings": [[1, 2, "three"]]}'}),
            ("silence", {"delay_s": 3.0}),
            ("other", {"dimension": 5}),
        ]
        for name, trouble in troubles:
            usual = {key: getattr(script, key) for key in trouble}
            for key, value in trouble.items():
                setattr(script, key, value)
            save(project, f"written_beside_{name}")
            reply = ask(stopped, f"written_beside_{name}", 1000)
            assert honest(reply, f"written_beside_{name}"), reply
            assert told(ask(stopped, "should_retry", 0), "should_retry"), name
            for key, value in usual.items():
                setattr(script, key, value)
            recovers(stopped, f"written_beside_{name}")
