"""Which chunks pass a filter on symbols, by key alone: for a ranking that holds the rest in memory.

A filter such as `sym:function` leaves most chunks, and reading thousands of keys costs more than the ranking itself. So
what passed is kept, by file, and the next question with the same filter reads only the files that were written since.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import Filter, IndexRecord
from cocosearchd.store.filters import filter_sql
from cocosearchd.store.pool import Database
from cocosearchd.store.statements import statement

KEPT_FILTERS = 32  # of all indexes together; 8 bytes for each chunk that passes
Starts = dict[str, NDArray[np.int64]]  # path -> first bytes of the chunks that pass, ascending


@dataclass(slots=True)
class _Kept:
    """What passes as of a generation. Files that are gone since stay in it: they are in no view of the index."""

    generation: int
    starts: Starts


class Matching:
    """Remembers what passed, for one event loop. Costs time, not answers, when it is lost."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._kept: OrderedDict[tuple[int, Filter], _Kept] = OrderedDict()

    async def chunks(self, record: IndexRecord, where: Filter) -> Starts:
        """The chunks that pass the part of a filter about symbols, as of `record.generation` or later.

        Languages and paths are of files: whoever holds these in memory filters them there. Phrases are in texts, and
        nearly every question has others: see `phrases`. Not to be changed.
        """
        of_chunks = Filter(symbol_types=where.symbol_types, symbol_name=where.symbol_name)
        key = (record.number, of_chunks)
        kept = self._kept.pop(key, None) or _Kept(-1, {})
        if kept.generation < record.generation:
            kept = await self._newer(record, of_chunks, kept)
        self._kept[key] = kept
        if len(self._kept) > KEPT_FILTERS:
            self._kept.popitem(last=False)
        return kept.starts

    def forget(self, record: IndexRecord) -> None:
        """The index is gone."""
        for key in [key for key in self._kept if key[0] == record.number]:
            del self._kept[key]

    async def _newer(self, record: IndexRecord, where: Filter, kept: _Kept) -> _Kept:
        condition, values = filter_sql(where)
        query = statement("matching_since", record, filter=condition)
        async with self._db.connection() as connection:
            cursor = connection.cursor(binary=True)
            await cursor.execute(query, values | {"since": kept.generation})
            rows = await cursor.fetchall()
        starts, generation = dict(kept.starts), max(kept.generation, record.generation)
        for path, written, packed in rows:
            generation = max(generation, written)
            if packed:
                starts[path] = starts_of(packed)
            else:
                starts.pop(path, None)
        return _Kept(generation, starts)


def starts_of(packed: bytes) -> NDArray[np.int64]:
    """First bytes of chunks as a statement packs them, ascending."""
    return np.sort(np.frombuffer(packed, ">i8").astype(np.int64))
