"""Clients that ask more than they read, or do not stay for the answer: what they cost the daemon
has a bound.
"""

import json
import socket
import time
from typing import Any

import anyio
import pytest

from cocosearch_ipc import client
from cocosearch_ipc import protocol as p
from cocosearch_ipc.mcp.server import MAX_UNANSWERED
from tests.ipc.conftest import Served

ASKED = MAX_UNANSWERED + 64
ABOUT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def test_a_client_that_reads_no_answers_is_not_read_from_without_end(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = served.engine.search
    begun = list[int]()
    go = served.portal.call(anyio.Event)

    async def held(request: p.SearchRequest) -> p.SearchReply:
        begun.append(1)
        await go.wait()
        return await answer(request)

    monkeypatch.setattr(served.engine, "search", held)
    with socket.socket(socket.AF_UNIX) as asking, asking.makefile("rb") as answers:
        asking.settimeout(30)
        asking.connect(str(served.run / "mcp.sock"))
        say(asking, id=0, method="initialize", params=ABOUT)
        assert json.loads(answers.readline())["id"] == 0
        say(asking, method="notifications/initialized")
        call = {"name": "search_code", "arguments": {"query": "retries", "index_name": "demo"}}
        for number in range(1, ASKED + 1):
            say(asking, id=number, method="tools/call", params=call)
        end = time.monotonic() + 30
        while len(begun) < MAX_UNANSWERED:
            assert time.monotonic() < end
            time.sleep(0.02)
        time.sleep(0.5)
        assert len(begun) == MAX_UNANSWERED
        served.portal.call(go.set)
        said = [json.loads(answers.readline()) for _ in range(ASKED)]
        assert sorted(one["id"] for one in said) == list(range(1, ASKED + 1))
        assert all(not one["result"].get("isError") for one in said)


def test_what_was_cancelled_makes_room(served: Served) -> None:
    served.engine.busy = 60
    with socket.socket(socket.AF_UNIX) as asking, asking.makefile("rb") as answers:
        asking.settimeout(30)
        asking.connect(str(served.run / "mcp.sock"))
        say(asking, id=0, method="initialize", params=ABOUT)
        assert json.loads(answers.readline())["id"] == 0
        say(asking, method="notifications/initialized")
        call = {"name": "search_code", "arguments": {"query": "retries", "index_name": "demo"}}
        for number in range(1, ASKED + 1):
            say(asking, id=number, method="tools/call", params=call)
            say(asking, method="notifications/cancelled", params={"requestId": number})
        say(asking, id="last", method="ping")
        while json.loads(answers.readline())["id"] != "last":
            pass


def test_who_has_hung_up_is_not_answered(served: Served) -> None:
    """Many at once, as of an editor that was killed, hold up nobody."""
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": "gone"}}
    ).encode()
    head = b"POST /rpc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"

    def hang_up() -> None:
        """In the thread of the event loop: what is sent and the end of it are there before either
        is looked at.
        """
        for _ in range(20):
            with socket.socket(socket.AF_UNIX) as gone:
                gone.connect(served.rpc)
                gone.sendall(head % len(body) + body)

    served.portal.call(hang_up)
    client.call(served.rpc, "search", {"query": "here", "index": "demo"})
    assert [
        request.query for request in served.engine.requests if isinstance(request, p.SearchRequest)
    ] == ["here"]


def say(asking: socket.socket, **message: Any) -> None:
    asking.sendall(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
