"""How many files a bulk batch has, and how many are under way."""

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
    pace = AdaptiveBatchSize(BULK_FILES)
    seen = [pace.files]
    for _ in range(4):
        pace.record(pace.files, QUICK)
        seen.append(pace.files)
    assert seen[0] == FIRST_FILES
    assert seen == sorted(seen)
    assert seen[-1] == BULK_FILES


def test_batches_shrink_while_they_are_slow() -> None:
    pace = AdaptiveBatchSize(BULK_FILES)
    for _ in range(8):
        pace.record(pace.files, SLOW)
    assert pace.files == MIN_FILES


def test_batches_that_were_slow_together_count_once() -> None:
    pace = AdaptiveBatchSize(BULK_FILES)
    for _ in range(4):
        pace.record(pace.files, QUICK)
    for _ in range(2):
        pace.record(BULK_FILES, SLOW)
    assert pace.files == BULK_FILES // 2


def test_a_batch_that_was_not_full_says_nothing_of_larger_ones() -> None:
    pace = AdaptiveBatchSize(BULK_FILES)
    pace.record(1, QUICK)
    pace.record(pace.files, FAIR)
    assert pace.files == FIRST_FILES


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_no_batch_is_larger_than_allowed(most: int) -> None:
    pace = AdaptiveBatchSize(most)
    for seconds in (QUICK, QUICK, QUICK, SLOW, SLOW, SLOW, SLOW, SLOW, SLOW, QUICK):
        pace.record(pace.files, seconds)
        assert 1 <= pace.files <= max(1, most)


@pytest.fixture
async def lane(db: Database, tmp_path: Path) -> IndexQueue:
    return IndexQueue(
        await new_record(db, tmp_path),
        Source(),
        inflight=BULK_BATCHES * BULK_FILES,
        extra_unsettled=BACK,
    )


async def begun(lane: IndexQueue, name: str, files: int = FIRST_FILES) -> Change:
    """A batch that is given and begun at once; TimeoutError where there is no room for it."""
    batch = Change(tuple(f"{name}/{number}" for number in range(files)))
    assert isinstance(lane.source, Source)
    lane.source.give(batch)
    async with asyncio.timeout(0.05):
        lane.begin(await lane.next_batch(edits=False), edits=False)
    return batch


async def test_what_is_under_way_shrinks_with_the_batches(lane: IndexQueue) -> None:
    """Or small batches would be many at once, and each as slow as all of them."""
    one, other = await begun(lane, "one"), await begun(lane, "other")
    lane.mark_answered(one, SLOW, edits=False)
    lane.mark_settled(one, edits=False)
    with pytest.raises(TimeoutError):
        await begun(lane, "next", 1)
    lane.mark_answered(other, FAIR, edits=False)
    lane.mark_settled(other, edits=False)
    assert (await lane.next_batch(edits=False)).paths == ("next/0",)


async def test_the_child_has_work_while_batches_it_has_done_wait_to_be_found(
    lane: IndexQueue,
) -> None:
    first = [await begun(lane, f"first{number}") for number in range(BULK_BATCHES)]
    for batch in first:
        lane.mark_answered(batch, FAIR, edits=False)
    for number in range(BULK_BATCHES):
        await begun(lane, f"second{number}")


async def test_on_few_cores_batches_wait_for_each_other(db: Database, tmp_path: Path) -> None:
    lane = IndexQueue(
        await new_record(db, tmp_path),
        Source(),
        inflight=BULK_BATCHES * BULK_FILES,
        extra_unsettled=0,
    )
    for number in range(BULK_BATCHES):
        lane.mark_answered(await begun(lane, str(number)), FAIR, edits=False)
    with pytest.raises(TimeoutError):
        await begun(lane, "next")


async def test_what_waits_to_be_found_is_bounded(lane: IndexQueue) -> None:
    first = await begun(lane, "first")
    lane.mark_answered(first, FAIR, edits=False)
    for number in range(BULK_BATCHES + BACK - 1):
        lane.mark_answered(await begun(lane, str(number)), FAIR, edits=False)
    with pytest.raises(TimeoutError):
        await begun(lane, "last")
    lane.mark_settled(first, edits=False)
    async with asyncio.timeout(5):
        assert (await lane.next_batch(edits=False)).paths[0] == "last/0"
