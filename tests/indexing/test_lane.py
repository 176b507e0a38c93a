"""How many files a bulk batch has, and how many are under way."""

import asyncio
from pathlib import Path

import pytest

from cocosearchd.indexing.lane import BULK_FILES, FIRST_FILES, LEAST_FILES, QUICK_S, SLOW_S, Lane, Pace
from cocosearchd.store.pool import Database
from tests.indexing.support import Change, Source, new_record

pytestmark = pytest.mark.anyio

QUICK, SLOW, FAIR = QUICK_S / 2, SLOW_S * 2, (QUICK_S + SLOW_S) / 2


def test_batches_grow_while_they_are_quick() -> None:
    pace = Pace(BULK_FILES)
    seen = [pace.files]
    for _ in range(4):
        pace.took(pace.files, QUICK)
        seen.append(pace.files)
    assert seen[0] == FIRST_FILES
    assert seen == sorted(seen)
    assert seen[-1] == BULK_FILES


def test_batches_shrink_while_they_are_slow() -> None:
    pace = Pace(BULK_FILES)
    for _ in range(8):
        pace.took(pace.files, SLOW)
    assert pace.files == LEAST_FILES


def test_batches_that_were_slow_together_count_once() -> None:
    pace = Pace(BULK_FILES)
    for _ in range(4):
        pace.took(pace.files, QUICK)
    for _ in range(2):
        pace.took(BULK_FILES, SLOW)
    assert pace.files == BULK_FILES // 2


def test_a_batch_that_was_not_full_says_nothing_of_larger_ones() -> None:
    pace = Pace(BULK_FILES)
    pace.took(1, QUICK)
    pace.took(pace.files, FAIR)
    assert pace.files == FIRST_FILES


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_no_batch_is_larger_than_allowed(most: int) -> None:
    pace = Pace(most)
    for seconds in (QUICK, QUICK, QUICK, SLOW, SLOW, SLOW, SLOW, SLOW, SLOW, QUICK):
        pace.took(pace.files, seconds)
        assert 1 <= pace.files <= max(1, most)


async def test_what_is_under_way_shrinks_with_the_batches(db: Database, tmp_path: Path) -> None:
    """Or small batches would be many at once, and each as slow as all of them."""
    source = Source()
    lane = Lane(await new_record(db, tmp_path), source, inflight=2 * BULK_FILES)
    under_way = [Change(tuple(f"{batch}/{number}" for number in range(FIRST_FILES))) for batch in range(2)]
    for batch in under_way:
        source.give(batch)
        lane.count(await lane.next_batch(edits=False), 1, edits=False)
    lane.took(under_way[0], SLOW)
    lane.count(under_way[0], -1, edits=False)
    source.give(Change(("next",)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await lane.next_batch(edits=False)
    lane.took(under_way[1], FAIR)
    lane.count(under_way[1], -1, edits=False)
    assert (await lane.next_batch(edits=False)).paths == ("next",)
