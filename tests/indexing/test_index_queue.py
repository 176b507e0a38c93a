"""Sizes of bulk batches, and limits of the batches in flight."""

import asyncio
from pathlib import Path

import pytest

from cocosearchd.indexing.index_queue import (
    BULK_BATCHES,
    BULK_FILES,
    FIRST_FILES,
    MIN_FILES,
    QUICK_S,
    SLOW_S,
    AdaptiveBatchSize,
    IndexQueue,
)
from cocosearchd.store.connection.database import Database
from tests.indexing.support import Change, Source, new_record

pytestmark = pytest.mark.anyio

BACK = 2
QUICK, SLOW, FAIR = QUICK_S / 2, SLOW_S * 2, (QUICK_S + SLOW_S) / 2


def test_batches_grow_while_they_are_quick() -> None:
    batch_size = AdaptiveBatchSize(BULK_FILES)
    sizes = [batch_size.files]
    for _ in range(4):
        batch_size.record(batch_size.files, QUICK)
        sizes.append(batch_size.files)
    assert sizes[0] == FIRST_FILES
    assert sizes == sorted(sizes)
    assert sizes[-1] == BULK_FILES


def test_batches_shrink_while_they_are_slow() -> None:
    batch_size = AdaptiveBatchSize(BULK_FILES)
    for _ in range(8):
        batch_size.record(batch_size.files, SLOW)
    assert batch_size.files == MIN_FILES


def test_batches_that_were_slow_together_count_once() -> None:
    batch_size = AdaptiveBatchSize(BULK_FILES)
    for _ in range(4):
        batch_size.record(batch_size.files, QUICK)
    for _ in range(2):
        batch_size.record(BULK_FILES, SLOW)
    assert batch_size.files == BULK_FILES // 2


def test_a_batch_that_was_not_full_says_nothing_of_larger_ones() -> None:
    batch_size = AdaptiveBatchSize(BULK_FILES)
    batch_size.record(1, QUICK)
    batch_size.record(batch_size.files, FAIR)
    assert batch_size.files == FIRST_FILES


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_no_batch_is_larger_than_allowed(most: int) -> None:
    batch_size = AdaptiveBatchSize(most)
    for seconds in (QUICK, QUICK, QUICK, SLOW, SLOW, SLOW, SLOW, SLOW, SLOW, QUICK):
        batch_size.record(batch_size.files, seconds)
        assert 1 <= batch_size.files <= max(1, most)


@pytest.fixture
async def queue(db: Database, tmp_path: Path) -> IndexQueue:
    return IndexQueue(
        await new_record(db, tmp_path),
        Source(),
        inflight=BULK_BATCHES * BULK_FILES,
        extra_unsettled=BACK,
    )


async def begun(queue: IndexQueue, name: str, files: int = FIRST_FILES) -> Change:
    """A batch that is given and begun at once; TimeoutError where there is no room for it."""
    batch = Change(tuple(f"{name}/{number}" for number in range(files)))
    assert isinstance(queue.source, Source)
    queue.source.give(batch)
    async with asyncio.timeout(0.05):
        queue.begin(await queue.next_batch(edits=False), edits=False)
    return batch


async def test_the_in_flight_limit_shrinks_with_the_batches(queue: IndexQueue) -> None:
    """Or small batches would be many at once, and each as slow as all of them."""
    first, second = await begun(queue, "one"), await begun(queue, "other")
    queue.mark_answered(first, SLOW, edits=False)
    queue.mark_settled(first, edits=False)
    with pytest.raises(TimeoutError):
        await begun(queue, "next", 1)
    queue.mark_answered(second, FAIR, edits=False)
    queue.mark_settled(second, edits=False)
    assert (await queue.next_batch(edits=False)).paths == ("next/0",)


async def test_the_indexer_has_work_while_finished_batches_wait_to_become_searchable(
    queue: IndexQueue,
) -> None:
    first = [await begun(queue, f"first{number}") for number in range(BULK_BATCHES)]
    for batch in first:
        queue.mark_answered(batch, FAIR, edits=False)
    for number in range(BULK_BATCHES):
        await begun(queue, f"second{number}")


async def test_on_few_cores_batches_wait_for_each_other(db: Database, tmp_path: Path) -> None:
    queue = IndexQueue(
        await new_record(db, tmp_path),
        Source(),
        inflight=BULK_BATCHES * BULK_FILES,
        extra_unsettled=0,
    )
    for number in range(BULK_BATCHES):
        queue.mark_answered(await begun(queue, str(number)), FAIR, edits=False)
    with pytest.raises(TimeoutError):
        await begun(queue, "next")


async def test_the_files_that_wait_to_become_searchable_are_bounded(queue: IndexQueue) -> None:
    first = await begun(queue, "first")
    queue.mark_answered(first, FAIR, edits=False)
    for number in range(BULK_BATCHES + BACK - 1):
        queue.mark_answered(await begun(queue, str(number)), FAIR, edits=False)
    with pytest.raises(TimeoutError):
        await begun(queue, "last")
    queue.mark_settled(first, edits=False)
    async with asyncio.timeout(5):
        assert (await queue.next_batch(edits=False)).paths[0] == "last/0"
