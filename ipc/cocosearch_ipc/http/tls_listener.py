"""Accepts connections in TLS and limits those that have not finished their handshake.

An `asyncio.Server` names no connection before its handshake, and any host can hold one open without
a word. So this accepts by itself: a connection counts from its first moment.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from cocosearch_ipc.http.connection_slots import PeerFinder, Slot, choose_by_share
from cocosearch_ipc.http.sockets import BACKLOG

log = logging.getLogger(__name__)

MAX_HANDSHAKES = 64  # each takes some milliseconds and a few turns to the client
ACCEPT_RETRY_S = 1.0  # asyncio uses the same pause for the other listeners

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Handshake:
    connection: socket.socket
    client: Address
    since: float

    def abandon(self) -> None:
        """Have its transport see the end of the connection, and close it."""
        with contextlib.suppress(OSError):  # the client was faster
            self.connection.shutdown(socket.SHUT_RDWR)


class TlsListener:
    """A listening TCP socket whose protocols speak TLS. Has the methods of `asyncio.Server` that
    uvicorn calls.

    When too many handshakes run, one of the client that has most is abandoned.
    """

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        make_protocol: Callable[[], asyncio.Protocol],
        peers: PeerFinder,
        handshake_s: float,
    ) -> None:
        """Accept from now on, in the running event loop. A handshake lasts at most `handshake_s`."""
        self._listening = listening
        self._context = context
        self._make_protocol = make_protocol
        self._peers = peers
        self._handshake_s = handshake_s
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[asyncio.Task[None], _Handshake] = {}
        listening.setblocking(False)
        listening.listen(BACKLOG)
        self._accepting = self._loop.create_task(self._accept())

    def close(self) -> None:
        """Accept no more, and abandon handshakes. Open connections stay."""
        self._accepting.cancel()
        for handshake in self._handshakes.values():
            handshake.abandon()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed and the handshakes have ended."""
        await asyncio.wait([self._accepting, *self._handshakes])

    async def _accept(self) -> None:
        with self._listening:
            while True:
                try:
                    connection, client = await self._loop.sock_accept(self._listening)
                except ConnectionAbortedError:
                    continue
                except OSError as error:  # no descriptors: the client waits in the kernel's queue
                    log.warning("connection_not_accepted", extra={"reason": str(error)})
                    await asyncio.sleep(ACCEPT_RETRY_S)
                    continue
                self._begin(_Handshake(connection, client[:2], self._loop.time()))

    def _begin(self, handshake: _Handshake) -> None:
        task = self._loop.create_task(self._shake_hands(handshake.connection))
        self._handshakes[task] = handshake
        task.add_done_callback(lambda task: self._handshakes.pop(task, None))
        if len(self._handshakes) > MAX_HANDSHAKES:
            self._make_room()

    async def _shake_hands(self, connection: socket.socket) -> None:
        """Make the handshake. Its transport has the connection from now on, and closes it."""
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_s,
            )
        except OSError as error:  # also ssl.SSLError: no TLS, too slow, gone
            log.debug("handshake_failed", extra={"reason": str(error)})

    def _make_room(self) -> None:
        tasks = list(self._handshakes)
        slots = [
            Slot(self._peers.peer_of(handshake.client), True, False, handshake.since)
            for handshake in self._handshakes.values()
        ]
        self._handshakes.pop(tasks[choose_by_share(slots, len(slots) - 1)]).abandon()
