"""Clients that send more than they read, or leave before the answer: their cost is bounded."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import anyio
import pytest

from cocosearch_ipc import client
from cocosearch_ipc import protocol as p
from cocosearch_ipc.mcp.server import MAX_UNANSWERED
from tests.ipc.conftest import Served
from tests.mcp_messages import INITIALIZED, initialize_request, message_line

ASKED = MAX_UNANSWERED + 64
CALL = {"name": "search_code", "arguments": {"query": "retries", "index_name": "demo"}}


@contextmanager
def mcp_session(served: Served) -> Iterator[tuple[socket.socket, BinaryIO]]:
    """An initialized session over the socket of the bridge, and its answers, one a line."""
    with socket.socket(socket.AF_UNIX) as asking, asking.makefile("rb") as answers:
        asking.settimeout(60)
        asking.connect(str(served.run / "mcp.sock"))
        asking.sendall(message_line(initialize_request(0)))
        assert json.loads(answers.readline())["id"] == 0
        asking.sendall(message_line(INITIALIZED))
        yield asking, answers


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
    with mcp_session(served) as (asking, answers):
        for number in range(1, ASKED + 1):
            say(asking, id=number, method="tools/call", params=CALL)
        end = time.monotonic() + 60
        while len(begun) < MAX_UNANSWERED:
            assert time.monotonic() < end
            time.sleep(0.02)
        time.sleep(0.5)
        assert len(begun) == MAX_UNANSWERED
        served.portal.call(go.set)
        replies = [json.loads(answers.readline()) for _ in range(ASKED)]
        assert sorted(reply["id"] for reply in replies) == list(range(1, ASKED + 1))
        assert all(not reply["result"].get("isError") for reply in replies)


def test_cancelled_requests_make_room(served: Served) -> None:
    served.engine.busy = 60
    with mcp_session(served) as (asking, answers):
        for number in range(1, ASKED + 1):
            say(asking, id=number, method="tools/call", params=CALL)
            say(asking, method="notifications/cancelled", params={"requestId": number})
        say(asking, id="last", method="ping")
        while json.loads(answers.readline())["id"] != "last":
            pass


def test_a_client_that_has_hung_up_is_not_answered(served: Served) -> None:
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
    asking.sendall(message_line(message))
