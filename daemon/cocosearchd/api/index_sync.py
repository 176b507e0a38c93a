"""Waits until indexes hold every change made before a request, and reports their freshness."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import anyio
import anyio.lowlevel

from cocosearchd.config.settings import SearchSettings
from cocosearchd.freshness import Freshness, stale_reason
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.watching.ignore.outside_stamps import OutsideStamps

MAX_SYNC_MS = 600_000
CHECKED_TOGETHER = 32  # indexes that are checked in one turn of the event loop: about 2 ms


class IndexSync:
    """Waits for pending changes up to a deadline: a time of the event loop, None for no wait."""

    def __init__(
        self,
        indexes: IndexRegistry,
        settings: SearchSettings,
        pause_reason: Callable[[], str | None],
        is_owner: Callable[[], bool],
    ) -> None:
        """`pause_reason` returns why indexing is paused; None while it is not paused.

        `is_owner` returns True while no other daemon can use the database.
        """
        self._indexes = indexes
        self._settings = settings
        self._pause_reason = pause_reason
        self._is_owner = is_owner

    def configure(self, settings: SearchSettings) -> None:
        """Use these settings for later requests."""
        self._settings = settings

    def deadline(self, timeout_ms: int | None) -> float | None:
        """Return the deadline of a request that comes now. None: as configured; 0: no wait."""
        if timeout_ms is None:
            timeout_ms = self._settings.sync_timeout_ms
        if timeout_ms <= 0:
            return None
        return anyio.current_time() + min(timeout_ms, MAX_SYNC_MS) / 1000

    async def wait(self, index: RunningIndex, deadline: float | None) -> Freshness:
        """Wait for the pending changes of an index. The stale reason names a pause of indexing."""
        freshness = await self._wait_unpaused(index, deadline)
        if freshness.fresh and not index.record.is_followed and not self._is_owner():
            return replace(freshness, stale=stale_reason("lock_lost"))
        pause_reason = self._pause_reason()
        if freshness.fresh or not pause_reason or index.record.is_followed:
            return freshness
        paused = stale_reason("indexing_paused", reason=freshness.reason, pause=pause_reason)
        return replace(freshness, stale=paused)

    async def _wait_unpaused(self, index: RunningIndex, deadline: float | None) -> Freshness:
        if index.error is not None:
            unavailable = stale_reason("index_unavailable", error=index.error.message)
            return replace(index.root.freshness(), stale=unavailable)
        if deadline is None:
            return index.root.freshness()
        await self._list_mapped([index], deadline)
        if (freshness := index.sync_at_once()) is not None:
            return freshness
        applied = await self.apply_settings(index, deadline)
        if not applied and index.own_root.availability.unresponsive:
            return index.root.freshness()
        if not applied:
            return replace(index.root.freshness(), stale=stale_reason("settings_pending"))
        return await index.root.sync(max(0.0, deadline - anyio.current_time()))

    async def wait_seconds(self, index: RunningIndex, timeout_s: float) -> Freshness:
        """Wait at most `timeout_s` seconds for the pending changes of an index."""
        return await self.wait(index, anyio.current_time() + timeout_s)

    async def apply_settings(self, index: RunningIndex, deadline: float | None) -> bool:
        """Follow changed settings of an index's project; False if the deadline comes first."""
        with anyio.CancelScope(
            deadline=anyio.current_time() if deadline is None else deadline
        ) as scope:
            await self._indexes.refresh(index)
        return not scope.cancelled_caught

    async def wait_all(
        self, indexes: Sequence[RunningIndex], deadline: float | None
    ) -> list[Freshness]:
        """Wait for several indexes concurrently; return their freshness in the same order.

        Each index is first checked without a task: nearly always nothing has changed.
        """
        results: list[Freshness | None] = [None] * len(indexes)
        if deadline is not None and self._is_owner():
            await self._list_mapped(indexes, deadline)
            outside = OutsideStamps()
            for position, index in enumerate(indexes):
                results[position] = index.sync_at_once(outside)
                if position % CHECKED_TOGETHER == CHECKED_TOGETHER - 1:
                    await anyio.lowlevel.checkpoint()

        async def collect(position: int, index: RunningIndex) -> None:
            results[position] = await self.wait(index, deadline)

        async with anyio.create_task_group() as tasks:
            for position, index in enumerate(indexes):
                if results[position] is None:
                    tasks.start_soon(collect, position, index)
        return [freshness for freshness in results if freshness is not None]

    async def _list_mapped(self, indexes: Sequence[RunningIndex], deadline: float) -> None:
        """List mapped files if the last list is too old: without it no index is known at once.

        After a rest, one list costs less than the cookies and checks of many roots.
        """
        if all(index.record.is_followed for index in indexes):
            return
        with anyio.CancelScope(deadline=deadline):
            await self._indexes.mapped_files.refresh()

    async def catch_up(self, indexes: Sequence[RunningIndex], deadline: float | None) -> None:
        """Wait for the indexes that run, before a failed search for a file is repeated.

        The file may have been written a moment ago.
        """
        await self.wait_all([index for index in indexes if index.error is None], deadline)


def least_fresh(indexes: Sequence[RunningIndex], results: Sequence[Freshness]) -> Freshness:
    """Return the freshness of several indexes together: that of the first stale index.

    Its reason begins with the name of the index if there are several.
    """
    index, freshness = min(zip(indexes, results, strict=True), key=lambda pair: pair[1].fresh)
    if freshness.stale is None or len(indexes) == 1:
        return freshness
    return replace(freshness, stale=freshness.stale.in_index(index.record.name))
