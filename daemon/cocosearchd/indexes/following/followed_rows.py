"""The rows of a followed index: finds the changed files, and has them applied as a commit."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable

from cocosearchd.model import Commit, IndexRecord
from cocosearchd.runtime.coalesced_calls import CoalescedCalls
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.read_snapshot import open_snapshot
from cocosearchd.store.following.followed_registry import (
    changed_files,
    count_path_lengths,
    paths_of_lengths,
)
from cocosearchd.store.index_records import (
    ROWS_AT_ONCE,
    index_not_found,
    rows_state,
)
from cocosearchd.store.lineage import is_same_lineage

ApplyCommit = Callable[[Commit], Awaitable[None]]


class FollowedRows:
    """Compares the files of an index with those of the last check, by their generations.

    It has the path of each file in memory, some 150 bytes a file, by the length of the path: after
    a deletion only the paths of a length that has fewer files now are read and compared.
    """

    def __init__(self, db: Database, record: IndexRecord, apply: ApplyCommit) -> None:
        """`apply` applies a commit to the index in memory; it may fail, and is called again."""
        self._db = db
        self._record = record
        self._apply = apply
        self._paths = defaultdict[int, set[str]](set)  # by their length in characters
        self._unapplied: dict[str, None] = {}
        self._read_generation = -1
        # the database and the table that were read
        self._source: tuple[str, int | None] | None = None
        self.is_replaced = False  # the table has, or may have, other rows than those that were read
        self.generation = -1  # all changes up to this generation are applied
        self._catch_ups = CoalescedCalls(self._catch_up)

    @property
    def file_count(self) -> int:
        """The number of files, also of those that are not searched."""
        return sum(map(len, self._paths.values()))

    async def start(self) -> None:
        """Read the generations of all files: later reads of rows have at least these."""
        await self._read()
        self._unapplied.clear()
        self.generation = self._read_generation

    async def catch_up(self) -> int:
        """Apply every change that was committed before this call; returns the generation.

        Raises `StoreUnavailable`, and `NotFound`, which includes an index with rows restored from a
        backup, and one of which commits were lost.
        """
        return await self._catch_ups.run()

    async def _catch_up(self) -> int:
        await self._read()
        if self.generation < self._read_generation:
            paths = tuple(self._unapplied)
            await self._apply(Commit(self._record.name, self._read_generation, paths))
            self._unapplied.clear()
            self.generation = self._read_generation
        return self.generation

    async def _read(self) -> None:
        """Find the files that have changed or gone since the last check."""
        state = await rows_state(self._db, self._record)
        source = state.incarnation, state.table
        self._source = self._source or source
        self.is_replaced |= source != self._source
        self._check_lineage(state.generation)
        if state.generation == self._read_generation:
            return
        async with open_snapshot(self._db) as snapshot:
            changes = await changed_files(snapshot, self._record, self._read_generation)
            self._check_lineage(changes.generation)
            for number, path in enumerate(changes.generations, 1):
                self._paths[len(path)].add(path)
                if number % ROWS_AT_ONCE == 0:
                    await asyncio.sleep(0)
            self._unapplied |= dict.fromkeys(changes.generations)
            if self.file_count != changes.file_count:
                await self._remove_gone(snapshot)
        self._read_generation = changes.generation

    def _check_lineage(self, generation: int) -> None:
        """Raise `NotFound` if the table has, or may have, other rows than those that were read."""
        is_read = self._read_generation >= 0
        self.is_replaced |= is_read and not is_same_lineage(self._read_generation, generation)
        if self.is_replaced:
            raise index_not_found(self._record)

    async def _remove_gone(self, snapshot: Database) -> None:
        """Forget the paths that are not stored any more, and note that they are to be applied.

        All stored paths are known by now, so a length of which some are gone has fewer files. A path
        is noted as it is forgotten: after an error in between nothing would find it again.
        """
        counts = await count_path_lengths(snapshot, self._record)
        lengths = [
            length for length, paths in self._paths.items() if len(paths) != counts.get(length, 0)
        ]
        stored = await paths_of_lengths(snapshot, self._record, lengths)
        for length in lengths:
            self._unapplied |= dict.fromkeys(self._paths[length] - stored)
            self._paths[length] &= stored
            await asyncio.sleep(0)
