"""A failure in one index stays there: other indexes go on, and it starts again."""

import asyncio
from pathlib import Path

import anyio
import pytest

from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.model import Commit
from cocosearchd.runtime import supervise
from cocosearchd.store.connection.database import Database
from tests.indexing.support import WAIT_S, Change, Source, new_record

pytestmark = pytest.mark.anyio


class RaisingSource(Source):
    """A source that fails while it is `broken`. No disk makes the real one fail at will."""

    broken = True

    async def next_batch(self, limit: int = 64, *, edits: bool = False) -> Change:
        if self.broken:
            raise RecursionError("maximum recursion depth exceeded\x1b[2J")
        return await super().next_batch(limit, edits=edits)


async def settled(source: Source, *, paths: int) -> dict[str, str]:
    """Return the errors of failed paths, once `count` paths are settled."""
    with anyio.fail_after(WAIT_S):
        while sum(len(batch.paths) for batch, _ in source.settled) < paths:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.02)
    return {path: error for _, failed in source.settled for path, error in failed.items()}


async def test_a_source_that_raises_restarts_its_own_work_alone(
    db: Database, root: Path, tmp_path: Path, spec: IndexerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "FIRST_PAUSE_S", 0.05)  # how long a pause is is not tested here
    monkeypatch.setattr(supervise, "LAST_PAUSE_S", 0.2)
    raising, healthy, sentences = RaisingSource(), Source(), list[str | None]()
    updater = Updater(spec, ignore)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(updater.run)
        await updater.add(await new_record(db, root), raising, on_failure=sentences.append)
        await updater.add(await new_record(db, another(tmp_path), "other"), healthy)
        healthy.give(Change(("saved.py",), urgent=True))
        raising.give(Change(("lib/retry.py",), urgent=True))
        assert await settled(healthy, paths=1) == {}
        assert not raising.settled
        raising.broken = False
        assert await settled(raising, paths=1) == {}
        tasks.cancel_scope.cancel()
    assert sentences[0] is not None
    assert "RecursionError: maximum recursion depth exceeded [2J" in sentences[0]
    assert sentences[-1] is None


async def test_a_file_that_cannot_be_taken_in_fails_alone(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    paths = ("lib/cache.py", "lib/retry.py", "src/parser.py")
    source = Source()

    async def refuse_one(commit: Commit) -> None:
        if paths[1] in commit.paths:
            raise ValueError("poisoned")

    updater = Updater(spec, refuse_one)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(updater.run)
        await updater.add(await new_record(db, root), source)
        source.give(Change(paths))
        assert await settled(source, paths=3) == {paths[1]: "ValueError: poisoned"}
        source.give(Change(("src/parser.py",)))
        assert (await settled(source, paths=4)).keys() == {paths[1]}
        tasks.cancel_scope.cancel()


async def ignore(commit: Commit) -> None:
    """Nobody is told."""


def another(tmp_path: Path) -> Path:
    other_record = tmp_path / "other"
    other_record.mkdir()
    (other_record / "saved.py").write_text("def saved() -> None: ...\n")
    return other_record
