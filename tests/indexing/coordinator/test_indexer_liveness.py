"""Pings of the indexer process: rare at rest, and at once when somebody asks for its silence."""

import asyncio
from typing import Any, cast

import anyio
import pytest

from cocosearchd.indexing.coordinator import indexer_liveness
from cocosearchd.indexing.coordinator.indexer_liveness import IndexerLiveness
from cocosearchd.indexing.coordinator.indexer_process import IndexerProcess

LIMIT_S = 60.0
LONG_S = 3600.0


class SilentProcess:
    """A process that never answers; it is also its own link."""

    pid = 1
    has_ended = False

    def __init__(self) -> None:
        self.link = self
        self.is_pinged = anyio.Event()

    def request(self, message: dict[str, Any]) -> "asyncio.Future[dict[str, Any]]":
        assert message == {"do": "ping"}
        self.is_pinged.set()
        return asyncio.get_running_loop().create_future()


async def test_a_process_is_pinged_when_somebody_asks_for_its_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(indexer_liveness, "seconds_to_tick", lambda _: LONG_S)
    process = SilentProcess()
    liveness = IndexerLiveness(cast(IndexerProcess, process), LONG_S)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(liveness.watch)
        assert liveness.describe_silence() is None
        with anyio.fail_after(LIMIT_S):
            await process.is_pinged.wait()
        monkeypatch.setattr(indexer_liveness, "UNRESPONSIVE_S", 0.0)
        assert "has not answered" in (liveness.describe_silence() or "")
        tasks.cancel_scope.cancel()
