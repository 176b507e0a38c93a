"""A client of the bridge that asks more than it reads: what it costs the daemon has a bound, and nothing is lost."""

import json
import socket
import time
from typing import Any

import anyio
import pytest

from cocosearch_ipc import protocol as p
from cocosearch_ipc.mcp.server import MAX_UNANSWERED
from tests.ipc.conftest import Served

ASKED = 2 * MAX_UNANSWERED
ABOUT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def test_a_client_that_reads_no_answers_is_not_read_from_without_end(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, begun, go = served.engine.search, list[int](), served.portal.call(anyio.Event)

    async def held(request: p.SearchRequest) -> p.SearchReply:
        begun.append(1)
        await go.wait()
        return await answer(request)

    monkeypatch.setattr(served.engine, "search", held)
    with socket.socket(socket.AF_UNIX) as client, client.makefile("rb") as answers:
        client.settimeout(30)
        client.connect(str(served.run / "mcp.sock"))
        say(client, id=0, method="initialize", params=ABOUT)
        assert json.loads(answers.readline())["id"] == 0
        say(client, method="notifications/initialized")
        call = {"name": "search_code", "arguments": {"query": "retries", "index_name": "demo"}}
        for number in range(1, ASKED + 1):
            say(client, id=number, method="tools/call", params=call)
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
    with socket.socket(socket.AF_UNIX) as client, client.makefile("rb") as answers:
        client.settimeout(30)
        client.connect(str(served.run / "mcp.sock"))
        say(client, id=0, method="initialize", params=ABOUT)
        assert json.loads(answers.readline())["id"] == 0
        say(client, method="notifications/initialized")
        call = {"name": "search_code", "arguments": {"query": "retries", "index_name": "demo"}}
        for number in range(1, ASKED + 1):
            say(client, id=number, method="tools/call", params=call)
            say(client, method="notifications/cancelled", params={"requestId": number})
        say(client, id="last", method="ping")
        while json.loads(answers.readline())["id"] != "last":
            pass


def say(client: socket.socket, **message: Any) -> None:
    client.sendall(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
