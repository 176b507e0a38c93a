"""Connections that a server does not answer, as of a host that hangs."""

import gc
import socket
from collections.abc import Iterator

import psycopg
import pytest

from cocosearchd.store.connection.liveness_check import MonitoredConnection

pytestmark = pytest.mark.anyio


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
async def test_an_attempt_that_timed_out_leaves_no_open_connection(silent: socket.socket) -> None:
    """Also while somebody holds the error, as a log does. The server would keep a session for it."""
    port = silent.getsockname()[1]
    with pytest.raises(psycopg.errors.ConnectionTimeout) as caught:
        await MonitoredConnection.connect(
            f"host=127.0.0.1 port={port} sslmode=disable gssencmode=disable", connect_timeout=2
        )
    attempt, _ = silent.accept()
    with attempt:
        attempt.settimeout(5)
        while attempt.recv(4096):  # what it said first; a connection that is open has no end
            pass
    assert caught.value
