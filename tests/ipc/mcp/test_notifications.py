"""Notifications to clients: changed and new resources, progress; and how a client cancels a wait."""

import time
import urllib.parse
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import mcp_types
import pytest
from fastmcp import Client
from fastmcp.client.messages import MessageHandler
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated

from cocosearch_ipc import workspace_protocol as w
from cocosearch_ipc.mcp import uris
from tests.ipc.conftest import SDK_LEAVES_STREAMS, Served, start
from tests.ipc.engine import AS_OF
from tests.ipc.mcp.test_mcp import transport

pytestmark = SDK_LEAVES_STREAMS

ADDED = w.WatchEvent("new", AS_OF, 1, kind="added")
COMMIT = w.WatchEvent("demo", AS_OF, 8, changed=("src/a b.py",))
FILE = uris.file("demo", "src/a b.py")


class Heard(MessageHandler):
    """Keeps what the server says about resources."""

    def __init__(self) -> None:
        self.relisted = 0
        self.updated = list[str]()

    async def on_resource_list_changed(
        self, message: mcp_types.ResourceListChangedNotification
    ) -> None:
        self.relisted += 1

    async def on_resource_updated(self, message: mcp_types.ResourceUpdatedNotification) -> None:
        self.updated.append(str(message.params.uri))


@pytest.mark.parametrize("kind", ["http", "sse", "stdio"])
async def test_a_session_hears_of_indexes_that_come_and_of_what_it_subscribed_to(
    served: Served, kind: str
) -> None:
    heard = Heard()
    async with Client(transport(served, kind), message_handler=heard, mode="legacy") as client:
        assert client.initialize_result is not None
        resources = client.initialize_result.capabilities.resources
        assert resources is not None
        assert (resources.subscribe, resources.list_changed) == (True, True)
        await _subscribe(client, uris.INDEXES)
        await _subscribe(client, FILE)
        await _until(lambda: bool(served.engine.watchers))
        served.portal.call(_happen, served, COMMIT, COMMIT, ADDED)
        await _until(lambda: heard.relisted == 1 and len(heard.updated) == 2)
        assert sorted(heard.updated) == sorted([FILE, uris.INDEXES])  # once, though there were two
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await client.session.unsubscribe_resource(FILE)
        served.portal.call(_happen, served, COMMIT)
        await _until(lambda: len(heard.updated) == 3)
        assert heard.updated[-1] == uris.INDEXES
    if kind != "http":  # a session of HTTP outlives its connections
        await _until(lambda: not served.engine.watchers)


async def test_a_client_hears_of_a_file_however_it_quotes_its_name(served: Served) -> None:
    heard = Heard()
    requests = [
        "cocosearch://index/demo/file/app/(group)/@x.tsx",
        "cocosearch://index/demo/file/app%2F(group)%2F%40x.tsx",
    ]
    async with Client(transport(served, "http"), message_handler=heard, mode="legacy") as client:
        for uri in requests:
            await _subscribe(client, uri)
        await _until(lambda: bool(served.engine.watchers))
        served.portal.call(_happen, served, replace(COMMIT, changed=("app/(group)/@x.tsx",)))
        await _until(lambda: sorted(heard.updated) == sorted(requests))
    async with (
        Client(transport(served, "http"), mode="2026-07-28") as client,
        listen(client.session, resource_subscriptions=requests[:1]) as stream,
    ):
        served.portal.call(_happen, served, replace(COMMIT, changed=("app/(group)/@x.tsx",)))
        assert await stream.__anext__() == ResourceUpdated(requests[0])


async def test_changes_missed_while_the_engine_was_away_are_announced(served: Served) -> None:
    """PostgreSQL is away just when a commit is to be announced."""
    heard = Heard()
    async with Client(transport(served, "http"), message_handler=heard, mode="legacy") as client:
        await _subscribe(client, FILE)
        await _until(lambda: bool(served.engine.watchers))
        served.portal.call(_break_off, served)
        await _until(lambda: heard.updated == [FILE] and heard.relisted == 1)
        await _until(lambda: bool(served.engine.watchers))


@pytest.mark.parametrize("kind", ["http", "stdio"])
async def test_the_newest_era_listens(served: Served, kind: str) -> None:
    async with Client(transport(served, kind), mode="2026-07-28") as client:
        async with listen(
            client.session, resources_list_changed=True, resource_subscriptions=[FILE]
        ) as stream:
            await _until(lambda: bool(served.engine.watchers))
            served.portal.call(_happen, served, ADDED, COMMIT)
            events = {await stream.__anext__(), await stream.__anext__()}
            assert events == {ResourcesListChanged(), ResourceUpdated(FILE)}
        await _until(lambda: not served.engine.watchers)  # nobody listens, nothing is watched


