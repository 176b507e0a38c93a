"""The lexical index: an in-memory index of chunks and files by word, name, path and vector.

It is derived from PostgreSQL, which is the truth: deleting the lexical index costs only time.
Commits name changed paths, and the lexical index reads their rows itself. It is *warm* after its
first catch-up. While it is cold or behind, the caller answers from PostgreSQL.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

import anyio
import numpy as np
from numpy.typing import NDArray

from cocosearchd.errors import CocoSearchError
from cocosearchd.exclusion import incomplete_sentence
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.runtime.interpreter import return_memory
from cocosearchd.search.lexical.analysis.analyser import Analyser, ReducedFiles
from cocosearchd.search.lexical.analysis.documents import Documents
from cocosearchd.search.lexical.analysis.terms import QueryTerms, TermCache
from cocosearchd.search.lexical.apply_journal import FROZE, ApplyJournal
from cocosearchd.search.lexical.catch_up_limiter import CatchUpLimiter
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    ReportSignals,
    SignalMatrix,
    compute_signal_matrix,
)
from cocosearchd.search.lexical.scoring.symbol_filter import SymbolMasks
from cocosearchd.search.lexical.segments import segment_files
from cocosearchd.search.lexical.segments.live_documents import FileFilter
from cocosearchd.search.lexical.segments.segment import Segment, SegmentView
from cocosearchd.search.lexical.segments.segment_files import SegmentFile
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
from cocosearchd.search.lexical.stored_vectors import restore_vectors
from cocosearchd.search.overlay import Overlay
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from cocosearchd.store.lineage import is_same_lineage
from cocosearchd.store.reads.index_texts import FileDigest, FileTexts, file_digests, file_texts

log = logging.getLogger(__name__)
T = TypeVar("T")
_BATCH_CHUNKS = 5000  # chunks that are read and analysed in one step: about 0.2 s
_SAVE_EVERY_S = 300.0
_LAST_SAVE_S = 5.0
# Number of unsaved chunks from which an idle index is saved early: after a crash, reading them
# again would take three seconds, during which answers are ranked by worse rules.
_SAVE_CHUNKS = 20_000
# Time without a commit after which segments are merged. After a commit of many files it is longer:
# the next commit may be slow to come, and a merge before it would have to be repeated.
_QUIET_S = 1.0
_QUIET_BULK_S = 5.0
_BULK_FILES = 16
# Time without a commit after which cached words are dropped. They take up to
# `term_table.LIMIT_WORDS` and `chunk_terms.LIMIT_BYTES` per index, and save time only while many
# files come in a row.
_FORGET_S = 20.0
# Files of a large commit that are applied before a small commit gets its turn: some 25 ms.
_SLICE_FILES = 32
_RETRY_S = (1.0, 5.0, 30.0)
_PATHS_PER_QUERY = 1000  # paths in one query to PostgreSQL
# Cached snapshots with an overlay. Each shares everything except its lists of files with the base
# snapshot.
_MAX_OVERLAYS = 8


class LexicalIndex:
    """The lexical index of one index.

    All methods belong to one event loop. Readers see one immutable snapshot.
    """

    def __init__(
        self,
        database: Database,
        record: IndexRecord,
        snapshot_dir: Path,
        analyser: Analyser,
        limiter: CatchUpLimiter | None = None,
    ) -> None:
        """`limiter` is shared by all indexes of a daemon; None: this index has its own."""
        self._db = database
        self._record = record
        self._folder = snapshot_dir
        self._analyser = analyser
        self._limiter = limiter or CatchUpLimiter()
        self.reduced = ReducedFiles()
        self.journal = ApplyJournal(
            snapshot_dir.with_suffix(".journal"), snapshot_dir.parent.parent / FROZE
        )
        self.terms = TermCache()
        self.symbols = SymbolMasks()
        self.key = record.key
        self.name = record.owner_name
        # people write the name of the project for the reader, so its terms weigh less
        self.name_terms = self.terms.find_terms(self.name)
        self._snapshot: IndexSnapshot | None = None
        # stored files that the current snapshot lacks; they may have left the journal since
        self.missing_paths: tuple[str, ...] = ()
        # a sentence for each answer from a snapshot that lacks files or some of their text
        self.incompleteness: str | None = None
        self._retired = EMPTY  # retired segments
        # digest of an overlay -> (base snapshot, snapshot with the overlay)
        self._overlay_snapshots: dict[str, tuple[IndexSnapshot, IndexSnapshot]] = {}
        self._pending: dict[str, int] = {}  # path -> generation of a commit that is not applied yet
        self._saved = WeakKeyDictionary[Segment, SegmentFile]()
        self._saved_generation = -1
        self._reused_files = 0
        self._busy_until = 0.0  # by the clock of the event loop
        self._lock = asyncio.Lock()
        self._save_lock = asyncio.Lock()  # of the folder; taken before the other
        self._ended = asyncio.Event()
        self._ended.set()
        self._bulk_lock = asyncio.Lock()
        # A generation alone does not identify a snapshot, see `apply`. The count goes on from the
        # time, so that an index that starts again has other numbers than before.
        self.snapshot_count = time.monotonic_ns()
        self._failed = asyncio.Event()
        self._failing = set[str]()  # pending paths whose last attempt failed
        self._changed = asyncio.Event()
        self._woken = asyncio.Event()

    @property
    def generation(self) -> int:
        """The generation that answers reflect; -1 while cold."""
        return -1 if self._snapshot is None else self._snapshot.generation

    @property
    def warm(self) -> bool:
        """True if the lexical index can answer."""
        return self._snapshot is not None

    def sizes(self) -> Mapping[str, int]:
        """Count files, chunks and segments, and the files that the last catch-up reused."""
        snapshot = self._snapshot
        return {
            "files": snapshot.file_count if snapshot else 0,
            "chunks": snapshot.chunk_count if snapshot else 0,
            "segments": len(snapshot.views) if snapshot else 0,
            "kept": self._reused_files,
        }

    async def run(self) -> None:
        """Catch up, then merge and save segments from time to time; after a failure, start again.

        Runs until cancelled.
        """
        if self.journal.paused:
            await anyio.sleep_forever()
        self._ended.clear()
        try:
            failures = 0
            while True:
                try:
                    async with self._limiter.slot(self):
                        with self.journal.catching_up():
                            await self.catch_up()
                        failures = 0
                        await self._save()
                    await asyncio.to_thread(return_memory)
                    await self._maintain()
                except CocoSearchError as error:
                    log.warning(
                        "lexical_behind", extra={"index": self._record.name, "error": str(error)}
                    )
                    await asyncio.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
                    failures += 1
        finally:
            try:
                with anyio.move_on_after(_LAST_SAVE_S, shield=True):
                    await self._save()
            finally:  # also after a defect: else `wait_ended` would never return
                self._ended.set()

    def restart(self) -> None:
        """Let `run` catch up anew, as after a failure: everything was deleted."""
        self._failed.set()
        self._woken.set()

    async def wait_ended(self) -> None:
        """Wait until `run`, which was cancelled, has saved for the last time."""
        await self._ended.wait()

    async def wait_for_generation(self, generation: int, timeout_s: float) -> bool:
        """Wait until answers reflect `generation`, and return True.

        Return False if that takes longer than `timeout_s`, or at once while cold. A catch-up that
        waits for its turn goes before those that no question needs.
        """
        if self._snapshot is not None and self.generation >= generation:
            return True
        self._limiter.prefer(self)
        if self._snapshot is None:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.generation < generation:
                    self._changed.clear()
                    await self._changed.wait()
        return self.generation >= generation

    def make_query_terms(self, text: str) -> QueryTerms:
        """Parse a query with the project name and the common language of this index."""
        return self.terms.make_query_terms(text, self.name, self.common_language)

    @property
    def common_language(self) -> tuple[str, ...]:
        """Names of the language of nearly all code; () without one or while cold."""
        return () if self._snapshot is None else self._snapshot.common_language

    @property
    def current_snapshot(self) -> IndexSnapshot | None:
        """The snapshot without any overlay; None while cold."""
        return self._snapshot

    async def snapshot(self, overlay: Overlay | None = None) -> IndexSnapshot | None:
        """Return the current snapshot, for all lookups of one query; None while cold.

        With an `overlay`, the snapshot is as if the files of the overlay were saved.
        """
        if overlay is None or self._snapshot is None:
            return self._snapshot
        return await self._apply_overlay(self._snapshot, overlay)

    async def score(
        self,
        snapshot: IndexSnapshot,
        score_signals: Callable[[SignalMatrix], T],
        query: QueryTerms,
        vector: NDArray[np.float32] | None = None,
        file_filter: FileFilter | None = None,
        limit: int = 0,
        report_signals: ReportSignals | None = None,
    ) -> T:
        """Compute the signal matrix of a snapshot, and score it in the same thread.

        See `compute_signal_matrix` for the parameters.
        """
        terms = self.terms
        return await asyncio.to_thread(
            lambda: score_signals(
                compute_signal_matrix(
                    snapshot, query, terms, vector, file_filter, limit, report_signals
                )
            )
        )

    async def apply(self, commit: Commit) -> None:
        """Replace the files of a commit by their stored rows.

        While cold, and after a failure, the next catch-up applies the commit. An urgent commit
        waits for at most one other commit, so commits may be applied in another order than that of
        their generations.
        """
        self._pending |= dict.fromkeys(commit.paths, commit.generation)
        # a commit without paths raises the generation, too
        self._pending[""] = max(self._pending.get("", -1), commit.generation)
        if len(commit.paths) >= _BULK_FILES:
            self._busy_until = asyncio.get_running_loop().time() + _QUIET_BULK_S
        if self._snapshot is None:
            return
        async with contextlib.AsyncExitStack() as locks:
            if not commit.urgent:
                await locks.enter_async_context(self._bulk_lock)
            paths = self._paths_to_apply(commit)
            for first in range(0, len(paths), _SLICE_FILES):
                async with self._lock:
                    await self._apply_slice(
                        paths[first : first + _SLICE_FILES], urgent=commit.urgent
                    )

    def _paths_to_apply(self, commit: Commit) -> list[str]:
        """Return the paths to apply: those of the commit and, unless it is urgent, pending paths.

        A path that failed is left to the next catch-up. Otherwise it would fail every other commit.
        """
        if commit.urgent:
            return [*commit.paths]
        left_paths = self._pending.keys() - self._failing - {*commit.paths, ""}
        return [*commit.paths, "", *sorted(left_paths)]

    async def _apply_slice(self, paths: Sequence[str], *, urgent: bool) -> None:
        if self._snapshot is None:
            return
        try:
            await self._apply_pending(self._snapshot, paths, urgent=urgent)
        except CocoSearchError:
            self._failed.set()
            self._woken.set()
            raise

    async def catch_up(self) -> None:
        """Compare the generations of files with the stored generations, and read the changed files.

        Raises `StoreUnavailable`.
        """
        async with self._lock:
            self._failed.clear()
            self._failing.clear()
            cold = self._snapshot is None
            generation = await index_records.read_generation(self._db, self._record)
            stored = await index_records.file_generations(self._db, self._record)
            views = await self._load_views(generation)
            views, paths_to_read = await asyncio.to_thread(drop_stale_files, views, stored)
            self._reused_files = len(stored) - len(paths_to_read)
            self.reduced.retain(stored)
            self.journal.retain(stored)
            read_all = len(paths_to_read) == len(stored)
            views = await self._append_files(views, None if read_all else sorted(paths_to_read))
            self._publish(
                await asyncio.to_thread(make_compact_snapshot, views, generation, self._snapshot)
            )
            try:
                while self._pending and self._snapshot is not None:
                    await self._apply_pending(self._snapshot, [*self._pending])
            finally:
                # Commits during a cold catch-up returned before they were applied. If applying them
                # fails here, a later commit would hide the failure: therefore stay cold.
                if cold and self._pending:
                    self._snapshot = None
        log.info(
            "lexical_warm",
            extra={"index": self._record.name, "generation": self.generation, **self.sizes()},
        )

    async def delete(self) -> None:
        """Delete everything, on disk as well."""
        async with self._save_lock, self._lock:
            self._snapshot = None
            self._retired = EMPTY
            self._saved = WeakKeyDictionary()
            self.terms = TermCache()
            self.symbols = SymbolMasks()
            self._overlay_snapshots.clear()
            self._pending.clear()
            self._saved_generation = -1
            await asyncio.to_thread(segment_files.remove, self._folder)
            self.journal.forget()
            self.reduced.restore({})

    async def _apply_overlay(self, snapshot: IndexSnapshot, overlay: Overlay) -> IndexSnapshot:
        """Return the snapshot with the files of an overlay; it is cached for later queries."""
        cached = self._overlay_snapshots.get(overlay.digest)
        if cached is None or cached[0] is not snapshot:
            read = await self._analyser.analyse(list(overlay.documents(self._record.dimension)))
            cached = (
                snapshot,
                await asyncio.to_thread(
                    apply_overlay, snapshot, overlay, read.documents, self._record.dimension
                ),
            )
            while len(self._overlay_snapshots) >= _MAX_OVERLAYS:
                del self._overlay_snapshots[next(iter(self._overlay_snapshots))]
            self._overlay_snapshots[overlay.digest] = cached
        return cached[1]

    async def _apply_pending(
        self, snapshot: IndexSnapshot, candidates: Iterable[str], *, urgent: bool = False
    ) -> None:
        selected = [path for path in candidates if path in self._pending]
        paths = {path: self._pending.pop(path) for path in selected}
        if not paths:
            return  # another commit has applied these paths
        try:
            # an urgent commit is a save, which seldom restores an old content
            restored = [] if urgent else await self._find_restorable(snapshot, selected)
            paths_to_read = set(filter(None, selected)).difference(file.path for file in restored)
            texts = await self._read_admitted_texts(sorted(paths_to_read))
            self.journal.drop(file.path for file in restored)
            read = await self._analyse(texts, selected)
            change = SnapshotChange(
                tuple(selected), max(snapshot.generation, *paths.values()), read, restored
            )
            with self.journal.applying(texts):
                applying = asyncio.to_thread(
                    apply_change, snapshot, self._retired, change, self._record.dimension
                )
                next_snapshot, self._retired = await applying
            paths = {}
            self._failing.difference_update(selected)
        finally:
            if paths:  # after any failure, the paths stay pending
                self._pending = paths | self._pending
                self._failing |= paths.keys()
        self._publish(next_snapshot)

    async def _read_admitted_texts(self, paths: list[str]) -> list[FileTexts]:
        """Read files, except for those that the journal excludes; drop those that are gone from it."""
        texts = [file async for batch in self._read_texts(paths) for file in batch]
        self.journal.drop(set(paths).difference(file.path for file in texts))
        return list(chain.from_iterable(self.journal.batches(texts)))

    async def _analyse(
        self, texts: Sequence[FileTexts], replaced: Iterable[str] = ()
    ) -> Sequence[Documents]:
        """Analyse stored files, and record which files are reduced.

        `replaced` are paths whose earlier records of reduced files are dropped.
        """
        analysed = await self._analyser.analyse([make_file_text(file) for file in texts])
        self.reduced.update([*replaced, *(file.path for file in texts)], analysed.reduced)
        return analysed.documents

    async def _find_restorable(
        self, snapshot: IndexSnapshot, paths: Iterable[str]
    ) -> list[FileDigest]:
        """Find the files whose stored content a segment still has: they need no reading."""
        candidates = find_paths_with_dead_files(snapshot, self._retired, paths)
        return (
            find_restorable_files(
                snapshot, self._retired, await file_digests(self._db, self._record, candidates)
            )
            if candidates
            else []
        )

    def _publish(self, snapshot: IndexSnapshot) -> None:
        self._replace_snapshot(snapshot)
        self.missing_paths = self.journal.excluded_paths
        self.incompleteness = incomplete_sentence(self.missing_paths, sorted(self.reduced.reasons))
        self.snapshot_count += 1
        self._changed.set()
        self._woken.set()

    def _replace_snapshot(self, snapshot: IndexSnapshot) -> None:
        self._snapshot = snapshot
        self._overlay_snapshots.clear()

    async def _load_views(self, generation: int) -> tuple[SegmentView, ...]:
        """Return the views in memory, else the views that were saved for this database and index."""
        if self._snapshot is not None:
            return self._snapshot.views
        saved = await asyncio.to_thread(
            segment_files.load, self._folder, await self._snapshot_owner()
        )
        if saved is None or not is_same_lineage(saved.generation, generation):
            return ()
        views = await restore_vectors(self._db, self._record, saved.views, saved.without_vectors)
        saved = replace(saved, views=views)
        self._saved = _map_segments_to_files(saved)
        self._saved_generation = saved.generation
        self.reduced.restore(saved.reduced)
        return saved.views

    async def _append_files(
        self, views: tuple[SegmentView, ...], paths: list[str] | None
    ) -> tuple[SegmentView, ...]:
        """Append segments of the files of `paths`, or of all files with None, to the views."""
        async with contextlib.aclosing(self._read_texts(paths)) as batches:
            async for texts in batches:
                for files in self.journal.batches(texts):
                    read = await self._analyse(files)
                    with self.journal.applying(files):
                        views = await asyncio.to_thread(
                            append_segment, views, read, self._record.dimension
                        )
        return views

    async def _read_texts(self, paths: list[str] | None) -> AsyncGenerator[list[FileTexts], None]:
        """Read the files of `paths`, or all files with None, in batches."""
        groups = (
            [None]
            if paths is None
            else [paths[i : i + _PATHS_PER_QUERY] for i in range(0, len(paths), _PATHS_PER_QUERY)]
        )
        for group in groups:
            batch = list[FileTexts]()
            chunks = 0
            async with contextlib.aclosing(file_texts(self._db, self._record, group)) as files:
                async for file in files:
                    batch.append(file)
                    chunks += len(file.chunks)
                    if chunks >= _BATCH_CHUNKS:
                        yield batch
                        batch = []
                        chunks = 0
            if batch:
                yield batch

    async def _snapshot_owner(self) -> dict[str, str]:
        """Return the identity that a saved snapshot must have to be loaded.

        With another database, a restored backup, another index or another identity, generations or
        rows differ.
        """
        state = await index_records.rows_state(self._db, self._record)
        return {
            "table": str(state.table),
            "database": state.incarnation,
            "number": str(self._record.number),
            "identity": repr(self._record.identity),
        }

    async def _maintain(self) -> None:
        """Merge segments after a while without commits, and save from time to time.

        It runs until a failure. Then the index has to catch up.
        """
        clock = asyncio.get_running_loop().time
        is_merged = False
        save_at = clock() + _SAVE_EVERY_S
        forget_at = clock() + _FORGET_S
        while not self._failed.is_set():
            next_at = forget_at if is_merged else max(clock() + _QUIET_S, self._busy_until)
            try:
                async with asyncio.timeout_at(min(save_at, next_at)):
                    await self._woken.wait()
                self._woken.clear()
                is_merged = False
                forget_at = clock() + _FORGET_S
            except TimeoutError:
                await self._apply_due_files()
                is_merged = is_merged or await self._merge_segments()
                if is_merged and clock() >= forget_at:
                    await self._forget_words()
                    forget_at = math.inf  # until the next commit
                has_much = is_merged and self._count_unsaved_chunks() >= _SAVE_CHUNKS
                if has_much or clock() >= save_at:
                    await self._save()
                    # frees the arrays that are now mapped from disk
                    await asyncio.to_thread(return_memory)
                    save_at = clock() + _SAVE_EVERY_S

    async def _apply_due_files(self) -> None:
        """Try postponed files again whose pause has ended, one by one."""
        for path, generation in self.journal.due_files().items():
            async with self._lock:
                self._pending[path] = max(self._pending.get(path, -1), generation)
                await self._apply_slice([path], urgent=True)

    async def _forget_words(self) -> None:
        """Drop cached words, and return their memory to the system."""
        self.terms.forget()
        await asyncio.to_thread(return_memory)

    async def _merge_segments(self) -> bool:
        """Merge segments while commits go on; return True if nothing is left to merge."""
        snapshot = self._snapshot
        merge = None if snapshot is None else await asyncio.to_thread(plan_idle_merge, snapshot)
        if merge is None:
            return True
        async with self._lock:
            if self._snapshot is not None:
                merged, self._retired = await asyncio.to_thread(
                    merge.apply, self._snapshot, self._retired
                )
                self._replace_snapshot(merged)
        return False

    async def _save(self) -> None:
        """Write the snapshot to disk if it has changed; then map its arrays from there."""
        async with self._save_lock:
            snapshot = self._snapshot
            if snapshot is None or self._is_saved(snapshot):
                return
            try:
                await self._write(snapshot, await self._snapshot_owner())
            except (OSError, CocoSearchError) as error:
                log.warning(
                    "lexical_not_saved", extra={"index": self._record.name, "error": str(error)}
                )

    def _is_saved(self, snapshot: IndexSnapshot) -> bool:
        # idle merges make unsaved segments without a new generation
        all_saved = all(part.segment in self._saved for part in snapshot.views)
        return all_saved and snapshot.generation == self._saved_generation

    def _count_unsaved_chunks(self) -> int:
        """Count the unsaved chunks: after a crash, the next start would read them again."""
        views = () if self._snapshot is None else self._snapshot.views
        return sum(view.segment.chunk_count for view in views if view.segment not in self._saved)

    async def _write(self, snapshot: IndexSnapshot, owner: Mapping[str, str]) -> None:
        """Write a snapshot. A cancellation is delayed until the write ends.

        The thread goes on after a cancellation, and two writes at once would delete each other's
        files.
        """
        saved_as = (owner, snapshot.generation, snapshot.views, self._saved, self.reduced.reasons)
        save = partial(segment_files.save, self._folder, *saved_as)
        writing = asyncio.ensure_future(asyncio.to_thread(save))
        try:
            await asyncio.shield(writing)
        finally:
            with anyio.CancelScope(shield=True):
                await asyncio.wait({writing})
            if writing.exception() is None:
                self._saved = _map_segments_to_files(writing.result())
                self._saved_generation = snapshot.generation
        await self._use_mapped(snapshot, writing.result())

    async def _use_mapped(self, written: IndexSnapshot, saved: segment_files.SavedSnapshot) -> None:
        """Use the arrays that are mapped from disk, also in a snapshot that was published since."""
        mapped = {
            old.segment: new.segment for old, new in zip(written.views, saved.views, strict=True)
        }
        async with self._lock:
            if self._snapshot is not None:
                views = tuple(
                    replace(view, segment=mapped.get(view.segment, view.segment))
                    for view in self._snapshot.views
                )
                self._replace_snapshot(replace(self._snapshot, views=views))


def _map_segments_to_files(
    saved: segment_files.SavedSnapshot,
) -> WeakKeyDictionary[Segment, SegmentFile]:
    """Map segments to their files, by weak references.

    Therefore a merged segment frees its memory, and the next save deletes its file.
    """
    return WeakKeyDictionary(
        {view.segment: file for view, file in zip(saved.views, saved.files, strict=True)}
    )
