"""Tells clients that resources have changed: indexes come and go, files become searchable, states
change.

Until 2025-11-25 a client subscribes to resources, and hears of a changed list unasked; from
2026-07-28 on it opens a `subscriptions/listen` stream. The engine is watched only while somebody
listens; bursts are told as one.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import anyio
import mcp_types
from fastmcp import FastMCP
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError

from cocosearch_ipc import workspace_protocol
from cocosearch_ipc.mcp import uris
from cocosearch_ipc.protocol import Failure

log = logging.getLogger(__name__)

TOGETHER_S = 0.5  # what happens within this is told once
PATIENCE_S = 5.0  # with a client that does not read, then it misses a notice
AGAIN_S = 1.0  # after the engine stopped telling
MAX_URIS = 1000  # of one session
RELISTED = {"added", "removed"}

Context = ServerRequestContext[Any, Any]


class Notifications:
    """Listens on behalf of all clients of one server. `run` must be running for them to hear
    anything.
    """

    def __init__(self, engine: workspace_protocol.WorkspaceEngine, server: FastMCP) -> None:
        self._engine = engine
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        # A connection, or a listening stream -> each URI as it asked for it, and as we write it.
        self._wanted: dict[object, dict[str, str]] = {}
        self._somebody = anyio.Event()
        self._news = anyio.Event()
        self._relisted = False
        self._changed = set[str]()
        self._watching: anyio.CancelScope | None = None
        _install(server, self)

    async def run(self) -> None:
        """Watch the engine whenever somebody listens, until cancelled."""
        while True:
            await self._somebody.wait()
            self._watching = anyio.CancelScope()
            with self._watching:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._tell)
                    await self._watch()

    def close(self) -> None:
        """End the listening streams in the way the protocol has for it."""
        self._listen.close()

    async def initialized(self, context: Context, params: mcp_types.NotificationParams) -> None:  # noqa: ARG002
        """A session has begun: it hears of changed lists."""
        self._session(context)

    async def subscribe(
        self, context: Context, params: mcp_types.SubscribeRequestParams
    ) -> mcp_types.EmptyResult:
        """A session wants to hear of a resource."""
        wanted = self._session(context)
        if len(wanted) >= MAX_URIS:
            raise MCPError(
                mcp_types.INVALID_REQUEST, f"a session has at most {MAX_URIS} subscriptions"
            )
        wanted[str(params.uri)] = uris.normal(str(params.uri))
        return mcp_types.EmptyResult()

    async def unsubscribe(
        self, context: Context, params: mcp_types.UnsubscribeRequestParams
    ) -> mcp_types.EmptyResult:
        """It does not any more."""
        self._session(context).pop(str(params.uri), None)
        return mcp_types.EmptyResult()

    async def listen(
        self, context: Context, params: mcp_types.SubscriptionsListenRequestParams
    ) -> mcp_types.SubscriptionsListenResult:
        """A stream of what a client asks for, until it goes or the daemon stops."""
        with self._listening(map(str, params.notifications.resource_subscriptions or ())):
            return await self._listen(context, params)

    def _session(self, context: Context) -> dict[str, str]:
        """What the session has asked for, until its connection ends."""
        # the session itself is made anew for each message
        connection: Connection = context.session._connection
        if connection not in self._wanted:
            self._joins(connection, ())
            connection.exit_stack.callback(self._leaves, connection)
        return self._wanted[connection]

    @contextmanager
    def _listening(self, asked: Iterable[str]) -> Iterator[None]:
        stream = object()
        self._joins(stream, asked)
        try:
            yield
        finally:
            self._leaves(stream)

    def _joins(self, who: object, asked: Iterable[str]) -> None:
        self._wanted[who] = {uri: uris.normal(uri) for uri in asked}
        self._somebody.set()

    def _leaves(self, who: object) -> None:
        self._wanted.pop(who, None)
        if not self._wanted:
            self._somebody = anyio.Event()
            if self._watching is not None:
                self._watching.cancel()

    async def _watch(self) -> None:
        while True:
            try:
                async with aclosing(
                    self._engine.watch(workspace_protocol.WatchRequest(lifecycle=True))
                ) as events:
                    async for event in events:
                        self._note(event)
            except Failure as failure:
                log.info("watch_ended", extra={"reason": failure.message})
            await anyio.sleep(AGAIN_S)
            # nobody knows what was missed
            self._relisted = True
            self._changed = self._changed | self._asked().keys()
            self._news.set()

    def _asked(self) -> dict[str, str]:
        return {uri: normal for wanted in self._wanted.values() for uri, normal in wanted.items()}

    def _note(self, event: workspace_protocol.WatchEvent) -> None:
        self._relisted |= event.kind in RELISTED
        asked = self._asked()
        about = {uris.INDEXES, uris.normal(uris.stats(event.index))}
        if any(uris.is_file(normal) for normal in asked.values()):
            about |= {uris.file(event.index, path) for path in (*event.changed, *event.removed)}
        self._changed |= {uri for uri, normal in asked.items() if normal in about}
        if self._relisted or self._changed:
            self._news.set()

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            await anyio.sleep(TOGETHER_S)
            self._news = anyio.Event()
            relisted = self._relisted
            changed = self._changed
            self._relisted = False
            self._changed = set()
            if relisted:
                await self._bus.publish(ResourcesListChanged())
            for uri in sorted(changed):
                await self._bus.publish(ResourceUpdated(uri))
            async with anyio.create_task_group() as group:
                for who, wanted in self._wanted.items():
                    if isinstance(who, Connection):
                        group.start_soon(_notify, who, relisted, sorted(changed & wanted.keys()))


async def _notify(connection: Connection, relisted: bool, changed: list[str]) -> None:
    with anyio.move_on_after(PATIENCE_S):
        if relisted:
            await connection.notify("notifications/resources/list_changed", None)
        for uri in changed:
            await connection.notify("notifications/resources/updated", {"uri": uri})


def _install(server: FastMCP, notices: Notifications) -> None:
    """Only the low-level server below fastmcp can be subscribed to."""
    low = server._mcp_server
    low.add_notification_handler(
        "notifications/initialized", mcp_types.NotificationParams, notices.initialized
    )
    low.add_request_handler(
        "resources/subscribe", mcp_types.SubscribeRequestParams, notices.subscribe
    )
    low.add_request_handler(
        "resources/unsubscribe", mcp_types.UnsubscribeRequestParams, notices.unsubscribe
    )
    low.add_request_handler(
        "subscriptions/listen", mcp_types.SubscriptionsListenRequestParams, notices.listen
    )
