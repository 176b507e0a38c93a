"""The order in which the parts of a daemon start."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import anyio
import pytest

from cocosearch_ipc.http.sockets import BoundSockets
from cocosearchd import service
from cocosearchd.config.layers import load_settings
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.instance_lock import InstanceLock

pytestmark = pytest.mark.anyio


class IndexesStart(Exception):
    """The start has come to the first index."""


async def test_lost_commits_are_looked_for_before_the_first_index_starts(
    db: Database, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that PostgreSQL loses while other indexes start would go unnoticed."""
    lock = InstanceLock(db)

    async def stop_here(
        indexes: IndexRegistry, report_step: object, is_stopping: Callable[[], bool]
    ) -> None:
        assert report_step == environment.notifier.starting, "the manager waits for each index"
        assert not is_stopping()
        assert lock.on_held_again == indexes.compare_generations
        raise IndexesStart

    async def run_no_indexer(updater: Updater) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(IndexRegistry, "start_all", stop_here)
    monkeypatch.setattr(Updater, "run", run_no_indexer)
    loaded = load_settings(None, {})
    environment = service.DaemonEnvironment(
        state=tmp_path, rpc=tmp_path / "rpc", bridge=tmp_path / "bridge", token=tmp_path / "token"
    )
    embedders = service._make_embedders(loaded.settings, "")

    async def start() -> None:
        async with anyio.create_task_group() as tasks:
            running = service.RunningParts(
                loaded=loaded,
                environment=environment,
                bound=cast(BoundSockets, None),  # not used so early
                store=service.StoreConnection(db, dsn, None),
                tasks=tasks,
                started=time.monotonic(),
                tls=None,
            )
            await service._create_engine(running, embedders, anyio.Event(), lock)

    with pytest.raises(ExceptionGroup) as ended:
        await start()
    assert ended.group_contains(IndexesStart)
