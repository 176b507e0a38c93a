"""Notifies clients of changed resources: added and removed indexes, files, states.

Up to protocol version 2025-11-25, a client subscribes to resources, and receives notifications of a
changed list without a subscription. From 2026-07-28 on, a client opens a `subscriptions/listen`
stream. The engine is watched only while a client listens. A burst of changes becomes one
notification.
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
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.mcp import uris

log = logging.getLogger(__name__)

TOGETHER_S = 0.5  # changes within this time become one notification
SEND_DEADLINE_S = 5.0  # a client that reads nothing for this time misses a notification
RESUBSCRIBE_S = 1.0  # pause after the engine's stream has ended
MAX_URIS = 1000  # per session
RELISTED = {"added", "removed"}

Context = ServerRequestContext[Any, Any]


class Notifications:
    """The listeners of one server. They are notified only while `run` is running."""

    def __init__(self, engine: workspace_protocol.WorkspaceEngine, server: FastMCP) -> None:
        self._engine = engine
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        # A connection, or a listening stream -> URI as the client wrote it -> normalised URI.
        self._subscriptions: dict[object, dict[str, str]] = {}
        self._has_listeners = anyio.Event()
        self._has_changes = anyio.Event()
        self._relisted = False
        self._changed = set[str]()
        self._watching: anyio.CancelScope | None = None
        _install(server, self)

    async def run(self) -> None:
        """Watch the engine while clients listen, until cancelled."""
        while True:
            await self._has_listeners.wait()
            self._watching = anyio.CancelScope()
            with self._watching:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._send_changes)
                    await self._watch()

    def close(self) -> None:
        """End the listening streams as the protocol prescribes."""
        self._listen.close()

    async def initialized(self, context: Context, params: mcp_types.NotificationParams) -> None:  # noqa: ARG002
        """Register a new session for notifications of changed lists."""
        self._session(context)

    async def subscribe(
        self, context: Context, params: mcp_types.SubscribeRequestParams
    ) -> mcp_types.EmptyResult:
        """Subscribe a session to a resource."""
        subscriptions = self._session(context)
        if len(subscriptions) >= MAX_URIS:
            raise MCPError(
                mcp_types.INVALID_REQUEST, f"a session has at most {MAX_URIS} subscriptions"
            )
        subscriptions[str(params.uri)] = uris.normal(str(params.uri))
        return mcp_types.EmptyResult()

    async def unsubscribe(
        self, context: Context, params: mcp_types.UnsubscribeRequestParams
    ) -> mcp_types.EmptyResult:
        """Remove a subscription."""
        self._session(context).pop(str(params.uri), None)
        return mcp_types.EmptyResult()

    async def listen(
        self, context: Context, params: mcp_types.SubscriptionsListenRequestParams
    ) -> mcp_types.SubscriptionsListenResult:
        """Stream notifications until the client disconnects or the daemon stops."""
        with self._listening(map(str, params.notifications.resource_subscriptions or ())):
            return await self._listen(context, params)

    def _session(self, context: Context) -> dict[str, str]:
        """Return the subscriptions of a session; they end with its connection."""
        # fastmcp creates a new session object for each message
        connection: Connection = context.session._connection
        if connection not in self._subscriptions:
            self._add_listener(connection, ())
            connection.exit_stack.callback(self._remove_listener, connection)
        return self._subscriptions[connection]

    @contextmanager
    def _listening(self, subscriptions: Iterable[str]) -> Iterator[None]:
        stream = object()
        self._add_listener(stream, subscriptions)
        try:
            yield
        finally:
            self._remove_listener(stream)

    def _add_listener(self, listener: object, subscriptions: Iterable[str]) -> None:
        self._subscriptions[listener] = {uri: uris.normal(uri) for uri in subscriptions}
        self._has_listeners.set()

    def _remove_listener(self, listener: object) -> None:
        self._subscriptions.pop(listener, None)
        if not self._subscriptions:
            self._has_listeners = anyio.Event()
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
            await anyio.sleep(RESUBSCRIBE_S)
            # events may have been missed, so report everything as changed
            self._relisted = True
            self._changed = self._changed | self._subscribed_uris().keys()
            self._has_changes.set()

    def _subscribed_uris(self) -> dict[str, str]:
        return {
            uri: normal
            for subscriptions in self._subscriptions.values()
            for uri, normal in subscriptions.items()
        }

    def _note(self, event: workspace_protocol.WatchEvent) -> None:
        self._relisted |= event.kind in RELISTED
        subscriptions = self._subscribed_uris()
        affected = {uris.INDEXES, uris.normal(uris.stats(event.index))}
        if any(uris.is_file(normal) for normal in subscriptions.values()):
            affected |= {uris.file(event.index, path) for path in (*event.changed, *event.removed)}
        self._changed |= {uri for uri, normal in subscriptions.items() if normal in affected}
        if self._relisted or self._changed:
            self._has_changes.set()

    async def _send_changes(self) -> None:
        while True:
            await self._has_changes.wait()
            await anyio.sleep(TOGETHER_S)
            self._has_changes = anyio.Event()
            relisted = self._relisted
            changed = self._changed
            self._relisted = False
            self._changed = set()
            if relisted:
                await self._bus.publish(ResourcesListChanged())
            for uri in sorted(changed):
                await self._bus.publish(ResourceUpdated(uri))
            async with anyio.create_task_group() as group:
                for listener, subscriptions in self._subscriptions.items():
                    if isinstance(listener, Connection):
                        group.start_soon(
                            _notify, listener, relisted, sorted(changed & subscriptions.keys())
                        )


async def _notify(connection: Connection, relisted: bool, changed: list[str]) -> None:
    with anyio.move_on_after(SEND_DEADLINE_S):
        if relisted:
            await connection.notify("notifications/resources/list_changed", None)
        for uri in changed:
            await connection.notify("notifications/resources/updated", {"uri": uri})


def _install(server: FastMCP, notices: Notifications) -> None:
    """Register the handlers at the low-level server, because fastmcp has no subscriptions."""
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
