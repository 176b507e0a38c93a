"""The running indexes: each a record, the root it copies and its words in memory. Started and
stopped at run time.

An index whose rows were made by another embedder than the configured one is listed but not run: it
says how it was made and what to do (`IdentityMismatch`). Once that is done (`rebuild`) it answers
with the embedder it was made by, and is kept fresh, while the next one is filled beside it, which
then takes its place. Other settings are followed as they change: exactly the files that they affect
are read again. What an answer needs of an index is in `RunningIndex`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import Context
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream

from cocosearchd.config.index_settings import IndexSettings, read_index_settings
from cocosearchd.config.project import SOURCES
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
from cocosearchd.indexes.commit_feed import ChangeNotifier, CommitFeed
from cocosearchd.indexes.config_sync import ConfigSync, RunningIndex, complete, refusal_of
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.indexes.maintenance import Removals, clear_spares, keep_vector_index
from cocosearchd.indexing.coordinator.updater import IndexRules, Updater
from cocosearchd.indexing.row_shape import chunker_limits, index_identity
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.runtime.deadlines import soon
from cocosearchd.runtime.supervise import FIRST_PAUSE_S, LAST_PAUSE_S, attempt, summary, supervise
from cocosearchd.runtime.ticks import seconds_to_tick
from cocosearchd.search.lexical.analysis.analyser import ProcessAnalyser
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.store import index_records, index_roles
from cocosearchd.store.connection.database import Database
from cocosearchd.watching.root_threads import ROOT_THREADS, RootThreads
from cocosearchd.watching.root_validation import check_root, chosen_name
from cocosearchd.watching.watched_root import WatchedRoot, is_there

__all__ = ["IndexRegistry", "RunningIndex", "chunker_limits"]

log = logging.getLogger(__name__)

PING_S = 5.0  # a server that is slower would leave a change half done
# Between looks at files of settings; a question that waits for changes looks by itself, and hints
# tell of most.
# and how long a look waits for a file system that may never answer
LOOK_S, CALM_LOOK_S, ANSWERS_S = 1.0, 5.0, 1.0
WRITTEN_S = 0.05  # from the first hint of a file to its last
FILL_LOOK_S, GRACE_S = 0.5, 5.0
Changed = TypeVar("Changed")


class IndexRegistry:
    """Starts and stops indexes at run time; `lookup` selects among them. For one event loop."""

    def __init__(
        self,
        db: Database,
        updater: Updater,
        embedder: LazyEmbedder,
        loaded: LoadedSettings,
        state_dir: Path,
        tasks: TaskGroup,
    ) -> None:
        self._db, self._updater, self._embedder = db, updater, embedder
        self.analyser = ProcessAnalyser()  # of all indexes; who ends their use closes it
        self._tuning = ConfigSync(db, updater, loaded)
        self._state_dir, self._tasks = state_dir, tasks
        self._running: dict[str, RunningIndex] = {}
        self.lookup = IndexLookup(self._running)
        self._commits = CommitFeed()
        self.notifier = ChangeNotifier()
        # Adding and removing are one at a time. Other settings of an index wait for its files that
        # are under way, which may take a model server minutes: they hold the lock of that index
        # alone, which is taken before this one.
        self._changing = anyio.Lock()
        self._under_way = set[asyncio.Task[Any]]()  # changes; see `_whole`
        # Apart from the threads of questions: file systems that hang keep theirs.
        self._root_threads = ThreadPoolExecutor(ROOT_THREADS, "root")
        self._adding = RootThreads(self._root_threads)
        self.removals = Removals(db, self._forget)

    @property
    def loaded(self) -> LoadedSettings:
        """The layers of settings but those of projects."""
        return self._tuning.loaded

    @property
    def said(self) -> tuple[str, ...]:
        """What a person should know of settings that are not of one index."""
        return self._tuning.said

    def commits(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[Commit]]:
        """Commits of all indexes from now on, each after its hook has ended. It ends for a reader
        that is too slow.
        """
        return self._commits.follow()

    async def start_all(self) -> None:
        """Start what the registry names."""
        self.analyser.warm_up()
        async with self._changing:
            await self._tuning.read(self._tuning.loaded)
            await index_roles.drop_retired_indexes(self._db)
            following = {
                record.root: record
                for record in await index_roles.list_indexes_by_role(self._db, "next")
            }
            for record in await index_records.list_indexes(self._db):
                start = partial(self._start, record, following.get(record.root))
                error = await attempt(f"start of {record.name}", start)
                if isinstance(error, StoreUnavailable):
                    raise error
                if error is not None:
                    self._set_aside(record, start, error)

    def _set_aside(
        self, record: IndexRecord, start: Callable[[], Awaitable[object]], error: Exception
    ) -> None:
        """List an index that could not be started, and try again with growing pauses. The others
        run meanwhile.
        """
        index = self._made(
            record, IndexSettings(self._tuning.loaded), _not_started(record, error), 0
        )
        self._running[record.name] = index
        self._tasks.start_soon(self._start_again, index, start)

    async def _start_again(
        self, index: RunningIndex, start: Callable[[], Awaitable[object]]
    ) -> None:
        name, pause = index.record.name, FIRST_PAUSE_S
        while self._running.get(name) is index:
            await anyio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)
            async with index.changing, self._changing:
                if self._running.get(name) is index:
                    error = await attempt(f"start of {name}", start)
                    index.refusal = _not_started(index.record, error) if error is not None else None

    async def add(
        self, path: bytes, name: str | None, topics: tuple[str, ...]
    ) -> tuple[RunningIndex, bool]:
        """The index of `path`, and whether it is new.

        Raises `NotFound`, `Refused`, `Conflict` as the registry does, `EmbedderUnavailable` before
        its first success.
        """
        return await self._whole(self._added(path, name, topics))

    async def _added(
        self, path: bytes, name: str | None, topics: tuple[str, ...]
    ) -> tuple[RunningIndex, bool]:
        # before it is alone: this may hang
        root = await self._adding.run(check_root, path, self._state_dir)
        settings = await self._adding.run(read_index_settings, root, self._tuning.loaded)
        async with self._changing:
            for index in self._running.values():
                if index.record.root == root:
                    if name not in (None, index.record.name):
                        raise Conflict(
                            f"this directory is the index {index.record.name!r} already",
                            f"clear it first, or leave --name {name} out",
                        )
                    await self._give_topics(index, topics)
                    return index, False
            taken = {index.record.name: index.record.root for index in self._running.values()}
            chosen = chosen_name(root, name, settings.project.name, taken)
            fingerprint = self._embedder.fingerprint
            identity = index_identity(fingerprint.pairs(), settings.indexing)
            record = await index_records.create_index(
                self._db, chosen, root, topics, fingerprint.dimension, identity
            )
            return await self._start(record), True

    async def _give_topics(self, index: RunningIndex, topics: tuple[str, ...]) -> None:
        if topics and topics != index.given:
            await index_records.set_topics(self._db, index.record, topics)
            index.given = topics
            index.record = replace(index.record, topics=topics)
            index.tell(("topics",), 0)

    def lexical_of(self, name: str) -> LexicalIndex | None:
        """The lexical index of an index, None if that is not running."""
        index = self._running.get(name)
        return None if index is None else index.lexical

    def rules(self, index: RunningIndex) -> IndexRules:
        """What shapes the rows of an index."""
        return self._tuning.rules(index.settings)

    def waiting(self) -> bool:
        """Whether something has failed, and waits to be tried again."""
        return any(index.root.waits for index in self._every())

    def retry(self) -> None:
        """Try all of that now."""
        for index in self._every():
            index.root.retry()

    async def remove(self, name: str) -> index_records.Counts:
        """Stop the index and drop its tables; what is gone.

        Raises `NotFound`, and what PostgreSQL says when it does not answer or drops nothing: then
        nothing has changed.
        """
        return await self._whole(self._removed(name))

    async def _removed(self, name: str) -> index_records.Counts:
        async with self._alone(name) as index:
            await soon(self._db.ping(), PING_S)
            await self._abandon(index)
            await self._stop(index)
            await index.lexical.discard()
            self.removals.note()
            try:
                return await index_records.drop_index(self._db, index.record)
            except NotFound:
                raise
            except CocoSearchError:  # nothing is gone, so it goes on
                await self._start(replace(index.record, topics=index.given), lacking=index.lacking)
                raise

    async def rebuild(self, name: str) -> RunningIndex:
        """Index every file again with the embedder and settings of now.

        With another embedder than it was made by, the index goes on answering until the next one is
        complete.
        """
        return await self._whole(self._rebuilt(name))

    async def _rebuilt(self, name: str) -> RunningIndex:
        async with self._alone(name) as index:
            if isinstance(index.refusal, NotStarted):
                raise index.refusal
            fingerprint = self._embedder.fingerprint
            identity = index_identity(fingerprint.pairs(), index.settings.indexing)
            if identity == index.record.identity:
                index.root.rescan("asked for", force=True)
                return index
            if index.following is not None and index.following.record.identity == identity:
                return index
            await self._abandon(index)
            following = await index_roles.ensure_next_index(
                self._db, index.record, fingerprint.dimension, identity
            )
            await self._stop(index)
            return await self._start(
                replace(index.record, topics=index.given), following, index.lacking
            )

    async def recheck(self) -> None:
        """Refuse what an embedder that has just become known did not make: it was run on trust
        until now.
        """
        for name in [index.record.name for index in self.lookup.all()]:
            with suppress(NotFound):  # cleared meanwhile
                async with self._alone(name) as index:
                    if (
                        index.following is not None
                        and refusal_of(self._embedder, index.following.record) is not None
                    ):
                        await self._abandon(index)
                    refusal = refusal_of(self._embedder, index.record)
                    if index.refusal is None and index.following is None and refusal is not None:
                        log.error(
                            "index_refused", extra={"error": refusal.message, "hint": refusal.hint}
                        )
                        index.refusal = refusal
                        self.notifier.notify()
                        await self._updater.remove(index.lane)
                        index.tasks.cancel()

    async def committed(self, commit: Commit) -> None:
        """The hook after each commit: words first, then the generation by which the caches are
        keyed.
        """
        index = self._in_lane(commit.index)
        if index is None:
            return
        await index.lexical.apply(commit)
        index.record = replace(
            index.record, generation=max(index.record.generation, commit.generation)
        )
        if self._running.get(index.record.name) is not index:
            return  # it does not answer yet
        self._commits.publish(replace(commit, index=index.record.name, as_of=index.root.clock()))
        self.notifier.notify()

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[RunningIndex]:
        """The index of a name while nothing else is changed of it, nor which ones there are. Raises
        `NotFound`.
        """
        while True:
            index = self.lookup.get(name)
            async with index.changing, self._changing:
                if self._running.get(name) is index:  # no other has taken its place
                    yield index
                    return

    async def _whole(self, change: Coroutine[Any, Any, Changed]) -> Changed:
        """What a change comes to. It goes on when whoever asked gives up: nobody would make half a
        change good.
        """
        task = asyncio.create_task(change)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _forget(self) -> None:
        """Let go of chunks that were read for any index, once there is none."""
        if not self._every():
            await self.analyser.renew()

    def _every(self) -> tuple[RunningIndex, ...]:
        """Those that answer, and those that will."""
        return tuple(
            one
            for index in self.lookup.all()
            for one in (index, index.following)
            if one is not None
        )

    def _in_lane(self, lane: str) -> RunningIndex | None:
        """The index that the updater knows by this name."""
        return next((index for index in self._every() if index.lane == lane), None)

    async def _start(
        self, record: IndexRecord, following: IndexRecord | None = None, lacking: int | None = None
    ) -> RunningIndex:
        """`following` is to take the place of it, unless its embedder is not the configured one
        either.

        With what is `lacking` of one that was running, that starts again also while PostgreSQL is
        away.

        In a context of its own: what runs for ever is no part of the request that began it, nor are
        its log and spans.
        """
        return await asyncio.create_task(
            self._started(record, following, lacking), context=Context()
        )

    async def _started(
        self, record: IndexRecord, following: IndexRecord | None, lacking: int | None
    ) -> RunningIndex:
        if following is not None and refusal_of(self._embedder, following) is not None:
            await index_records.drop_index(self._db, following)
            following = None
        index = await self._begin(
            record, None if following else refusal_of(self._embedder, record), lacking
        )
        self._running[record.name] = index
        self.notifier.notify()
        if following is not None:
            index.following = await self._begin(following, None)
            index.following.changing = index.changing
            self._tasks.start_soon(self._switch, index)
        return index

    async def _begin(
        self, record: IndexRecord, refusal: IdentityMismatch | None, lacking: int | None = None
    ) -> RunningIndex:
        given, there = (
            record.topics,
            await is_there(self._db, record, ANSWERS_S, self._root_threads),
        )
        threads, refused = RootThreads(self._root_threads), refusal is not None
        record, settings, files = await self._tuning.begin(
            record, threads, ANSWERS_S, refused=refused, there=there
        )
        lacking = (
            await index_records.count_outdated_chunks(self._db, record)
            if lacking is None
            else lacking
        )
        index = self._made(record, settings, refusal, lacking)
        index.given = given
        if files:
            index.tell(("since the daemon ran last",), files)
        if refusal is None:
            self._tasks.start_soon(self._run, index)
            await self._updater.add(
                record, index.root, self._tuning.rules(settings), index.reporter("lane")
            )
        return index

    def _made(
        self,
        record: IndexRecord,
        settings: IndexSettings,
        refusal: CocoSearchError | None,
        lacking: int,
    ) -> RunningIndex:
        sync_dir, watching = (
            self._state_dir / "sync" / record.slug,
            self._tuning.loaded.settings.watching,
        )
        root = WatchedRoot(
            record, self._db, settings.indexing, watching, sync_dir, self._root_threads
        )
        index = RunningIndex(
            record,
            root,
            LexicalIndex(
                self._db, record, self._state_dir / "lexical" / record.slug, self.analyser
            ),
            anyio.CancelScope(),
            refusal,
            record.topics,
            settings,
            lacking,
            lane=record.name,
        )
        root.on_top, root.on_state = partial(self._notice, index), self.notifier.notify
        root.presence.admit = partial(self._admitted, index)
        return index

    # -- another embedder

    async def _switch(self, index: RunningIndex) -> None:
        """Let the next index take the place of this one; returns when it has, or is not wanted any
        more.
        """
        with anyio.CancelScope() as over:
            name, report = f"embedder of {index.record.name}", index.reporter("embedder")
            await supervise(name, partial(self._follow, index, over), report)

    async def _follow(self, index: RunningIndex, over: anyio.CancelScope) -> None:
        while (following := index.following) is not None:
            await anyio.sleep(FILL_LOOK_S)
            if complete(index, following):
                async with index.changing, self._changing:
                    if index.following is following:
                        await self._replace(index, following)
        await anyio.sleep(GRACE_S)  # questions that began before may still read the old tables
        async with self._changing:
            await index_roles.drop_retired_indexes(self._db)
        over.cancel()
        await anyio.sleep_forever()  # until that is heard: a supervised task has no end

    async def _replace(self, index: RunningIndex, following: RunningIndex) -> None:
        promoted = await index_roles.promote_index(self._db, index.record, following.record)
        following.record = replace(promoted, topics=index.record.topics)
        following.given = index.given
        self._running[promoted.name], index.following = following, None
        log.info(
            "embedder_switched", extra={"index": promoted.name, "embedder": promoted.identity.model}
        )
        await self._updater.remove(index.lane)
        index.tasks.cancel()
        await index.lexical.discard()
        self.removals.note()
        # which no commit has told it
        await following.lexical.apply(Commit(promoted.name, promoted.generation, ()))

    async def _abandon(self, index: RunningIndex) -> None:
        """Drop the next index, if one is being filled."""
        following, index.following = index.following, None
        if following is not None:
            await self._updater.remove(following.lane)
            following.tasks.cancel()
            await following.lexical.discard()
            await index_records.drop_index(self._db, following.record)

    # -- settings that change

    async def watch_settings(self) -> None:
        """Follow the user's symbol queries, for ever; to be supervised."""
        while True:
            await anyio.sleep(seconds_to_tick(LOOK_S if self._tuning.queries_dir else CALM_LOOK_S))
            if await self._tuning.outdated():
                await self.configure()

    async def _watch_project(self, index: RunningIndex) -> None:
        """Follow the files of settings of one project, for ever; to be supervised."""
        while True:
            with anyio.move_on_after(seconds_to_tick(CALM_LOOK_S if index.root.local else LOOK_S)):
                await index.noticed.wait()
                await anyio.sleep(WRITTEN_S)
            index.noticed = anyio.Event()
            if not index.changing.locked() and await index.outdated(ANSWERS_S):
                with anyio.move_on_after(LOOK_S):
                    await self.refresh(index)

    def _notice(self, index: RunningIndex, name: bytes) -> None:
        if name in SOURCES:
            index.noticed.set()

    async def refresh(self, index: RunningIndex) -> None:
        """Follow the files of a project, if they have changed. What cannot be done now is tried
        again soon.
        """
        if await index.outdated():
            await self._whole(self._refreshed(index))

    async def _admitted(self, index: RunningIndex) -> bool:
        """Follow what a root that was away says of itself, before its files are read."""
        await self.refresh(index)
        return bool(index.settings.stamps) and not await index.outdated()

    async def _refreshed(self, index: RunningIndex, *, anew: bool = False) -> None:
        async with index.changing:
            if self._in_lane(index.lane) is index and index.refusal is None:
                if anew:  # also if it fails now: then it is tried again
                    index.settings = replace(index.settings, stamps=())
                if not anew or await index.outdated(ANSWERS_S):
                    with suppress(CocoSearchError):
                        await self._tuning.follow(index)

    async def configure(self, loaded: LoadedSettings | None = None) -> None:
        """Follow other settings of the daemon, as far as they are of indexes; or other symbol
        queries.
        """
        async with self._changing:
            await self._tuning.read(loaded or self._tuning.loaded)
        async with anyio.create_task_group() as tasks:
            for index in self._every():
                follow = partial(self._refreshed, index, anew=True)
                tasks.start_soon(attempt, f"settings of {index.record.name}", follow)

    # -- running

    async def _run(self, index: RunningIndex) -> None:
        with index.tasks:
            async with anyio.create_task_group() as tasks:
                runs: dict[str, Callable[[], Awaitable[object]]] = {
                    "root": index.root.run,
                    "words": index.lexical.run,
                    "settings": partial(self._watch_project, index),
                    "spare rows": partial(clear_spares, self._db, index),
                    "vector index": partial(keep_vector_index, self._db, index),
                }
                for task, run in runs.items():
                    tasks.start_soon(
                        supervise, f"{task} of {index.record.name}", run, index.reporter(task)
                    )

    async def _stop(self, index: RunningIndex) -> None:
        del self._running[index.record.name]
        self.notifier.notify()
        if index.refusal is None:
            await self._updater.remove(index.lane)
        index.tasks.cancel()


def _not_started(record: IndexRecord, error: Exception) -> NotStarted:
    message = f"index {record.name!r} could not be started: {summary(error)}"
    return NotStarted(
        message, f"it is tried again within {LAST_PAUSE_S:g} s; cocosearchctl logs says more"
    )
