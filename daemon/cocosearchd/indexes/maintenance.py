"""Maintains the tables of running indexes, and returns the memory of removed ones."""

import logging
from collections.abc import Awaitable, Callable

import anyio

from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.runtime.interpreter import collect_and_return_memory
from cocosearchd.store.chunks.chunk_retention import drop_retained_chunks
from cocosearchd.store.chunks.vector_index import drop_vector_index, ensure_vector_index
from cocosearchd.store.connection.database import Database
from cocosearchd.store.words.words_table import (
    Outcome,
    SplitTexts,
    drop_words,
    fill_words,
    is_filling,
)

log = logging.getLogger(__name__)

TIDY_S = 5.0  # from the removal of an index until its memory is returned
# without a commit: bulk writes would wear out a vector index that is built meanwhile
QUIET_S = 20.0
# Intervals of checks: retained chunks become too many soon, and too old after days.
CLEARING_INTERVAL_S = 60.0
CLEARING_INTERVAL_AT_REST_S = 3600.0
# After the last search of `classic`, an index whose settings do not demand words drops them.
UNUSED_S = 86_400.0


class Removals:
    """Returns the memory of removed indexes to the system.

    It waits `TIDY_S` after a removal: the tasks of an index need a moment to end, and indexes are
    often removed in a row.
    """

    def __init__(self, db: Database, release: Callable[[], Awaitable[None]]) -> None:
        """`release` frees memory that all indexes share, if no index is left."""
        self._db = db
        self._release = release
        self._removed = anyio.Event()

    def note(self) -> None:
        """Record that an index was removed."""
        self._removed.set()

    async def tidy(self) -> None:
        """Return memory after removals, for ever; to be supervised."""
        while True:
            await self._removed.wait()
            await anyio.sleep(TIDY_S)
            self._removed = anyio.Event()
            await self._db.replace_connections()
            await self._release()
            await anyio.to_thread.run_sync(collect_and_return_memory)


async def keep_vector_index(db: Database, index: RunningIndex) -> None:
    """Maintain PostgreSQL's vector index if the settings need one, and drop it otherwise.

    Each query of `classic` scans vectors in PostgreSQL. `code` compares vectors in memory, and a
    vector index makes each written row cost four times as much. The settings may change at any time.
    """
    previous: tuple[bool, int] | None = None  # what is done; None: nothing, or it must be repeated
    while True:
        generation = index.record.generation
        is_searched = is_searched_by_sql(index)
        await anyio.sleep(QUIET_S if is_searched else CLEARING_INTERVAL_S)
        current = (is_searched, generation if is_searched else 0)
        if previous != current and generation == index.record.generation:
            outcome = await (
                ensure_vector_index(db, index.record)
                if is_searched
                else drop_vector_index(db, index.record)
            )
            log.info("vector_index", extra={"index": index.record.name, "outcome": outcome})
            # busy: a killed daemon's build may still run, whose index every write would pay for
            previous = None if outcome == "busy" else current


def is_searched_by_sql(index: RunningIndex) -> bool:
    """Return True if the settings of an index demand searches in PostgreSQL."""
    search = index.settings.search
    return search.engine == "postgresql" or search.profile == "classic"


async def keep_words(db: Database, index: RunningIndex, split: SplitTexts) -> None:
    """Maintain the words of an index for `classic`: by its settings, and for a day after each use.

    The first use wakes this task; new settings wait for a pause of commits. An interrupted fill goes
    on at once. The last use is not known after a restart, so words stay for a day.
    """
    is_used = await is_filling(db, index.record) or await _pause_until_use(index)
    keep_until = anyio.current_time() + UNUSED_S
    previous = ""
    while True:
        action = ""
        if is_used or is_searched_by_sql(index):
            keep_until = anyio.current_time() + (UNUSED_S if is_used else 0.0)
            action = "fill"
        elif anyio.current_time() >= keep_until:
            action = "drop"
        if action not in ("", previous):
            outcome = await _change_words(db, index, split, action)
            previous = action if outcome != "busy" else ""
        is_used = await _pause_until_use(index)


async def _change_words(
    db: Database, index: RunningIndex, split: SplitTexts, action: str
) -> Outcome:
    name = index.record.name
    if action == "drop":
        outcome = await drop_words(db, index.record)
    else:
        index.is_filling_words = True
        try:
            outcome = await fill_words(db, index.record, split)
        finally:
            index.is_filling_words = False
    log.info("words", extra={"index": name, "outcome": outcome})
    return outcome


async def _pause_until_use(index: RunningIndex) -> bool:
    """Wait for a use of `classic`, or for a time without commits; return True for a use."""
    while True:
        generation = index.record.generation
        with anyio.move_on_after(QUIET_S if is_searched_by_sql(index) else CLEARING_INTERVAL_S):
            await index.classic_use.wait()
            index.classic_use = anyio.Event()
            return True
        if generation == index.record.generation:
            return False


async def keep_retained_chunks_bounded(db: Database, index: RunningIndex) -> None:
    """Drop retained chunks that are too old or too many: after changes, at rest once an hour."""
    checked_generation = -1
    checked_at = 0.0
    while True:
        await anyio.sleep(CLEARING_INTERVAL_S)
        generation = index.record.generation
        at_rest_s = anyio.current_time() - checked_at
        if generation != checked_generation or at_rest_s > CLEARING_INTERVAL_AT_REST_S:
            checked_generation = generation
            checked_at = anyio.current_time()
            if dropped := await drop_retained_chunks(db, index.record):
                log.info(
                    "retained_chunks_dropped", extra={"index": index.record.name, "chunks": dropped}
                )
