"""The code graph of one index: answers questions about definitions and uses at one moment.

After the first question, only the hashes of names are in memory; facts are read on demand. A commit
only notes its paths, and the next question reads their names. Therefore a save costs nothing, and
no answer is older than the commits before the question. After a while without questions, the memory
is returned.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, nullcontext
from typing import TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from cocosearchd.graph.code_file_cache import CodeFileCache
from cocosearchd.graph.code_files_view import CodeFilesView, FilesChanged, UnsavedFile
from cocosearchd.graph.name_table import NameTable, split_files
from cocosearchd.graph.use_cache import UseCache
from cocosearchd.graph.use_succession import TableChange, find_successor
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.runtime.interpreter import return_memory
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.read_snapshot import open_snapshot
from cocosearchd.store.file_facts import (
    StoredCode,
    StoredNames,
    all_file_names,
    file_code,
    file_names,
    searched_generations,
)

log = logging.getLogger(__name__)
T = TypeVar("T")

# With more noted paths, reading all names anew costs less than reading the changed names.
_MAX_NOTED = 20_000
# With more changed files, all resolved uses are dropped: each takes some two milliseconds to compare.
_MAX_COMPARED = 64
GRAPH_IDLE_S = 900.0


class CodeGraph:
    """The code graph of one index. For one event loop."""

    def __init__(
        self, database: Database, record: IndexRecord, idle_s: float = GRAPH_IDLE_S
    ) -> None:
        self._db = database
        self._record = record
        self._idle_s = idle_s
        self._table: NameTable | None = None
        self._noted = set[str]()  # paths with names that must be read again
        self._lock = asyncio.Lock()
        self._cache = CodeFileCache()
        self._uses = UseCache()  # resolved uses of `_uses_table`
        self._uses_table: NameTable | None = None
        self._used = asyncio.Event()

    @property
    def nbytes(self) -> int:
        """The estimated size in bytes."""
        return (
            self._cache.nbytes
            + self._uses.nbytes
            + self._uses.aliases.nbytes
            + (self._table.nbytes if self._table is not None else 0)
        )

    def mark_changed(self, commit: Commit) -> None:
        """Note the changed files of a commit: the next question reads their names."""
        self._note(commit.paths)

    async def ask(
        self,
        question: Callable[[CodeFilesView], T],
        unsaved: Sequence[UnsavedFile] = (),
        slots: anyio.CapacityLimiter | None = None,
    ) -> T:
        """Answer a question in a thread, at one moment after all noted commits.

        `question` reads files and has no side effects: it runs again if a file changes in the
        meantime. Its thread goes on when the caller is cancelled, unless it calls
        `anyio.from_thread.check_cancelled`. `unsaved` files replace stored files. `slots` limit the
        threads of their callers; None: only the threads of the event loop do. Raises the errors of
        `question`, and `StoreUnavailable`.
        """
        self._used.set()
        try:
            await self._catch_up()  # many names take a while, in which others may use the slot
            async with slots or nullcontext():
                return await self._answer(question, unsaved)
        finally:
            self._used.set()  # restart the idle time: a long question uses memory until its end

    async def _answer(
        self, question: Callable[[CodeFilesView], T], unsaved: Sequence[UnsavedFile]
    ) -> T:
        cache = self._cache
        table = await self._catch_up()
        try:
            return await self._run(self._db, table, cache, question, unsaved)
        except FilesChanged as change:
            self._note(change.paths)
        # Files changed while they were read: now all reads use one database snapshot.
        async with open_snapshot(self._db) as snapshot:
            generations = await searched_generations(snapshot, self._record)
            changed = await anyio.to_thread.run_sync(table.changed_paths, generations)
            self._note(changed)
            table = await self._reread(snapshot, table, changed)
            return await self._run(snapshot, table, cache, question, unsaved)

    async def run(self) -> None:
        """Return the memory `idle_s` seconds after the end of the last question. Runs for ever.

        A supervisor should run it.
        """
        while True:
            await self._used.wait()
            self._used.clear()
            with anyio.move_on_after(self._idle_s):
                await self._used.wait()
                continue
            await self.free_memory()
            await anyio.to_thread.run_sync(return_memory)

    def forget_files(self) -> None:
        """Drop cached files and resolved uses: precise uses have changed without a new generation.

        Running questions keep the files that they have.
        """
        self._cache = CodeFileCache()
        self._uses_table = None

    async def free_memory(self) -> None:
        """Drop everything in memory; the next question reads it again."""
        async with self._lock:
            self._table = None
            self._noted.clear()
            self._cache.clear()
            self._uses_table = None
            self._uses.clear()

    def _note(self, paths: Iterable[str]) -> None:
        if self._table is None and not self._lock.locked():
            return  # nothing to note: the first question reads the names of all files
        self._noted.update(paths)

    async def _catch_up(self) -> NameTable:
        """Return the table with all noted changes."""
        async with self._lock:
            # Commits after this line belong to the next question.
            noted, self._noted = self._noted, set()
            if self._table is None or len(noted) > _MAX_NOTED:
                self._table = None
                self._table = await self._build()
            elif noted:
                unread, earlier = noted, self._table
                try:
                    self._table = await self._reread(self._db, earlier, noted)
                    unread = set()
                finally:  # after any failure, these paths are read for the next question
                    self._noted |= unread
                await self._keep_uses(TableChange(earlier, self._table, noted))
            return self._table

    async def _keep_uses(self, change: TableChange) -> None:
        """Keep the resolved uses that are still valid after a change; without any, nothing is kept."""
        uses = self._uses
        if self._uses_table is not change.earlier or len(change.paths) > _MAX_COMPARED:
            return
        loaded = sorted(uses.loaded_paths.intersection(change.paths))
        earlier_rows, rows = await self._read_versions(change.earlier, loaded)
        successor = await anyio.to_thread.run_sync(find_successor, uses, change, earlier_rows, rows)
        # precise uses may have changed meanwhile
        if successor is not None and self._uses_table is change.earlier:
            self._uses, self._uses_table = successor, change.later

    async def _read_versions(
        self, earlier: NameTable, paths: Sequence[str]
    ) -> tuple[dict[str, StoredCode], dict[str, StoredCode]]:
        """Return the rows of files of an earlier table, if they are cached, and the stored ones."""
        if not paths:
            return {}, {}
        cache = self._cache
        earlier_rows, rows = dict[str, StoredCode](), dict[str, StoredCode]()
        for row in await file_code(self._db, self._record, paths):
            generation = earlier.generation_of(row.path)
            if generation is not None:
                earlier_row = cache.get_packed(row.path, generation)
                if earlier_row is not None:
                    earlier_rows[row.path] = earlier_row
            rows[row.path] = row
            cache.put_packed(row)
        return earlier_rows, rows

    async def _build(self) -> NameTable:
        """Read the names of all files."""
        table = NameTable()
        unbuilt = list[StoredNames]()
        async with aclosing(all_file_names(self._db, self._record)) as batches:
            async for rows in batches:
                unbuilt += rows
                *full, unbuilt = split_files(unbuilt)
                for part in full:
                    table = await anyio.to_thread.run_sync(table.replace, (), part)
        table = await anyio.to_thread.run_sync(table.replace, (), unbuilt)
        log.info("code_graph_built", extra={"index": self._record.name, "bytes": table.nbytes})
        return table

    async def _reread(self, db: Database, table: NameTable, paths: Iterable[str]) -> NameTable:
        """Return a table in which the names of some files are replaced by their stored names."""
        changed = list(paths)
        rows = await file_names(db, self._record, changed)
        return await anyio.to_thread.run_sync(table.replace, changed, rows)

    async def _run(
        self,
        db: Database,
        table: NameTable,
        cache: CodeFileCache,
        question: Callable[[CodeFilesView], T],
        unsaved: Sequence[UnsavedFile],
    ) -> T:
        def read(paths: Sequence[str]) -> Sequence[StoredCode]:
            return anyio.from_thread.run(file_code, db, self._record, paths)

        # If precise uses have changed in the meantime, uses that are resolved here must not be
        # shared.
        is_current = cache is self._cache
        uses, outdated = self._uses_at(table) if is_current else (UseCache(), None)

        def answer() -> T:
            if outdated is not None:
                outdated.clear()
            return question(CodeFilesView(table, read, cache, unsaved, uses))

        return await anyio.to_thread.run_sync(answer)

    def _uses_at(self, table: NameTable) -> tuple[UseCache, UseCache | None]:
        """Return the cache of resolved uses for a table, and an outdated cache of another table."""
        if self._uses_table is table:
            return self._uses, None
        outdated = self._uses
        self._uses_table, self._uses = table, UseCache()
        return self._uses, outdated
