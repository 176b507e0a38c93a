"""Connections that hang up on a server which says nothing: one that is stopped, or behind a network
that drops all.

A server that lives answers each statement within `statement_timeout`, be it with an error. One that
is frozen never does, and does not even answer a request to cancel; the driver would wait for both.
Hanging up ends the waiting at once: the connection is broken then, and the pool replaces it as any
other that broke.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any, TypeVar

import psycopg

# for what a server that lives does in some milliseconds: to take an empty statement, or to cancel
# one
LIVENESS_TIMEOUT_S = 2.0
# The time is waited for in parts, so that a pause of the whole machine counts as one part of it at
# most.
_PARTS = 4

Result = TypeVar("Result")


class Unresponsive(psycopg.OperationalError):
    """PostgreSQL has not answered for a while."""


class MonitoredConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """Waits `answer_timeout_s` for each answer, then hangs up and raises `Unresponsive`; None: for
    ever.
    """

    answer_timeout_s: float | None = None
    _timer: asyncio.TimerHandle | None = None
    _hung_up = False

    @contextlib.contextmanager
    def answer_timeout(self, seconds: float | None) -> Iterator[None]:
        """Another patience for a while."""
        before, self.answer_timeout_s = self.answer_timeout_s, seconds
        try:
            yield
        finally:
            self.answer_timeout_s = before

    # its arguments are the driver's own affair
    async def wait(self, *args: Any, **kwargs: Any) -> Any:
        """One answer of the server. Raises `Unresponsive`."""
        self._expect(self.answer_timeout_s)
        try:
            return await super().wait(*args, **kwargs)
        except psycopg.OperationalError:
            if self._hung_up:
                raise Unresponsive("the server is silent") from None
            raise
        finally:
            self._expect(None)

    async def cancel_safe(self, *, timeout: float = LIVENESS_TIMEOUT_S) -> None:
        """Ask the server to end the statement. The driver does when a task is cancelled, and then
        waits for the end.
        """
        self._expect(LIVENESS_TIMEOUT_S)
        await super().cancel_safe(timeout=min(timeout, LIVENESS_TIMEOUT_S))

    def _expect(self, within_s: float | None) -> None:
        """An answer within so many seconds, from now on; None: nothing is waited for."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if within_s is not None:
            self._look(within_s / _PARTS, _PARTS)

    def _look(self, part_s: float, parts: int) -> None:
        if parts:
            self._timer = asyncio.get_running_loop().call_later(
                part_s, self._look, part_s, parts - 1
            )
        else:
            self._hang_up()

    def _hang_up(self) -> None:
        """Whoever waits for the socket learns that nothing more will come. The driver closes it."""
        with contextlib.suppress(OSError, psycopg.Error):  # it has ended by itself
            copy = socket.socket(fileno=os.dup(self.pgconn.socket))
            self._hung_up = True
            with copy:
                copy.shutdown(socket.SHUT_RDWR)
