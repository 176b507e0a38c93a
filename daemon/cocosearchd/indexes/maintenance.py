"""What the tables of a running index need from time to time, when there is nothing else to do."""

import logging
from collections.abc import Awaitable, Callable

import anyio

from cocosearchd.indexes.config_sync import RunningIndex
from cocosearchd.runtime.interpreter import collect_and_give_back
from cocosearchd.store.chunks.retained_chunks import drop_retained_chunks
from cocosearchd.store.chunks.vector_index import drop_vector_index, ensure_vector_index
from cocosearchd.store.connection.database import Database

log = logging.getLogger(__name__)

TIDY_S = 5.0  # from the removal of an index until its memory is given back
# without a commit: building a vector index beside bulk writes would be undone by them
QUIET_S = 20.0
# between looks: they are too many soon, and too old after days
SPARES_S, SPARES_AT_REST_S = 60.0, 3600.0


class Removals:
    """Gives the memory of removed indexes back.

    A while after the last removal: tasks of an index end by themselves, and several are often
    removed in a row.
    """

    def __init__(self, db: Database, forget: Callable[[], Awaitable[None]]) -> None:
        """`forget` lets go of what is held for all indexes together, if there are none any more."""
        self._db, self._forget, self._noted = db, forget, anyio.Event()

    def note(self) -> None:
        """An index was removed."""
        self._noted.set()

    async def tidy(self) -> None:
        """For ever; to be supervised."""
        while True:
            await self._noted.wait()
            await anyio.sleep(TIDY_S)
            self._noted = anyio.Event()
            await self._db.replace_connections()
            await self._forget()
            await anyio.to_thread.run_sync(collect_and_give_back)


async def keep_vector_index(db: Database, index: RunningIndex) -> None:
    """Keep PostgreSQL's vector index while it pays: for `classic`, whose every question scans
    vectors there.

    With `code` it does not: it compares vectors in memory, and each written row would cost four
    times as much. The profile may change at any time.
    """
    seen: tuple[bool, int] | None = None
    while True:
        generation, wanted = index.record.generation, index.settings.search.profile == "classic"
        await anyio.sleep(QUIET_S if wanted else SPARES_S)
        now = wanted, generation if wanted else 0
        if seen != now and generation == index.record.generation:
            outcome = await (
                ensure_vector_index(db, index.record)
                if wanted
                else drop_vector_index(db, index.record)
            )
            log.info("vector_index", extra={"index": index.record.name, "outcome": outcome})
            seen = now


async def clear_spares(db: Database, index: RunningIndex) -> None:
    """Drop rows that no question sees once they are old, or too many. Looks after changes, and at
    rest once an hour.
    """
    seen, looked = -1, 0.0
    while True:
        await anyio.sleep(SPARES_S)
        generation = index.record.generation
        if generation != seen or anyio.current_time() - looked > SPARES_AT_REST_S:
            seen, looked = generation, anyio.current_time()
            if dropped := await drop_retained_chunks(db, index.record):
                log.info("spare_rows_dropped", extra={"index": index.record.name, "rows": dropped})
