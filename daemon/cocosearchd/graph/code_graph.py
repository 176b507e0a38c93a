"""The code graph of one index: it answers questions about definitions and uses, as of one moment.

In memory it has the hashes of names only, from the first question on; facts are read on demand. A
commit notes its paths, and the next question reads their names: a save costs nothing, and no answer
is older than the commits before it. After a while without questions, the memory is returned.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from typing import TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from cocosearchd.graph.code_file_cache import CodeFileCache
from cocosearchd.graph.code_files_view import CodeFilesView, FilesChanged, UnsavedFile
from cocosearchd.graph.name_table import NameTable, split_files
from cocosearchd.graph.use_cache import UseCache
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

# Noted paths from which reading all names anew costs less than following the changes.
_MAX_NOTED = 20_000
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
        self._noted = set[str]()  # paths whose names have to be read again
        self._lock = asyncio.Lock()
        self._cache = CodeFileCache()
        self._uses = UseCache()  # resolved uses of `_uses_table`
        self._uses_table: NameTable | None = None
        self._used = asyncio.Event()

    @property
    def nbytes(self) -> int:
        """Bytes of memory, about."""
        return (
            self._cache.nbytes
            + self._uses.nbytes
            + (self._table.nbytes if self._table is not None else 0)
        )

    def note(self, commit: Commit) -> None:
        """Note the files of a commit: the next question reads their names."""
        self._note(commit.paths)

    async def ask(
        self, question: Callable[[CodeFilesView], T], unsaved: Sequence[UnsavedFile] = ()
    ) -> T:
        """Answer a question in a thread, as of one moment after all commits that are noted.

        `question` reads files and has no effects: it runs again if a file changes meanwhile.
        `unsaved` stands in place of stored files. Raises what `question` raises, and
        `StoreUnavailable`.
        """
        self._used.set()
        try:
            return await self._answer(question, unsaved)
        finally:
            self._used.set()  # a long question filled the memory after the first note

    async def _answer(
        self, question: Callable[[CodeFilesView], T], unsaved: Sequence[UnsavedFile]
    ) -> T:
        cache = self._cache
        table = await self._catch_up()
        try:
            return await self._run(self._db, table, cache, question, unsaved)
        except FilesChanged as change:
            self._note(change.paths)
        # Where files change as they are read, all reads have to be of one state of the database.
        async with open_snapshot(self._db) as snapshot:
            generations = await searched_generations(snapshot, self._record)
            changed = await anyio.to_thread.run_sync(table.changed_paths, generations)
            self._note(changed)
            table = await self._reread(snapshot, table, changed)
            return await self._run(snapshot, table, cache, question, unsaved)

    async def run(self) -> None:
        """Return the memory `idle_s` seconds after the last question ended, for ever.

        To be supervised.
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
        """Drop files and resolved uses: there are other precise uses now, at the same generations.

        Questions that run keep the files that they have.
        """
        self._cache = CodeFileCache()
        self._uses_table = None

    async def free_memory(self) -> None:
        """Drop all that is in memory; the next question reads it again."""
        async with self._lock:
            self._table = None
            self._noted.clear()
            self._cache.clear()
            self._uses_table = None
            self._uses.clear()

    def _note(self, paths: Iterable[str]) -> None:
        if self._table is None and not self._lock.locked():
            return  # the first question reads the names of all files
        self._noted.update(paths)

    async def _catch_up(self) -> NameTable:
        """Return the table with all noted changes."""
        async with self._lock:
            # Commits after this line are noted for the next question.
            noted, self._noted = self._noted, set()
            if self._table is None or len(noted) > _MAX_NOTED:
                self._table = None
                self._table = await self._build()
            elif noted:
                unread = noted
                try:
                    self._table = await self._reread(self._db, self._table, noted)
                    unread = set()
                finally:  # after any failure, they are read for the next question
                    self._noted |= unread
            return self._table

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
        """Return a table with the names of some files as they are stored now."""
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

        # Other precise uses came meanwhile: what is resolved with those before is not shared.
        is_current = cache is self._cache
        uses, outdated = self._uses_at(table) if is_current else (UseCache(), None)

        def answer() -> T:
            if outdated is not None:
                outdated.clear()
            return question(CodeFilesView(table, read, cache, unsaved, uses))

        return await anyio.to_thread.run_sync(answer)

    def _uses_at(self, table: NameTable) -> tuple[UseCache, UseCache | None]:
        """Return the resolved uses of a table, and those of another one, which are outdated."""
        if self._uses_table is table:
            return self._uses, None
        outdated = self._uses
        self._uses_table, self._uses = table, UseCache()
        return self._uses, outdated
