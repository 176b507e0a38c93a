"""Connections that hang up on an unresponsive server.

The server may be stopped, or behind a network that drops all packets.

A live server answers each statement within `statement_timeout`, perhaps with an error. A frozen
server never answers, not even a request to cancel, and the driver would wait for both. Hanging up
ends the wait at once: the connection is then broken, and the pool replaces it like any broken
connection.
"""

import asyncio
import contextlib
import os
import select
import socket
from collections.abc import Iterator
from typing import Any, Self, TypeVar

import psycopg
from psycopg import generators

# The time for an empty statement or a cancellation: a live server needs a few milliseconds.
LIVENESS_TIMEOUT_S = 2.0
# The time is measured in parts: a pause of the whole machine counts as one part at most.
_PARTS = 4
# Longest wait for the answer to an empty statement without the event loop, a whole number for
# poll(2). A server on this machine answers in 0.05 ms. The check then takes 0.08 ms of CPU instead of
# 0.2 (measured).
_PROMPT_MS = 1

Result = TypeVar("Result")


class Unresponsive(psycopg.OperationalError):
    """PostgreSQL has not answered in time."""


class MonitoredConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection that hangs up when the server does not answer.

    It waits `answer_timeout_s` for each answer, then raises `Unresponsive`; None: no limit.
    `has_citus` and `is_distributed` are filled by the module `citus`: the schema of the daemon is
    distributed if its tables are on a node of a cluster.
    """

    answer_timeout_s: float | None = None
    has_citus = False
    is_distributed = False
    _timer: asyncio.TimerHandle | None = None
    _hung_up = False

    # The driver's arguments are passed on unchanged.
    @classmethod
    async def connect(cls, *args: Any, **kwargs: Any) -> Self:
        """Connect, and leave no open connection if that fails.

        The traceback of the driver's error holds the connection of an attempt that timed out: it would
        stay open until a collection of garbage, and the server would keep a session for it.
        """
        try:
            return await super().connect(*args, **kwargs)
        except psycopg.Error as error:
            failure = error.with_traceback(None)
        raise failure

    @contextlib.contextmanager
    def answer_timeout(self, seconds: float | None) -> Iterator[None]:
        """Set another timeout for a while."""
        previous_s = self.answer_timeout_s
        self.answer_timeout_s = seconds
        try:
            yield
        finally:
            self.answer_timeout_s = previous_s

    # The driver's arguments are passed on unchanged.
    async def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Wait for one answer of the server. Raises `Unresponsive`."""
        self._expect(self.answer_timeout_s)
        try:
            return await super().wait(*args, **kwargs)
        except psycopg.OperationalError:
            if self._hung_up:
                raise Unresponsive("the server does not respond") from None
            raise
        finally:
            self._expect(None)

    async def check(self) -> None:
        """Wait for the answer to an empty statement. Raises `Unresponsive`, `OperationalError`."""
        self.pgconn.send_query(b"")
        self.pgconn.flush()
        if self.pgconn.host.startswith(b"/"):
            prompt = select.poll()
            prompt.register(self.pgconn.socket, select.POLLIN)
            prompt.poll(_PROMPT_MS)
            self.pgconn.consume_input()
        with self.answer_timeout(LIVENESS_TIMEOUT_S):
            results = await self.wait(generators.execute(self.pgconn))
        if any(result.status != psycopg.pq.ExecStatus.EMPTY_QUERY for result in results):
            raise psycopg.OperationalError("the server has ended the session")

    async def cancel_safe(self, *, timeout: float = LIVENESS_TIMEOUT_S) -> None:
        """Ask the server to end the statement.

        The driver does so when a task is cancelled, and then waits for the statement to end.
        """
        self._expect(LIVENESS_TIMEOUT_S)
        await super().cancel_safe(timeout=min(timeout, LIVENESS_TIMEOUT_S))

    def _expect(self, within_s: float | None) -> None:
        """Hang up unless an answer comes within `within_s` seconds; None: stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if within_s is not None:
            self._tick(within_s / _PARTS, _PARTS)

    def _tick(self, part_s: float, parts: int) -> None:
        if parts:
            self._timer = asyncio.get_running_loop().call_later(
                part_s, self._tick, part_s, parts - 1
            )
        else:
            self._hang_up()

    def _hang_up(self) -> None:
        """Shut down the socket: the waiting driver sees the end of the connection and closes it."""
        with contextlib.suppress(OSError, psycopg.Error):  # the connection has ended already
            copy = socket.socket(fileno=os.dup(self.pgconn.socket))
            self._hung_up = True
            with copy:
                copy.shutdown(socket.SHUT_RDWR)
