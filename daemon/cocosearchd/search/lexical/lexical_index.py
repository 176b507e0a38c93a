"""LexicalIndex: every chunk and file of one index by word, name, path and vector, in memory,
derived from PostgreSQL.

It is never the truth: deleting it loses time. It reads rows itself and is told by commits which
ones. It is *warm* from the end of its first catch-up on; while it is not, or is behind, the caller
answers from PostgreSQL.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

import anyio
import numpy as np
from numpy.typing import NDArray

from cocosearchd.errors import CocoSearchError
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.runtime.interpreter import give_back
from cocosearchd.search.lexical.analysis.analyser import Analyser, ReducedFiles
from cocosearchd.search.lexical.analysis.documents import Documents
from cocosearchd.search.lexical.analysis.terms import QueryTerms, TermCache
from cocosearchd.search.lexical.apply_journal import FROZE, ApplyJournal
from cocosearchd.search.lexical.index_snapshot import FeatureMatrix, IndexSnapshot, compute_features
from cocosearchd.search.lexical.scoring.symbol_filter import SymbolMasks
from cocosearchd.search.lexical.segments import segment_files
from cocosearchd.search.lexical.segments.live_documents import FileFilter
from cocosearchd.search.lexical.segments.segment import Segment, SegmentView
from cocosearchd.search.lexical.snapshot_changes import (
    EMPTY,
    SnapshotChange,
    append_segment,
    apply_change,
    apply_overlay,
    drop_stale_files,
    find_paths_with_dead_files,
    find_restorable_files,
    make_compact_snapshot,
    make_file_text,
    plan_idle_merge,
)
from cocosearchd.search.overlay import Overlay
from cocosearchd.store import index_records
from cocosearchd.store.chunks.index_texts import FileDigest, FileTexts, file_digests, file_texts
from cocosearchd.store.connection.database import Database

log = logging.getLogger(__name__)
T = TypeVar("T")
_BATCH_CHUNKS = 5000  # counted in one go in a thread: about 0.2 s
_SAVE_EVERY_S, _LAST_SAVE_S = 300.0, 5.0
# At rest no later than with so many that no file has: read again they were three seconds of answers
# by worse rules.
_SAVE_CHUNKS = 20_000
# Without a commit, after which parts are put in order. After one of many files the next may take
# its time, and what is merged before it would be merged again.
_QUIET_S, _QUIET_BULK_S = 1.0, 5.0
_BULK_FILES = 16
# Without a commit, after which words that were met are forgotten: up to `lexical_table.LIMIT_WORDS`
# and `lexical_chunks.LIMIT_BYTES` an index, which save time while files come in a row.
_FORGET_S = 20.0
# Of a commit of many files, applied before one of a few may be: some 25 ms.
_SLICE_FILES = 32
_RETRY_S = (1.0, 5.0, 30.0)
_PATHS_PER_QUERY = 1000  # asked of PostgreSQL at a time
# a view with an overlay shares all but the lists of its files with the one below
_MAX_OVERLAYS = 8


class LexicalIndex:
    """The lexical index of one index. All methods belong to one event loop; readers see one
    immutable view.
    """

    def __init__(
        self, db: Database, record: IndexRecord, snapshot_dir: Path, analyser: Analyser
    ) -> None:
        self._db, self._record, self._folder, self._analyser = db, record, snapshot_dir, analyser
        self.reduced = ReducedFiles()
        self._journal = ApplyJournal(
            snapshot_dir.with_suffix(".journal"), snapshot_dir.parent.parent / FROZE
        )
        self._terms, self.symbols = TermCache(), SymbolMasks()
        self._view: IndexSnapshot | None = None
        self._former = EMPTY  # segments that were part of it
        self._overlaid: dict[
            str, tuple[IndexSnapshot, IndexSnapshot]
        ] = {}  # digest of an overlay -> the view below it, and with it
        self._pending: dict[str, int] = {}  # path -> generation of a commit that is not applied yet
        self._saved = WeakKeyDictionary[Segment, str]()  # -> file
        self._saved_generation = -1
        self._kept = 0
        self._busy_until = 0.0  # by the clock of the event loop
        self._lock, self._bulk = asyncio.Lock(), asyncio.Lock()
        self.view_changes = (
            0  # views so far: a generation alone does not tell two apart, see `apply`
        )
        self._doubt, self._moved, self._stirred = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @property
    def number(self) -> int:
        """That of the index whose words these are."""
        return self._record.number

    @property
    def generation(self) -> int:
        """The generation that answers reflect; -1 while cold."""
        return -1 if self._view is None else self._view.generation

    @property
    def warm(self) -> bool:
        """Can it answer at all."""
        return self._view is not None

    @property
    def exclusion_warnings(self) -> tuple[str, ...]:
        """Sentences about files that are not read any more, as that froze or ended the daemon."""
        return self._journal.warnings

    @property
    def terms(self) -> TermCache:
        """By which text is split here."""
        return self._terms

    def sizes(self) -> Mapping[str, int]:
        """Files, chunks and segments, for status; and how many files the last catch-up did not have
        to read.
        """
        found = self._view
        return {
            "files": found.file_count if found else 0,
            "chunks": found.chunk_count if found else 0,
            "segments": len(found.views) if found else 0,
            "kept": self._kept,
        }

    async def run(self) -> None:
        """Catch up, keep parts in order and save from time to time; catch up again after any doubt.
        Until cancelled.
        """
        if self._journal.paused:
            await anyio.sleep_forever()
        try:
            failures = 0
            while True:
                try:
                    with self._journal.catching_up():
                        await self.catch_up()
                    failures = 0
                    await self._save()
                    await asyncio.to_thread(give_back)
                    await self._until_doubt()
                except CocoSearchError as error:
                    log.warning(
                        "lexical_behind", extra={"index": self._record.name, "error": str(error)}
                    )
                    await asyncio.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
                    failures += 1
        finally:
            with anyio.move_on_after(_LAST_SAVE_S, shield=True):
                await self._save()

    async def wait_for_generation(self, generation: int, timeout_s: float) -> bool:
        """Wait until answers reflect `generation`; False if that takes longer, or at once while
        cold.
        """
        if self._view is None:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.generation < generation:
                    self._moved.clear()
                    await self._moved.wait()
        return self.generation >= generation

    def parse_query(self, text: str) -> QueryTerms:
        """What a query asks."""
        return self._terms.parse_query(
            text, self._record.name, () if self._view is None else self._view.common_language
        )

    async def snapshot(self, overlay: Overlay | None = None) -> IndexSnapshot | None:
        """What answers come from now, for all that one question asks; None while cold.

        With an `overlay`, as if its files were saved.
        """
        if overlay is None or self._view is None:
            return self._view
        return await self._under(self._view, overlay)

    async def compute_features(
        self,
        asked: QueryTerms,
        vector: NDArray[np.float32] | None = None,
        choice: FileFilter | None = None,
        shown: int = 0,
    ) -> FeatureMatrix | None:
        """Everything known of the compared files for one query, as of one generation; None while
        cold.
        """
        state = await self.snapshot()
        return (
            None
            if state is None
            else await self.score(state, lambda found: found, asked, vector, choice, shown)
        )

    async def score(
        self,
        state: IndexSnapshot,
        judge: Callable[[FeatureMatrix], T],
        asked: QueryTerms,
        vector: NDArray[np.float32] | None = None,
        choice: FileFilter | None = None,
        shown: int = 0,
    ) -> T:
        """What `judge` makes of the evidence in a state, in the same thread.

        `choice`: which files may be shown; `shown`: how many are to be.
        """
        terms = self._terms
        return await asyncio.to_thread(
            lambda: judge(compute_features(state, asked, terms, vector, choice, shown))
        )

    async def apply(self, commit: Commit) -> None:
        """Make the named files what their rows now are. While cold, and after a failure, the next
        catch-up does it.

        An urgent commit waits for one other at most, so commits come in another order than their
        generations.
        """
        self._pending |= dict.fromkeys(commit.paths, commit.generation)
        # a commit without paths moves the generation, too
        self._pending.setdefault("", commit.generation)
        if len(commit.paths) >= _BULK_FILES:
            self._busy_until = asyncio.get_running_loop().time() + _QUIET_BULK_S
        if self._view is None:
            return
        async with contextlib.AsyncExitStack() as turn:
            if not commit.urgent:
                await turn.enter_async_context(self._bulk)
            paths = commit.paths if commit.urgent else [*self._pending]
            for first in range(0, max(len(paths), 1), _SLICE_FILES):
                async with self._lock:
                    await self._apply_some(
                        paths[first : first + _SLICE_FILES], urgent=commit.urgent
                    )

    async def _apply_some(self, paths: Sequence[str], *, urgent: bool) -> None:
        if self._view is None:
            return
        try:
            await self._apply_pending(self._view, paths, urgent=urgent)
        except CocoSearchError:
            self._doubt.set()
            self._stirred.set()
            raise

    async def catch_up(self) -> None:
        """Compare file generations with the stored ones and read what differs. Raises
        `StoreUnavailable`.
        """
        async with self._lock:
            self._doubt.clear()
            cold = self._view is None
            generation = await index_records.generation(self._db, self._record)
            stored = await index_records.file_generations(self._db, self._record)
            parts = await self._known_parts(generation)
            parts, wanted = await asyncio.to_thread(drop_stale_files, parts, stored)
            self._kept = len(stored) - len(wanted)
            self.reduced.retain(stored)
            everything = len(wanted) == len(stored)
            async with contextlib.aclosing(
                self._texts(None if everything else sorted(wanted))
            ) as batches:
                async for texts in batches:
                    for some in self._journal.batches(texts):
                        read = await self._analysed(some)
                        with self._journal.applying(some):
                            parts = await asyncio.to_thread(
                                append_segment, parts, read, self._record.dimension
                            )
            self._publish(
                await asyncio.to_thread(make_compact_snapshot, parts, generation, self._view)
            )
            try:
                while self._pending and self._view is not None:
                    await self._apply_pending(self._view, [*self._pending])
            finally:
                # who committed meanwhile was told that it was done: a later commit would
                if cold and self._pending:
                    self._view = None  # hide that it is not
        log.info(
            "lexical_warm",
            extra={"index": self._record.name, "generation": self.generation, **self.sizes()},
        )

    async def discard(self) -> None:
        """Forget everything, on disk as well."""
        async with self._lock:
            self._view, self._former, self._saved = None, EMPTY, WeakKeyDictionary()
            self._terms, self.symbols = TermCache(), SymbolMasks()
            self._overlaid.clear()
            self._pending.clear()
            self._saved_generation = -1
            await asyncio.to_thread(segment_files.remove, self._folder)
            self._journal.forget()
            self.reduced.restore({})

    async def _under(self, state: IndexSnapshot, overlay: Overlay) -> IndexSnapshot:
        """A view in which the files of an overlay are as that has them; kept for the next
        questions.
        """
        known = self._overlaid.get(overlay.digest)
        if known is None or known[0] is not state:
            read = await self._analyser.analyse(list(overlay.documents(self._record.dimension)))
            known = (
                state,
                await asyncio.to_thread(
                    apply_overlay, state, overlay, read.documents, self._record.dimension
                ),
            )
            while len(self._overlaid) >= _MAX_OVERLAYS:
                del self._overlaid[next(iter(self._overlaid))]
            self._overlaid[overlay.digest] = known
        return known[1]

    async def _apply_pending(
        self, state: IndexSnapshot, only: Iterable[str], *, urgent: bool = False
    ) -> None:
        wanted = [path for path in only if path in self._pending]
        paths = {path: self._pending.pop(path) for path in wanted}
        if not paths:
            return  # another commit took them along
        try:
            # a save is seldom what there was
            back = [] if urgent else await self._returning(state, wanted)
            asked = set(filter(None, wanted)).difference(file.path for file in back)
            texts = [file async for batch in self._texts(sorted(asked)) for file in batch]
            texts = [file for some in self._journal.batches(texts) for file in some]
            read = await self._analysed(texts, wanted)
            change = SnapshotChange(
                tuple(wanted), max(state.generation, *paths.values()), read, back
            )
            with self._journal.applying(texts):
                made = asyncio.to_thread(
                    apply_change, state, self._former, change, self._record.dimension
                )
                now, self._former = await made
            paths = {}
        finally:
            if paths:  # whatever it was that kept them from being applied
                self._pending = paths | self._pending
        self._publish(now)

    async def _analysed(
        self, texts: Sequence[FileTexts], replaced: Iterable[str] = ()
    ) -> Sequence[Documents]:
        """The documents of stored files. `replaced` are paths that are as these have them, or
        nowhere any more.
        """
        found = await self._analyser.analyse([make_file_text(file) for file in texts])
        self.reduced.update([*replaced, *(file.path for file in texts)], found.reduced)
        return found.documents

    async def _returning(self, state: IndexSnapshot, paths: Iterable[str]) -> list[FileDigest]:
        """Files that are stored as they were once, and need not be read."""
        some = find_paths_with_dead_files(state, self._former, paths)
        return (
            find_restorable_files(
                state, self._former, await file_digests(self._db, self._record, some)
            )
            if some
            else []
        )

    def _publish(self, found: IndexSnapshot) -> None:
        self._show(found)
        self.view_changes += 1
        self._moved.set()
        self._stirred.set()

    def _show(self, found: IndexSnapshot) -> None:
        self._view = found
        self._overlaid.clear()

    async def _known_parts(self, generation: int) -> tuple[SegmentView, ...]:
        """What is in memory, else what was saved for this very database and index."""
        if self._view is not None:
            return self._view.views
        found = await asyncio.to_thread(segment_files.load, self._folder, await self._owner())
        if found is None or found.generation > generation:
            return ()
        self._saved = _map_segments_to_files(found)
        self._saved_generation = found.generation
        self.reduced.restore(found.reduced)
        return found.views

    async def _texts(self, paths: list[str] | None) -> AsyncGenerator[list[FileTexts], None]:
        """Files, or all files, in batches."""
        groups = (
            [None]
            if paths is None
            else [paths[i : i + _PATHS_PER_QUERY] for i in range(0, len(paths), _PATHS_PER_QUERY)]
        )
        for group in groups:
            batch, chunks = list[FileTexts](), 0
            async with contextlib.aclosing(file_texts(self._db, self._record, group)) as files:
                async for file in files:
                    batch.append(file)
                    chunks += len(file.chunks)
                    if chunks >= _BATCH_CHUNKS:
                        yield batch
                        batch, chunks = [], 0
            if batch:
                yield batch

    async def _owner(self) -> dict[str, str]:
        """Whose snapshot: another database, index or identity has other generations or rows."""
        return {
            "database": await index_records.incarnation(self._db),
            "number": str(self._record.number),
            "identity": repr(self._record.identity),
        }

    async def _until_doubt(self) -> None:
        """Put parts in order whenever there was no commit for a while, and save from time to
        time.
        """
        now = asyncio.get_running_loop().time
        compacted, save_at = False, now() + _SAVE_EVERY_S
        forget_at = now() + _FORGET_S
        while not self._doubt.is_set():
            next_at = forget_at if compacted else max(now() + _QUIET_S, self._busy_until)
            try:
                async with asyncio.timeout_at(min(save_at, next_at)):
                    await self._stirred.wait()
                self._stirred.clear()
                compacted = False
                forget_at = now() + _FORGET_S
            except TimeoutError:
                if not compacted:
                    compacted = await self._put_in_order()
                if compacted and now() >= forget_at:
                    self._terms.forget()
                    await asyncio.to_thread(give_back)
                    forget_at = math.inf  # until there is work again
                if now() >= save_at or (compacted and self._unsaved() >= _SAVE_CHUNKS):
                    await self._save()
                    await asyncio.to_thread(give_back)  # the arrays that are mapped from disk now
                    save_at = now() + _SAVE_EVERY_S

    async def _put_in_order(self) -> bool:
        """Merge what commits have left apart, beside them; whether there is nothing left to
        merge.
        """
        state = self._view
        made = None if state is None else await asyncio.to_thread(plan_idle_merge, state)
        if made is None:
            return True
        async with self._lock:
            if self._view is not None:
                found, self._former = await asyncio.to_thread(made.apply, self._view, self._former)
                self._show(found)
        return False

    async def _save(self) -> None:
        """Write the view to disk if it has moved; afterwards its arrays are mapped from there."""
        async with self._lock:
            state = self._view
            if state is None or self._is_saved(state):
                return
            try:
                await self._write(state, await self._owner())
            except (OSError, CocoSearchError) as error:
                log.warning(
                    "lexical_not_saved", extra={"index": self._record.name, "error": str(error)}
                )

    def _is_saved(self, state: IndexSnapshot) -> bool:
        # what was merged at rest may not be
        known = all(part.segment in self._saved for part in state.views)
        return known and state.generation == self._saved_generation

    def _unsaved(self) -> int:
        """How many chunks would be read again after a crash of now."""
        parts = () if self._view is None else self._view.views
        return sum(part.segment.chunk_count for part in parts if part.segment not in self._saved)

    async def _write(self, state: IndexSnapshot, owner: Mapping[str, str]) -> None:
        """A cancellation is heard at the end: a thread goes on, and two at once would delete each
        other's files.
        """
        saved_as = (owner, state.generation, state.views, self._saved, self.reduced.reasons)
        save = partial(segment_files.save, self._folder, *saved_as)
        writing = asyncio.ensure_future(asyncio.to_thread(save))
        try:
            await asyncio.shield(writing)
        finally:
            with anyio.CancelScope(shield=True):
                await asyncio.wait({writing})
            if writing.exception() is None:
                saved = writing.result()
                self._show(replace(state, views=saved.views))
                self._saved = _map_segments_to_files(saved)
                self._saved_generation = state.generation


def _map_segments_to_files(saved: segment_files.SavedSnapshot) -> WeakKeyDictionary[Segment, str]:
    """Weak: what is merged away frees its memory, and the file goes with the next save."""
    return WeakKeyDictionary(
        {part.segment: name for part, name in zip(saved.views, saved.names, strict=True)}
    )
