"""The indexer process ends without an error when the daemon hangs up."""

import asyncio
import socket

import pytest

from cocosearchd.indexing.coordinator.indexer_link import IndexerDied, IndexerLink
from cocosearchd.indexing.indexer.indexer import read_message

pytestmark = pytest.mark.anyio
LONG = b"x" * (8 << 20)  # more than a socket holds


async def test_a_daemon_that_hangs_up_while_it_is_answered_is_an_end_of_file() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(LONG)
    theirs.close()
    assert await read_message(reader) == b""
    writer.close()


async def test_a_request_that_nobody_waits_for_ends_in_silence() -> None:
    ours, theirs = socket.socketpair()
    link = IndexerLink(*await asyncio.open_connection(sock=ours))
    errors = list[str]()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context["message"]))
    unread, read = link.request({"do": "close"}), link.request({"do": "ping"})
    link.fail()
    with pytest.raises(IndexerDied):
        await read
    del unread
    assert errors == []
    theirs.close()
