"""The commit hook runs after a commit, never before: otherwise a cache would store old values as
new.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from cocosearchd.errors import StoreUnavailable
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.file_states import file_states
from tests.indexing.support import Change, Source, every_path, new_record
from tests.watching.support import digest

pytestmark = pytest.mark.anyio


class TellsTooEarly(Updater):
    """Mutant: the hook runs when a batch is sent, not when it is committed."""

    async def _send_part(self, job: Any, part: Any, *, alone: bool) -> Any:
        await self._on_commit(Commit(job.queue.record.name, 0, part.all_paths))
        return await super()._send_part(job, part, alone=alone)

    async def _run_hook(self, job: Any, part: Any, answer: Any) -> dict[str, str]:
        failed: dict[str, str] = answer.failed
        return failed


def hash_of(path: Path) -> bytes | None:
    return digest(path.read_bytes()) if path.exists() else None


@asynccontextmanager
async def kept(
    db: Database, record: IndexRecord, root: Path, spec: IndexerSpec, kind: type[Updater]
) -> AsyncIterator[tuple[Source, list[str]]]:
    """The source of an index, and the paths that its hook was told of before they were stored."""
    early = list[str]()

    async def on_commit(commit: Commit) -> None:
        stored = (await file_states(db, record, commit.paths)).files
        for path in commit.paths:
            if hash_of(root / path) != (stored[path].content_hash if path in stored else None):
                early.append(path)

    source, updater = Source(), kind(spec, on_commit)
    await updater.add(record, source)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(updater.run)
        yield source, early
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("urgent", [False, True])
@pytest.mark.parametrize("mutant", [False, True])
async def test_the_hook_runs_after_the_commit(
    db: Database, root: Path, spec: IndexerSpec, mutant: bool, urgent: bool
) -> None:
    record = await new_record(db, root)
    async with kept(db, record, root, spec, TellsTooEarly if mutant else Updater) as (
        source,
        early,
    ):
        source.give(Change(tuple(every_path(root))))
        assert await source.idle() == {}
        (root / "lib/retry.py").write_text("def changed(): ...\n")
        (root / "src/parser.py").unlink()
        source.give(Change(("lib/retry.py",), ("src/parser.py",), urgent=urgent))
        assert await source.idle() == {}
        assert bool(early) is mutant


class RecordsOutcomes(Updater):
    """Records for which generation the hook of each batch ran before its answer."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.outcomes = list[tuple[int, int]]()

    async def _run_hook(self, job: Any, part: Any, outcome: Any) -> dict[str, str]:
        self.outcomes.append((outcome.hooked_generation, outcome.generation))
        return await super()._run_hook(job, part, outcome)


@pytest.mark.parametrize("failures", [0, 1])
async def test_the_hook_of_a_save_waits_for_no_answer(
    db: Database, root: Path, spec: IndexerSpec, failures: int
) -> None:
    """It runs once, and again after the answer if it has failed."""
    commits = list[Commit]()

    async def on_commit(commit: Commit) -> None:
        commits.append(commit)
        if len(commits) <= failures:
            raise StoreUnavailable("away")

    record = await new_record(db, root)
    source, updater = Source(), RecordsOutcomes(spec, on_commit)
    await updater.add(record, source)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(updater.run)
        source.give(Change(("lib/retry.py", "src/parser.py"), urgent=True))
        assert await source.idle() == {}
        (hooked_generation, generation) = updater.outcomes.pop()
        assert hooked_generation == (-1 if failures else generation)
        assert len(commits) == 1 + failures
        assert {commit.generation for commit in commits} == {generation}
        assert {commit.paths for commit in commits} == {("lib/retry.py", "src/parser.py")}

        source.give(Change(("lib/retry.py",), urgent=True))
        assert await source.idle() == {}
        assert updater.outcomes == [(-1, generation)], "nothing was committed"
        tasks.cancel_scope.cancel()