async def test_a_stop_ends_listening_streams_in_time(served: Served) -> None:
    async with (
        Client(transport(served, "http"), mode="2026-07-28") as client,
        listen(client.session, resources_list_changed=True) as stream,
    ):
        await _until(lambda: bool(served.engine.watchers))
        began = time.monotonic()
        await anyio.to_thread.run_sync(served.stop)
        assert time.monotonic() - began < 10
        assert [event async for event in stream] == []  # ended as the protocol says, not lost


async def test_resources_are_the_indexes_of_now_and_their_files(served: Served) -> None:
    served.engine.indexes["odd name/é"] = "/srv/odd"
    async with Client(transport(served, "http")) as client:
        listed = {str(resource.uri) for resource in await client.list_resources()}
        templates = {template.uri_template for template in await client.list_resource_templates()}
        (stats,) = await client.read_resource(uris.stats("odd name/é"))
        (file,) = await client.read_resource(FILE)
        refused = list[str]()
        for path in ("../etc/passwd", "/etc/passwd", "a/../../b", "a\0b"):
            with pytest.raises(MCPError) as failed:
                await client.read_resource(
                    f"cocosearch://index/demo/file/{urllib.parse.quote(path)}"
                )
            refused.append(str(failed.value))
        served.engine.fresh_files = False
        with pytest.raises(MCPError, match="has changed since\nHint: get_file shows"):
            await client.read_resource(FILE)
        with pytest.raises(MCPError, match="no index 'gone'\nHint: there are demo, odd name/é"):
            await client.read_resource(uris.stats("gone"))
    assert listed == {uris.INDEXES, uris.stats("demo"), uris.stats("odd name/é")}
    assert templates == {uris.STATS, uris.FILE}
    assert isinstance(stats, mcp_types.TextResourceContents)
    assert '"root":"/srv/odd"' in stats.text
    assert isinstance(file, mcp_types.TextResourceContents)
    assert file.text == "b\nc\n"
    assert all("Traceback" not in text for text in refused)


async def test_a_cancelled_wait_ends_and_the_daemon_goes_on(served: Served) -> None:
    served.engine.steps = 10_000
    served.engine.step_s = 0.02
    reports = list[float]()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        reports.append(done)

    async with Client(transport(served, "http"), progress_handler=progress) as client:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "index_codebase", {"path": "/srv/new"})
                await _until(lambda: len(reports) > 2)
                scope.cancel()
        await _until(lambda: served.engine.cancelled == 1)
        assert (await client.call_tool("list_indexes")).content
    assert "new" in served.engine.indexes


async def test_subscriptions_outlive_a_restart_of_the_daemon(served: Served) -> None:
    heard = Heard()
    async with Client(transport(served, "stdio"), message_handler=heard, mode="legacy") as client:
        await _subscribe(client, uris.INDEXES)
        served.stop()
        again = start(served.run, served.state, served.portal)
        try:
            await client.call_tool("list_indexes")
            await _until(lambda: bool(again.engine.watchers))
            again.portal.call(_happen, again, COMMIT)
            # that there was a gap, and the commit
            await _until(lambda: heard.updated == [uris.INDEXES] * 2)
        finally:
            again.stop()


async def test_a_client_that_only_listens_hears_of_the_next_daemon(served: Served) -> None:
    heard = Heard()
    async with Client(transport(served, "stdio"), message_handler=heard, mode="legacy") as client:
        await _subscribe(client, uris.INDEXES)
        served.stop()
        again = start(served.run, served.state, served.portal)
        try:
            await _until(lambda: bool(again.engine.watchers))
            await _until(lambda: heard.updated == [uris.INDEXES])  # it may have changed meanwhile
            again.portal.call(_happen, again, COMMIT)
            await _until(lambda: heard.updated == [uris.INDEXES] * 2)
        finally:
            again.stop()


async def _subscribe(client: Client[Any], uri: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)  # all there is in this era
        await client.session.subscribe_resource(uri)


async def _happen(served: Served, *events: w.WatchEvent) -> None:
    for event in events:
        served.engine.happened(event)


async def _break_off(served: Served) -> None:
    for watcher in served.engine.watchers:
        watcher.close()


async def _until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.01)
