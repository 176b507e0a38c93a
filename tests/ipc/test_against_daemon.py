"""The front ends before the real engine: added and removed indexes, clean starts and stops."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cocosearch_ipc import client
from tests.daemon import Daemon, passing_daemon
from tests.waiting import wait_until


@pytest.fixture
def daemon(cluster: Path) -> Iterator[Daemon]:
    with passing_daemon(cluster) as passing:
        passing.start()
        yield passing


@pytest.mark.skipif(
    not Path("/proc/sysvipc/shm").exists(), reason="shared memory is looked at as Linux shows it"
)
@pytest.mark.parametrize(
    "cycles", [1, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(0)])]
)
def test_starts_and_stops_leave_no_process_and_no_socket(daemon: Daemon, cycles: int) -> None:
    daemon.stop()
    for _ in range(cycles):
        previous = _segments()
        daemon.start()
        assert daemon.process is not None
        processes = psutil.Process(daemon.process.pid).children(recursive=True)
        assert processes
        shared = _shared_memory(processes) - previous
        assert shared, "PostgreSQL has some"
        streams = [_listening(daemon) for _ in range(3)]
        asking = daemon.begin("query", "found")
        daemon.ctl("down")
        assert daemon.process.wait(60) == 0
        assert "Traceback" not in asking.communicate(timeout=120)[1]
        assert asking.returncode in (0, 1, 69), "answered, no such index, or the daemon has stopped"
        assert "Traceback" not in daemon.log
        _, alive = psutil.wait_procs(processes, 60)
        assert not alive
        assert not shared & (_mapped() | _segments())
        assert not list((daemon.home / "run").glob("*.sock"))
        for stream in streams:
            stream.close()


def _shared_memory(processes: list[psutil.Process]) -> set[str]:
    """Return the POSIX and System V shared memory of `processes`, named like `_mapped` and
    `_segments`.
    """
    pids = {process.pid for process in processes}
    segments = {name for name in _segments() if int(name.partition(" ")[0]) in pids}
    for process in processes:
        # it has ended, as PostgreSQL's processes do
        with contextlib.suppress(psutil.NoSuchProcess):
            segments |= {path.path for path in process.memory_maps() if path.path in _mapped()}
    return segments


def _mapped() -> set[str]:
    return {str(path) for path in Path("/dev/shm").iterdir()}


def _segments() -> set[str]:
    """`creator id` of each System V segment; see proc_sysvipc_shm(5)."""
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return {f"{row[4]} {row[1]}" for row in rows}


def _listening(daemon: Daemon) -> socket.socket:
    """An open SSE stream."""
    status = json.loads(daemon.ctl("status", "--json").stdout)
    token = (daemon.home / "state" / "token").read_text().strip()
    port = int(status["mcp"]["sse_url"].rpartition(":")[2].partition("/")[0])
    s = socket.create_connection(("127.0.0.1", port), 60)
    s.sendall(
        f"GET /sse HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    assert b"200" in s.recv(100)
    return s


def test_indexes_that_come_and_go_are_told_and_found_by_a_directory(
    daemon: Daemon, tmp_path: Path
) -> None:
    path = str(daemon.home / "run" / "rpc.sock")
    (tmp_path / "here" / "inside").mkdir(parents=True)
    (tmp_path / "here" / "a.py").write_text("A = 1\n")
    events = client.stream(path, "watch", {"lifecycle": True})
    states = list[tuple[str, str]]()
    reader = threading.Thread(target=_collect, args=(events, states))
    reader.start()
    # The stream has no first word: indexes are added until it tells of one.
    for number in range(20):
        (tmp_path / f"earlier{number}").mkdir()
        client.call(path, "index_codebase", {"path": str(tmp_path / f"earlier{number}")})
        with contextlib.suppress(AssertionError):
            wait_until(lambda: bool(states), limit_s=1.0)
            break
    assert states
    client.call(path, "index_codebase", {"path": str(tmp_path / "here"), "name": "here"})
    list(client.stream(path, "follow", {"index": "here"}))
    params = {"paths": ["/nowhere", str(tmp_path / "here" / "inside")]}
    assert client.call(path, "locate", params) == {
        "index": "here",
        "root": str(tmp_path / "here"),
        "path": params["paths"][1],
    }
    assert client.call(path, "locate", {"paths": ["/nowhere"]})["index"] is None
    wait_until(lambda: ("commit", "here") in states)
    client.call(path, "clear_index", {"index": "here"})
    reader.join(60)
    assert not reader.is_alive()
    kinds = [kind for kind, index in states if index == "here"]
    assert kinds[0] == "added"
    assert "commit" in kinds
    assert kinds[-1] == "removed"


def _collect(events: Iterator[dict[str, str]], collected: list[tuple[str, str]]) -> None:
    for event in events:
        collected.append((event["kind"], event["index"]))
        if event["kind"] == "removed":
            return
