"""A client that takes every connection does not lock out others."""

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Hashable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearch_ipc.http.connection_slots import PeerFinder, PendingPeer, Slot, choose_victim
from cocosearch_ipc.trust.port_holder import client_pids
from tests.daemon import Daemon
from tests.mcp_messages import initialize_request, message_line

# Opens connections, asks on each, and says so; then opens more for as long as it lives.
FLOOD = """\
import socket, sys, time
kind, target, count = sys.argv[1], sys.argv[2], int(sys.argv[4])
request = sys.argv[3].encode().decode("unicode_escape").encode()
held = []
for n in range(count):
    s = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
    s.settimeout(60)
    try:
        while True:
            try:
                s.connect(target if kind == "unix" else ("127.0.0.1", int(target)))
                break
            except BlockingIOError:
                time.sleep(0.01)
        s.sendall(request)
        if "HTTP" in sys.argv[3]: s.recv(1 << 16)
    except OSError:
        pass
    held.append(s)
print("flooded", flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def flood(kind: str, target: str, request: str, count: int) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds `count` connections, or tries to."""
    command = [sys.executable, "-c", FLOOD, kind, target, request, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "flooded\n"
            yield process
        finally:
            process.kill()


def asks(connection: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> int:
    connection.request("GET", path, headers=headers)
    reply = connection.getresponse()
    reply.read()
    return reply.status


def tcp(daemon: Daemon) -> tuple[int, dict[str, str]]:
    url = daemon.call("status")["mcp"]["url"]
    token = (daemon.home / "state" / "token").read_text().strip()
    return int(url.rpartition(":")[2].partition("/")[0]), {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("has_token", [True, False])
def test_a_client_that_idles_outlives_a_flood_over_tcp(shared: Daemon, has_token: bool) -> None:
    """Before, the connection that idled longest made room, whoever held the others."""
    port, headers = tcp(shared)
    idle = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    assert asks(idle, "/metrics", headers) == 200
    mine = idle.sock
    bearer = f"Authorization: {headers['Authorization']}\\r\\n" if has_token else ""
    request = f"GET /nothing HTTP/1.1\\r\\nHost: localhost\\r\\n{bearer}\\r\\n"
    with flood("tcp", str(port), request, 400):
        assert asks(idle, "/metrics", headers) == 200
        assert idle.sock is mine, "the same connection"
        fresh = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        assert asks(fresh, "/metrics", headers) == 200
        fresh.close()
    idle.close()
    assert shared.call("status")["pid"]


def test_a_client_that_idles_outlives_a_flood_over_the_unix_socket(shared: Daemon) -> None:
    path = str(shared.home / "run" / "rpc.sock")
    idle = http.client.HTTPConnection("localhost", timeout=120)
    idle.sock = mine = socket.socket(socket.AF_UNIX)
    mine.settimeout(60)
    mine.connect(path)
    assert asks(idle, "/healthz", {}) == 200
    with flood("unix", path, "GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n", 400):
        assert asks(idle, "/healthz", {}) == 200
        assert idle.sock is mine
        assert shared.call("status")["pid"]
    idle.close()


def test_another_client_finds_a_bridge_when_one_holds_them_all(shared: Daemon) -> None:
    path = str(shared.home / "run" / "mcp.sock")
    hello = message_line(initialize_request()).decode()
    with bridge(path) as mine:
        mine.sendall(hello.encode())
        assert b"serverInfo" in mine.recv(1 << 16)
        with flood("unix", path, hello.replace("\n", "\\n"), 100):
            with bridge(path) as fresh:
                fresh.sendall(hello.encode())
                assert b"serverInfo" in fresh.recv(1 << 16)
            mine.sendall(b'{"jsonrpc": "2.0", "id": 2, "method": "ping"}\n')
            assert b'"id":2' in mine.recv(1 << 16), "a session that is open goes on"


@contextlib.contextmanager
def bridge(path: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(path)
        yield s


# ---- the choice ----


def slot(peer: str, *, idle: bool = True, is_known: bool = True, since: float = 0.0) -> Slot:
    return Slot(peer, idle, is_known, since)


def test_the_client_with_most_connections_makes_room() -> None:
    mine, flooding = slot("a", since=1), [slot("b", since=n) for n in range(2, 6)]
    assert choose_victim([mine, *flooding, slot("c", since=9)], 5) == 1, (
        "the greedy one's, that idles longest"
    )
    assert choose_victim([mine, *flooding, slot("b", since=9)], 5) == 1, "its own make room for it"
    strangers = [slot("a", is_known=False, since=7), slot("d", is_known=False, since=6)]
    assert (
        choose_victim([mine, *flooding, *strangers, slot("e", is_known=False, since=9)], 7) == 6
    ), "strangers first"
    busy = [slot("b", idle=False, since=n) for n in range(4)]
    assert choose_victim([mine, *busy, slot("c", since=9)], 5) == 4, (
        "the last of the greedy one's work"
    )
    assert choose_victim([mine, *busy, slot("b", since=9)], 5) == 5, "who holds most gets no more"
    equal = [slot(str(n), idle=False) for n in range(4)]
    assert choose_victim([*equal, slot("new")], 4) == 4, (
        "nobody holds more than one: the new one waits"
    )


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.booleans(), st.booleans(), st.floats(0, 9)),
        min_size=1,
    )
)
def test_a_client_with_few_connections_keeps_them(
    rows: list[tuple[str, bool, bool, float]],
) -> None:
    slots = [Slot(*row) for row in rows]
    victim = slots[choose_victim(slots, len(slots) - 1)]
    counts: dict[Hashable, int] = {
        peer: sum(slot.peer == peer for slot in slots) for peer, *_ in rows
    }
    is_stranger = victim.is_idle and not victim.has_token
    assert victim is slots[-1] or is_stranger or counts[victim.peer] == max(counts.values())


@pytest.mark.skipif(sys.platform != "linux", reason="/proc names the peers of TCP on Linux alone")
def test_tcp_clients_are_told_apart_by_their_process() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
    ):
        far, address = server.accept()
        assert client_pids()[address] == os.getpid()
        looks = list[int]()
        clock = [0.0]

        def find() -> dict[tuple[str, int], int]:
            looks.append(1)
            return client_pids()

        peers = PeerFinder(lambda: clock[0], find)
        assert peers.peer_of(address) == PendingPeer("127.0.0.1"), (
            "nobody waits for a look at all processes"
        )
        end = time.monotonic() + 60
        while peers.peer_of(address) != os.getpid():
            assert time.monotonic() < end
            time.sleep(0.01)
        for port in range(1, 100):
            assert peers.peer_of(("127.0.0.1", port)) == "127.0.0.1"
        assert len(looks) == 1, "who connects often does not cost a look each"
        clock[0] = 2.0
        peers.peer_of(("127.0.0.1", 1))
        while len(looks) < 2:
            assert time.monotonic() < end
            time.sleep(0.01)
        near.close()
        far.close()


def test_while_processes_are_looked_for_the_newest_of_a_host_make_room() -> None:
    peer = PendingPeer("127.0.0.1")
    slots = [Slot(peer, is_idle=True, has_token=True, since=float(since)) for since in range(4)]
    assert choose_victim(slots, newest=3) == 2
