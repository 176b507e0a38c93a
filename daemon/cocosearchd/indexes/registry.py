"""The registry of running indexes: starts, stops, rebuilds and reconfigures them at run time.

An index that was built with another embedder than the configured one is listed but not run: its
error names both and says what to do (`IdentityMismatch`). After `rebuild` it answers with its own
embedder, and stays fresh, while a replacement index is filled beside it; the replacement then takes
its place. Changes of other settings are followed: exactly the affected files are read again.
`RunningIndex` holds the objects that answer.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

from cocosearchd.config.index_settings import IndexSettings, read_index_settings
from cocosearchd.config.project import SETTINGS_FILE_NAMES
from cocosearchd.config.settings import LoadedSettings
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import (
    CocoSearchError,
    Conflict,
    IdentityMismatch,
    NotFound,
    NotStarted,
    StoreUnavailable,
)
from cocosearchd.graph.code_graph import CodeGraph
from cocosearchd.indexes.change_notifier import ChangeNotifier
from cocosearchd.indexes.commit_feed import CommitFeed
from cocosearchd.indexes.config_sync import ConfigSync, embedder_mismatch, is_complete
from cocosearchd.indexes.following.chunk_budget import ChunkBudget
from cocosearchd.indexes.following.followed_indexes import FollowedIndexes
from cocosearchd.indexes.following.followed_schema import FollowingParts
from cocosearchd.indexes.index_history import HistoryKeeper
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.indexes.maintenance import (
    Removals,
    keep_retained_chunks_bounded,
    keep_vector_index,
    keep_words,
)
from cocosearchd.indexes.running_index import IndexHistory, RunningIndex
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.indexing.row_shape import index_identity
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.runtime.deadlines import call_within
from cocosearchd.runtime.supervise import FIRST_PAUSE_S, LAST_PAUSE_S, attempt, summary, supervise
from cocosearchd.runtime.ticks import REST_TICK_S, seconds_to_tick
from cocosearchd.search.classic.word_splitter import WordSplitter
from cocosearchd.search.lexical.analysis.analyser import ProcessAnalyser
from cocosearchd.search.lexical.catch_up_limiter import CatchUpLimiter
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.store import index_records, index_roles
from cocosearchd.store.connection.database import Database
from cocosearchd.watching.hints.mapped_files import MappedFiles, mapped_files
from cocosearchd.watching.root_threads import ROOT_THREADS, RootThreads
from cocosearchd.watching.root_validation import check_root, chosen_name
from cocosearchd.watching.scans.root_group import RootGroup
from cocosearchd.watching.stored_files import StoredFiles, root_available
from cocosearchd.watching.watched_root import WatchedRoot

log = logging.getLogger(__name__)

PING_TIMEOUT_S = 5.0  # a server that is slower would leave a change half done
# Intervals of checks of settings files: on a file system without hints, and on one with hints. A
# request that waits for changes checks the files itself.
SETTINGS_POLL_S = 1.0
SETTINGS_SLOW_POLL_S = REST_TICK_S
FILE_SYSTEM_TIMEOUT_S = 1.0  # the longest wait of a check for a file system that may never answer
SETTINGS_WRITE_S = 0.05  # from the first hint of a write to the last
REPLACEMENT_POLL_S = 0.5
OLD_TABLES_GRACE_S = 5.0
Result = TypeVar("Result")
StartIndex = Callable[[IndexRecord], Awaitable[object]]


class IndexRegistry:
    """Starts and stops indexes at run time. For one event loop.

    `lookup` selects among the indexes, `config` has their settings, `commits` tells subscribers about
    commits, `notifier` about any change.
    """

    def __init__(
        self,
        db: Database,
        updater: Updater,
        embedder: LazyEmbedder,
        loaded: LoadedSettings,
        state_dir: Path,
        tasks: TaskGroup,
    ) -> None:
        self._db = db
        self._updater = updater
        self._embedder = embedder
        # shared by all indexes; `Engine.aclose` ends their pools
        self.analyser = ProcessAnalyser()
        self.splitter = WordSplitter()
        self._limiter = CatchUpLimiter()  # of all indexes, followed ones included
        self.config = ConfigSync(db, updater, loaded)
        self._state_dir = state_dir
        self._tasks = tasks
        self._indexes: dict[str, RunningIndex] = {}
        self.lookup = IndexLookup(self._indexes)
        self.commits = CommitFeed()  # a commit is published after its hook has ended
        self.notifier = ChangeNotifier()
        # Indexes are added and removed one at a time. A change of settings waits for the files of its
        # index that are in flight; with a model server this may take minutes. Such a change holds only
        # the lock of its index. That lock is always taken before this one.
        self._lock = anyio.Lock()
        self._changes: set[asyncio.Task[Any]] = set()  # under way, see `_run_shielded`
        # Separate from the threads of requests: a file system that hangs blocks its threads.
        self._root_threads = ThreadPoolExecutor(ROOT_THREADS, "root")
        self._add_threads = RootThreads(self._root_threads)
        self.mapped_files = MappedFiles(self._own_roots, mapped_files)
        self._root_group = RootGroup(mapped=self.mapped_files)
        self.removals = Removals(db, self._release)
        self._history_turn = asyncio.Lock()
        self._histories = set[IndexHistory]()  # those in memory

    async def start_all(
        self,
        report_step: Callable[[str], None] | None = None,
        is_stopping: Callable[[], bool] | None = None,
    ) -> None:
        """Start every index of the stored registry, until the daemon is to stop.

        `report_step` is called with a sentence before each index.
        """
        self.analyser.pool.warm_up()
        async with self._lock:
            await self.config.read(self.config.loaded)
            await index_roles.drop_retired_indexes(self._db)
            replacements = {
                record.root: record
                for record in await index_roles.list_indexes_by_role(self._db, "next")
            }
            records = await index_records.list_indexes(self._db)
            for number, record in enumerate(records, 1):
                if is_stopping is not None and is_stopping():
                    return
                if report_step is not None:
                    report_step(f"starting index {number} of {len(records)}")
                await self._start_first(record, replacements.get(record.root))

    async def _start_first(self, record: IndexRecord, replacement: IndexRecord | None) -> None:
        """Start an index of the stored registry, or list it if that fails."""
        start = partial(self._start, replacement=replacement)
        error = await attempt(f"start of {record.name}", partial(start, record))
        if isinstance(error, StoreUnavailable):
            raise error
        if error is not None:
            self._list_failed(record, replacement, start, error)

    def _list_failed(
        self,
        record: IndexRecord,
        replacement: IndexRecord | None,
        start: StartIndex,
        error: Exception,
    ) -> None:
        """List an index that could not be started, and retry with growing pauses in a task."""
        index = self._create(
            record, IndexSettings(self.config.loaded), _not_started(record, error), 0
        )
        index.unstarted_replacement = replacement
        index.rules_in_doubt = True  # the start may have stored others before it failed
        self._indexes[record.name] = index
        self.notifier.notify()
        # in a context of its own: it outlives the request whose change has failed
        Context().run(self._tasks.start_soon, self._retry_start, index, start)

    async def _retry_start(self, index: RunningIndex, start: StartIndex) -> None:
        name = index.record.name
        pause = FIRST_PAUSE_S
        while self._indexes.get(name) is index:
            await anyio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)
            async with index.lock, self._lock:
                if self._indexes.get(name) is index:
                    start_again = partial(self._start_stored, index.record, start)
                    error = await attempt(f"start of {name}", start_again)
                    index.error = _not_started(index.record, error) if error is not None else None

    async def _start_stored(self, record: IndexRecord, start: StartIndex) -> None:
        """Start an index by its row in the registry: a start that failed may have changed it."""
        stored = await index_records.list_indexes(self._db)
        await start(next((row for row in stored if row.number == record.number), record))

    async def add(
        self, path: bytes, name: str | None, topics: tuple[str, ...], *, follow_links: bool = True
    ) -> tuple[RunningIndex, bool]:
        """Add the index of `path`; True if it is new.

        Raises `NotFound`, `Refused`, `Conflict`, and `EmbedderUnavailable` before the embedder has
        answered for the first time.
        """
        return await self._run_shielded(self._add(path, name, topics, follow_links))

    async def _add(
        self, path: bytes, name: str | None, topics: tuple[str, ...], follow_links: bool
    ) -> tuple[RunningIndex, bool]:
        # these two may hang, so they run before the lock is taken
        root = await self._add_threads.run(check_root, path, self._state_dir, follow_links)
        settings = await self._add_threads.run(read_index_settings, root, self.config.loaded)
        async with self._lock:
            index = self._find_by_root(root)
            if index is None:
                roots = {index.record.name: index.record.location for index in self.lookup.all()}
                new_name = chosen_name(root, name, settings.project.name, roots)
                try:
                    record = await self._create_record(new_name, root, topics, settings)
                except Conflict:
                    index = await self._adopt(root)
                    if index is None:
                        raise
                else:
                    return await self._start_or_list(record), True
            if name not in (None, index.record.name):
                raise Conflict(
                    f"this directory is the index {index.record.name!r} already",
                    f"clear it first, or leave --name {name} out",
                )
            await self._set_topics(index, topics)
            return index, False

    def _find_by_root(self, root: bytes) -> RunningIndex | None:
        return next((index for index in self._indexes.values() if index.record.root == root), None)

    async def _create_record(
        self, name: str, root: bytes, topics: tuple[str, ...], settings: IndexSettings
    ) -> IndexRecord:
        fingerprint = self._embedder.fingerprint
        identity = index_identity(fingerprint.pairs(), settings.indexing)
        try:
            return await index_records.create_index(
                self._db, name, root, topics, fingerprint.dimension, identity
            )
        except StoreUnavailable:  # the commit may have arrived, and its answer not
            self._do_later("start of a new index", partial(self._adopt_locked, root))
            raise

    async def _adopt(self, root: bytes) -> RunningIndex | None:
        """Start an index of the stored registry that is not listed: its creation had no answer.

        None if there is none. Callers hold the lock of the registry.
        """
        for record in await index_records.list_indexes(self._db):
            if record.root == root and self._find_by_root(root) is None:
                return await self._start_or_list(record)
        return None

    async def _adopt_locked(self, root: bytes) -> None:
        async with self._lock:
            await self._adopt(root)

    def _do_later(self, name: str, run: Callable[[], Awaitable[object]]) -> None:
        """Run `run` in a task once PostgreSQL answers.

        The task has a context of its own, since it outlives the request that starts it.
        """
        Context().run(self._tasks.start_soon, _run_until_done, name, run)

    async def _start_or_list(
        self,
        record: IndexRecord,
        replacement: IndexRecord | None = None,
        outdated_chunks: int | None = None,
        *,
        rules_in_doubt: bool = False,
    ) -> RunningIndex:
        """Do as `_start`. If it fails, list the index, try again in a task, and raise the error."""
        start = partial(
            self._start,
            replacement=replacement,
            outdated_chunks=outdated_chunks,
            rules_in_doubt=rules_in_doubt,
        )
        error = await attempt(
            f"start of {record.name}", partial(start, record), (StoreUnavailable,)
        )
        if error is not None:
            self._list_failed(record, replacement, start, error)
            raise error
        return self._indexes[record.name]

    async def _set_topics(self, index: RunningIndex, topics: tuple[str, ...]) -> None:
        if topics and topics != index.explicit_topics:
            await index_records.set_topics(self._db, index.record, topics)
            index.explicit_topics = topics
            index.record = replace(index.record, topics=topics)
            index.note_change(("topics",), 0)

    def follow(self, schemas: Sequence[str], max_chunks: int) -> FollowedIndexes:
        """Follow the indexes of other daemons from now on, with at most `max_chunks` chunks."""
        parts = FollowingParts(
            db=self._db,
            loaded=lambda: self.config.loaded,
            lexical_dir=self._state_dir / "lexical",
            analyser=self.analyser,
            limiter=self._limiter,
            tasks=self._tasks,
            commits=self.commits,
            notifier=self.notifier,
            budget=ChunkBudget(max_chunks),
            is_taken=self._indexes.__contains__,
            note_removal=self.removals.note,
        )
        followed = FollowedIndexes(schemas, parts)
        self.lookup.add_followed(followed.by_name)
        followed.start(self._tasks)
        return followed

    def lexical_of(self, name: str) -> LexicalIndex | None:
        """Return the lexical index of a running index, None if there is no such index."""
        index = self.lookup.find(name)
        return None if index is None else index.lexical

    def note_classic(self, name: str) -> None:
        """Record that `classic` searches an index: its words are stored from now on."""
        index = self._indexes.get(name)
        if index is not None:
            index.classic_use.set()

    def has_retries(self) -> bool:
        """Return True if a failed step of any index waits to be tried again."""
        return any(index.own_root.has_retries() for index in self._with_replacements())

    def retry(self) -> None:
        """Try all failed steps again now."""
        for index in self._with_replacements():
            index.own_root.retry()

    async def remove(self, name: str) -> index_records.Counts:
        """Stop an index and drop its tables; return the numbers of dropped files and chunks.

        Raises `NotFound`, and PostgreSQL's error if the server does not answer or drops nothing; then
        the index goes on. If the tables are dropped after all, it is removed in a task.
        """
        return await self._run_shielded(self._remove(name))

    async def _remove(self, name: str) -> index_records.Counts:
        async with self._locked(name) as index:
            await call_within(self._db.ping(), PING_TIMEOUT_S)
            await self._abandon(index)
            await self._stop(index)
            await index.lexical.delete()
            await index.graph.free_memory()
            self.removals.note()
            try:
                return await index_records.drop_index(self._db, index.record)
            except NotFound:
                raise
            except CocoSearchError:  # nothing was dropped that is known of, so the index goes on
                start = partial(
                    self._start_or_list,
                    replace(index.record, topics=index.explicit_topics),
                    outdated_chunks=index.outdated_chunks,
                    rules_in_doubt=index.rules_in_doubt,
                )
                await attempt(f"start of {name}", start, (Exception,))  # logged there
                check = partial(self._remove_unregistered, index.record)
                self._do_later(f"removal of {name}", check)
                raise

    async def _remove_unregistered(self, record: IndexRecord) -> None:
        """Remove a listed index if the stored registry does not have it."""
        if record.number in await index_records.index_numbers(self._db):
            return
        with suppress(NotFound):  # removed meanwhile
            async with self._locked(record.name) as index:
                if index.record.number == record.number:
                    await self._stop(index)
                    await index.lexical.delete()
                    self.removals.note()

    async def rebuild(self, name: str) -> RunningIndex:
        """Index every file again with the current embedder and settings.

        If the embedder has changed, the index goes on answering until its replacement is complete.
        """
        return await self._run_shielded(self._rebuild(name))

    async def _rebuild(self, name: str) -> RunningIndex:
        async with self._locked(name) as index:
            if isinstance(index.error, NotStarted):
                raise index.error
            fingerprint = self._embedder.fingerprint
            identity = index_identity(fingerprint.pairs(), index.settings.indexing)
            if identity == index.record.identity:
                index.own_root.rescan("asked for", force=True)
                return index
            if index.replacement is not None and index.replacement.record.identity == identity:
                return index
            await self._abandon(index)
            replacement = await index_roles.ensure_next_index(
                self._db, index.record, fingerprint.dimension, identity
            )
            await self._stop(index)
            return await self._start_or_list(
                replace(index.record, topics=index.explicit_topics),
                replacement,
                index.outdated_chunks,
                rules_in_doubt=index.rules_in_doubt,
            )

    async def recheck(self) -> None:
        """Stop indexes that another embedder built; call it once the configured embedder is known.

        Until then these indexes run unchecked.
        """
        for name in [index.record.name for index in self.lookup.own()]:
            with suppress(NotFound):  # cleared meanwhile
                async with self._locked(name) as index:
                    replacement = index.unstarted_replacement
                    if index.replacement is not None:
                        replacement = index.replacement.record
                    if replacement is not None and embedder_mismatch(self._embedder, replacement):
                        await self._abandon(index)
                    error = embedder_mismatch(self._embedder, index.record)
                    has_replacement = index.replacement or index.unstarted_replacement
                    if index.error is None and not has_replacement and error is not None:
                        log.error(
                            "index_refused", extra={"error": error.message, "hint": error.hint}
                        )
                        index.error = error
                        self.notifier.notify()
                        await self._updater.remove(index.queue_name)
                        index.tasks.cancel()

    async def compare_generations(self, *, is_other_timeline: bool) -> None:
        """Find indexes of which PostgreSQL lost acknowledged commits, and read their rows again.

        Restored storage has lower generations. After a failover, on another timeline of the log,
        later commits may have reached the lost ones, so every index counts as one of them. Raises
        `StoreUnavailable`.
        """
        for index in self._with_replacements():
            async with index.lock, self._lock:
                if self._by_queue(index.queue_name) is index and index.error is None:
                    with suppress(NotFound):
                        stored = await index_records.read_generation(self._db, index.record)
                        if is_other_timeline or stored < index.record.generation:
                            await self._forget_lost(index)

    async def _forget_lost(self, index: RunningIndex) -> None:
        """Drop all that was derived from rows that may be lost, and compare the root with the rest.

        It is dropped before the generation is raised: if that fails, all of this comes again.
        """
        lost = index.record.generation
        log.error("commits_lost", extra={"index": index.record.name, "generation": lost})
        index.own_root.rescan("PostgreSQL lost commits")
        try:
            await index.lexical.delete()
        except OSError as error:  # what stays on disk is older than the generation that follows
            log.warning("lexical_not_deleted", extra={"error": str(error)})
        index.graph.forget_files()
        await index.graph.free_memory()
        try:
            generation = await index_records.raise_generation(self._db, index.record, lost)
            generation = max(index.record.generation, generation)
            index.record = replace(index.record, generation=generation)
        finally:
            index.lexical.restart()

    async def committed(self, commit: Commit) -> None:
        """Apply a commit to its index, and announce it."""
        index = self._by_queue(commit.index)
        if index is None:
            return
        await index.apply_commit(commit)
        if self._indexes.get(index.record.name) is not index:
            return  # a replacement that does not answer yet
        self.commits.publish(replace(commit, index=index.record.name, as_of=index.root.clock()))
        self.notifier.notify()

    @asynccontextmanager
    async def _locked(self, name: str) -> AsyncIterator[RunningIndex]:
        """Lock an own index, and the adding and removing of indexes.

        Raises `NotFound`, and `Refused` for an index of another daemon.
        """
        while True:
            index = self.lookup.get(name)
            index.check_owned()
            async with index.lock, self._lock:
                if self._indexes.get(name) is index:  # no replacement has taken its place
                    yield index
                    return

    async def _run_shielded(self, change: Coroutine[Any, Any, Result]) -> Result:
        """Run a change to its end, even if the caller is cancelled: half a change is not repaired."""
        task = asyncio.create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def _release(self) -> None:
        """Release memory that all indexes share, once there is no index."""
        if not self._with_replacements():
            await self.analyser.pool.replace_idle()  # new processes have empty caches

    def _own_roots(self) -> list[WatchedRoot]:
        return [index.own_root for index in self.lookup.own()]

    def _with_replacements(self) -> tuple[RunningIndex, ...]:
        """Return indexes that answer, and the replacements that are being filled."""
        return tuple(
            index
            for answering in self.lookup.own()
            for index in (answering, answering.replacement)
            if index is not None
        )

    def _by_queue(self, queue_name: str) -> RunningIndex | None:
        """Return the index with this name in the updater; None without one."""
        return next(
            (index for index in self._with_replacements() if index.queue_name == queue_name), None
        )

    async def _start(
        self,
        record: IndexRecord,
        replacement: IndexRecord | None = None,
        outdated_chunks: int | None = None,
        *,
        rules_in_doubt: bool = False,
    ) -> RunningIndex:
        """Start an index and its replacement, unless the replacement has an old embedder as well.

        If the caller knows the number of `outdated_chunks`, the index also starts while PostgreSQL is
        away. With `rules_in_doubt`, the stored registry may have other rules than `record`. Tasks
        get a context of their own, for their log records and spans: they outlive the request that
        starts them.
        """
        index = await asyncio.create_task(
            self._start_with_replacement(record, replacement, outdated_chunks), context=Context()
        )
        index.rules_in_doubt |= rules_in_doubt
        return index

    async def _start_with_replacement(
        self, record: IndexRecord, replacement: IndexRecord | None, outdated_chunks: int | None
    ) -> RunningIndex:
        if replacement is not None and embedder_mismatch(self._embedder, replacement) is not None:
            with suppress(NotFound):  # an earlier attempt dropped it
                await index_records.drop_index(self._db, replacement)
            replacement = None
        index = await self._start_tasks(
            record,
            None if replacement else embedder_mismatch(self._embedder, record),
            outdated_chunks,
        )
        self._indexes[record.name] = index
        self.notifier.notify()
        if replacement is not None:
            index.unstarted_replacement = replacement
            # the index runs and answers without it; a failure is tried again by its supervisor
            start = partial(self._start_replacement, index)
            await attempt(f"start of the replacement of {record.name}", start)
            self._tasks.start_soon(self._supervise_replacement, index)
        return index

    async def _start_tasks(
        self,
        record: IndexRecord,
        error: IdentityMismatch | None,
        outdated_chunks: int | None = None,
    ) -> RunningIndex:
        explicit_topics = record.topics
        available = await root_available(
            self._db, record, FILE_SYSTEM_TIMEOUT_S, self._root_threads
        )
        record, settings, files = await self.config.apply_before_start(
            record,
            RootThreads(self._root_threads),
            FILE_SYSTEM_TIMEOUT_S,
            blocked=error is not None,
            available=available,
        )
        outdated_chunks = (
            await index_records.count_outdated_chunks(self._db, record)
            if outdated_chunks is None
            else outdated_chunks
        )
        index = self._create(record, settings, error, outdated_chunks)
        index.explicit_topics = explicit_topics
        if files:
            index.note_change(("since the daemon ran last",), files)
        if error is None:
            await self._updater.add(
                record, index.own_root, self.config.rules(settings), index.failure_recorder("queue")
            )
            self._tasks.start_soon(self._run, index)  # last: nothing ends it if this start fails
        return index

    def _create(
        self,
        record: IndexRecord,
        settings: IndexSettings,
        error: CocoSearchError | None,
        outdated_chunks: int,
    ) -> RunningIndex:
        root = WatchedRoot(
            record.root,
            StoredFiles(self._db, record),
            settings.indexing,
            self.config.loaded.settings.watching,
            self._state_dir / "sync" / record.slug,
            self._root_threads,
            self._root_group,
        )
        index = RunningIndex(
            record=record,
            root=root,
            lexical=LexicalIndex(
                self._db,
                record,
                self._state_dir / "lexical" / record.slug,
                self.analyser,
                self._limiter,
            ),
            graph=CodeGraph(self._db, record),
            tasks=anyio.CancelScope(),
            error=error,
            explicit_topics=record.topics,
            settings=settings,
            outdated_chunks=outdated_chunks,
            queue_name=record.name,
        )
        root.on_top_change = partial(self._on_hint, index)
        root.on_status = self.notifier.notify
        root.availability.admit = partial(self._admit, index)
        return index

    # -- replacement by an index of another embedder

    async def _supervise_replacement(self, index: RunningIndex) -> None:
        """Replace an index once its replacement is complete; end if the replacement is dropped."""
        with anyio.CancelScope() as scope:
            name = f"embedder of {index.record.name}"
            run = partial(self._await_replacement, index, scope)
            await supervise(name, run, index.failure_recorder("embedder"))

    async def _start_replacement(self, index: RunningIndex) -> None:
        """Start to fill the replacement that waits for it, if one does.

        Callers hold the lock of the index.
        """
        if index.unstarted_replacement is None:
            return
        number = index.unstarted_replacement.number
        stored = await index_roles.list_indexes_by_role(self._db, index_roles.NEXT)
        record = next((row for row in stored if row.number == number), None)
        if record is not None:  # with the rules of an attempt that failed after it had stored them
            replacement = await self._start_tasks(record, None)
            replacement.lock = index.lock
            index.replacement = replacement
        else:  # it was dropped, and the answer was lost
            check = partial(attempt, "check of embedders", self.recheck)
            self._tasks.start_soon(check)
        index.unstarted_replacement = None

    async def _await_replacement(self, index: RunningIndex, scope: anyio.CancelScope) -> None:
        while index.replacement is not None or index.unstarted_replacement is not None:
            if index.unstarted_replacement is not None:
                async with index.lock, self._lock:
                    await self._start_replacement(index)
            await anyio.sleep(REPLACEMENT_POLL_S)
            replacement = index.replacement
            if replacement is not None and is_complete(index, replacement):
                async with index.lock, self._lock:
                    if index.replacement is replacement:
                        await self._replace(index, replacement)
        # running queries may still read the old tables
        await anyio.sleep(OLD_TABLES_GRACE_S)
        async with self._lock:
            await index_roles.drop_retired_indexes(self._db)
        scope.cancel()
        await anyio.sleep_forever()  # a supervised task must not return: wait for the cancellation

    async def _replace(self, index: RunningIndex, replacement: RunningIndex) -> None:
        promoted = await index_roles.promote_index(self._db, index.record, replacement.record)
        replacement.record = replace(promoted, topics=index.record.topics)
        replacement.explicit_topics = index.explicit_topics
        self._indexes[promoted.name] = replacement
        index.replacement = None
        log.info(
            "embedder_switched", extra={"index": promoted.name, "embedder": promoted.identity.model}
        )
        await self._updater.remove(index.queue_name)
        index.tasks.cancel()
        await index.lexical.delete()
        await index.graph.free_memory()
        self.removals.note()
        # no commit announces the generation of the promotion
        await replacement.lexical.apply(Commit(promoted.name, promoted.generation, ()))

    async def _abandon(self, index: RunningIndex) -> None:
        """Drop the replacement of an index, if one is being filled or waits for its start.

        It is filled further if this fails.
        """
        replacement = index.replacement
        index.replacement = None
        if replacement is not None:
            index.unstarted_replacement = replacement.record
            await self._updater.remove(replacement.queue_name)
            replacement.tasks.cancel()
            await replacement.lexical.delete()
        if index.unstarted_replacement is not None:
            with suppress(NotFound):  # an earlier attempt dropped it
                await index_records.drop_index(self._db, index.unstarted_replacement)
            index.unstarted_replacement = None

    # -- changes of settings

    async def watch_settings(self) -> None:
        """Follow the user's symbol queries, for ever; to be supervised."""
        while True:
            pause_s = SETTINGS_POLL_S if self.config.queries_dir else SETTINGS_SLOW_POLL_S
            await anyio.sleep(seconds_to_tick(pause_s))
            if await self.config.has_changed_queries():
                await self.configure()

    async def _watch_project(self, index: RunningIndex) -> None:
        """Follow the files of settings of one project, for ever; to be supervised."""
        while True:
            slow_s = self._root_group.rest_s(SETTINGS_SLOW_POLL_S)
            pause_s = slow_s if index.own_root.local else SETTINGS_POLL_S
            with anyio.move_on_after(seconds_to_tick(pause_s)):
                await index.settings_hint.wait()
                await anyio.sleep(SETTINGS_WRITE_S)
            index.settings_hint = anyio.Event()
            if not index.lock.locked() and await index.has_changed_settings(FILE_SYSTEM_TIMEOUT_S):
                with anyio.move_on_after(SETTINGS_POLL_S):
                    await self.refresh(index)

    def _on_hint(self, index: RunningIndex, name: bytes) -> None:
        if name in SETTINGS_FILE_NAMES:
            index.settings_hint.set()

    async def refresh(self, index: RunningIndex) -> None:
        """Follow the files of a project if they have changed. A failure is tried again soon."""
        if await index.has_changed_settings():
            await self._run_shielded(self._refresh(index))

    async def _admit(self, index: RunningIndex) -> bool:
        """Follow the settings of a root that was away, before its files are read."""
        await self.refresh(index)
        return bool(index.settings.stamps) and not await index.has_changed_settings()

    async def _refresh(self, index: RunningIndex, *, force: bool = False) -> None:
        async with index.lock:
            if self._by_queue(index.queue_name) is index and index.error is None:
                if force:  # if this fails, the empty stamps stay and cause another try
                    index.settings = replace(index.settings, stamps=())
                if not force or await index.has_changed_settings(FILE_SYSTEM_TIMEOUT_S):
                    with suppress(CocoSearchError):
                        await self.config.apply_current(index)

    async def configure(self, loaded: LoadedSettings | None = None) -> None:
        """Apply changed settings of the daemon that concern indexes, and symbol queries."""
        async with self._lock:
            await self.config.read(loaded or self.config.loaded)
        async with anyio.create_task_group() as tasks:
            for index in self._with_replacements():
                follow = partial(self._refresh, index, force=True)
                tasks.start_soon(attempt, f"settings of {index.record.name}", follow)

    # -- running

    async def _run(self, index: RunningIndex) -> None:
        keeper = HistoryKeeper(index, self.analyser, self._history_turn, self._histories)
        with index.tasks:
            async with anyio.create_task_group() as tasks:
                runs: dict[str, Callable[[], Awaitable[object]]] = {
                    "root": index.own_root.run,
                    "words": index.lexical.run,
                    "code graph": index.graph.run,
                    "settings": partial(self._watch_project, index),
                    "retained chunks": partial(keep_retained_chunks_bounded, self._db, index),
                    "vector index": partial(keep_vector_index, self._db, index),
                    "words for classic": partial(keep_words, self._db, index, self.splitter.split),
                    "history": keeper.run,
                }
                for task, run in runs.items():
                    tasks.start_soon(
                        supervise,
                        f"{task} of {index.record.name}",
                        run,
                        index.failure_recorder(task),
                    )

    async def _stop(self, index: RunningIndex) -> None:
        del self._indexes[index.record.name]
        self.notifier.notify()
        if index.error is None:
            await self._updater.remove(index.queue_name)
        index.tasks.cancel()
        await index.lexical.wait_ended()  # it writes the files that its successor reads


async def _run_until_done(name: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run `run` with growing pauses until it succeeds, or what it is about is gone."""
    pause = FIRST_PAUSE_S
    error: Exception | None = StoreUnavailable(name)
    while isinstance(error, CocoSearchError) and not isinstance(error, NotFound):
        await anyio.sleep(pause)
        pause = min(pause * 2, LAST_PAUSE_S)
        error = await attempt(name, run, (StoreUnavailable, NotFound))


def _not_started(record: IndexRecord, error: Exception) -> NotStarted:
    message = f"index {record.name!r} could not be started: {summary(error)}"
    return NotStarted(
        message, f"it is tried again within {LAST_PAUSE_S:g} s; cocosearchctl logs says more"
    )
