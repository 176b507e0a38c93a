"""The rows of a followed index: finds the changed files, and has them applied as a commit."""

from collections.abc import Awaitable, Callable

from cocosearchd.model import Commit, IndexRecord
from cocosearchd.runtime.coalesced_calls import CoalescedCalls
from cocosearchd.store.connection.database import Database
from cocosearchd.store.following.followed_registry import all_paths, changed_files
from cocosearchd.store.index_records import index_not_found, rows_state

ApplyCommit = Callable[[Commit], Awaitable[None]]


class FollowedRows:
    """Compares the files of an index with those of the last check, by their generations.

    It keeps the path and the generation of each file in memory: about 150 bytes for each file.
    """

    def __init__(self, db: Database, record: IndexRecord, apply: ApplyCommit) -> None:
        """`apply` applies a commit to the index in memory; it may fail, and is called again."""
        self._db = db
        self._record = record
        self._apply = apply
        self._generations: dict[str, int] = {}
        self._unapplied: dict[str, None] = {}
        self._read_generation = -1
        self._table: int | None = None
        self.is_replaced = False  # the table has other rows than those that were read
        self.generation = -1  # all changes up to this generation are applied
        self._catch_ups = CoalescedCalls(self._catch_up)

    @property
    def file_count(self) -> int:
        """The number of files, including files that are not searched."""
        return len(self._generations)

    async def start(self) -> None:
        """Read the generations of all files: later reads of rows have at least these."""
        await self._read()
        self._unapplied.clear()
        self.generation = self._read_generation

    async def catch_up(self) -> int:
        """Apply every change that was committed before this call; returns the generation.

        Raises `StoreUnavailable`, and `NotFound`, which includes an index with rows restored from a
        backup.
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
        generation, table = await rows_state(self._db, self._record)
        if self._table is None:
            self._table = table
        self.is_replaced |= table != self._table or generation < self._read_generation
        if self.is_replaced:
            raise index_not_found(self._record)
        if generation == self._read_generation:
            return
        changes = await changed_files(self._db, self._record, self._read_generation)
        gone = set[str]()
        self._generations |= changes.generations
        if len(self._generations) != changes.file_count:
            # Read a moment later: a file that is gone by then may be applied now too.
            gone = self._generations.keys() - await all_paths(self._db, self._record)
        for path in gone:
            del self._generations[path]
        self._unapplied |= dict.fromkeys((*changes.generations, *gone))
        self._read_generation = changes.generation
