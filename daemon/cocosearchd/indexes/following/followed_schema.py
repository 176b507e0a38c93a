"""Follows one schema: adds and drops its indexes, and applies the commits of its daemon."""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from cocosearchd.config.index_settings import IndexSettings
from cocosearchd.config.settings import LoadedSettings
from cocosearchd.errors import CocoSearchError, Conflict, NotFound, StoreUnavailable
from cocosearchd.graph.code_graph import CodeGraph
from cocosearchd.indexes.change_notifier import ChangeNotifier
from cocosearchd.indexes.commit_feed import CommitFeed
from cocosearchd.indexes.following.chunk_budget import ChunkBudget, describe_memory
from cocosearchd.indexes.following.followed_root import FollowedRoot
from cocosearchd.indexes.following.followed_rows import FollowedRows
from cocosearchd.indexes.following.index_owner import IndexOwner
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.runtime.supervise import supervise
from cocosearchd.search.lexical.analysis.analyser import ProcessAnalyser
from cocosearchd.search.lexical.catch_up_limiter import CatchUpLimiter
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from cocosearchd.store.following.followed_registry import (
    FollowedRegistry,
    read_records,
    read_registry,
)
from cocosearchd.store.following.publications import OwnerChannel, owner_channel, read_publications
from cocosearchd.store.precise_use_rows import precise_use_state

log = logging.getLogger(__name__)

COMMIT_POLL_S = 0.5  # a commit is found within this time, by two reads of about 0.3 ms
ERROR_POLL_S = 2.0  # between checks of a schema that cannot be followed
REGISTRY_S = 5.0  # between checks for another host, version or database
# Catching up takes time in proportion to the files. A rest of this many times its length follows, so
# it takes at most a fifth of the time.
REST_FACTOR = 4


@dataclass(frozen=True, slots=True)
class FollowingParts:
    """The objects that schemas share. `is_taken` tells whether this daemon itself uses a name."""

    db: Database
    loaded: Callable[[], LoadedSettings]
    lexical_dir: Path
    analyser: ProcessAnalyser
    limiter: CatchUpLimiter
    tasks: TaskGroup
    commits: CommitFeed
    notifier: ChangeNotifier
    budget: ChunkBudget
    is_taken: Callable[[str], bool]
    note_removal: Callable[[], None]


class FollowedSchema:
    """Follows the daemon of one schema; `run` is supervised. `error` is why this is impossible now."""

    def __init__(
        self, schema: str, parts: FollowingParts, indexes: dict[str, RunningIndex]
    ) -> None:
        """`indexes` are those of all schemas, by name; this one adds and removes its own."""
        self.schema = schema
        self.error: CocoSearchError | None = None
        self._parts = parts
        self._indexes = indexes
        self._followed: dict[int, RunningIndex] = {}  # by number
        self._registry: FollowedRegistry | None = None
        self._incarnation: str | None = None  # of the database that the rows were read from
        self._channel: OwnerChannel | None = None

    async def run(self) -> None:
        """Follow for ever."""
        checked_at: float | None = None
        while True:
            began = anyio.current_time()
            is_due = checked_at is None or began - checked_at >= REGISTRY_S
            try:
                await (self._check_registry() if is_due else self._poll())
                checked_at = began if is_due else checked_at
            except StoreUnavailable:
                self._registry = None  # questions report it; a different server may come back
                began = anyio.current_time()  # to wait for a server was no work, and needs no rest
            except CocoSearchError as error:
                checked_at = None  # check the registry next: it explains a failed poll better
                if is_due:
                    self._fail(error)
            pause_s = COMMIT_POLL_S if self.error is None else ERROR_POLL_S
            await self._rest(pause_s, REST_FACTOR * (anyio.current_time() - began))

    async def _rest(self, least_s: float, longest_s: float) -> None:
        """Wait until the next poll; not longer than necessary for replaced rows.

        Questions find these too. A poll that waited for a server would rest for long.
        """
        end = anyio.current_time() + longest_s
        pause_s = least_s
        while pause_s > 0:
            await anyio.sleep(pause_s)
            left_s = end - anyio.current_time()
            pause_s = 0.0 if self._has_replaced() else min(left_s, COMMIT_POLL_S)

    def _has_replaced(self) -> bool:
        """Return True if an index has other rows than those read here: the next poll drops it."""
        return any(_root(index).rows.is_replaced for index in self._followed.values())

    async def _check_registry(self) -> None:
        generations = self._generations()
        registry = await read_registry(self._parts.db, self.schema)
        self._channel = self._channel or await owner_channel(self._parts.db, self.schema)
        owner_runs = await self._channel.is_owned(self._parts.db)
        self._registry = registry
        if self._incarnation not in (None, registry.incarnation):
            await self._drop(*self._followed.values())
        self._incarnation = registry.incarnation
        self._recover()
        await self._follow(registry.records, generations)
        for index in self._followed.values():
            root = _root(index)
            root.owner.host = registry.host
            root.trouble = None if owner_runs else f"{root.owner.description} does not run"
            index.settings = IndexSettings(self._parts.loaded())
            await (self._check(index) if _is_admitted(index) else self._admit(index))

    async def _check(self, index: RunningIndex) -> None:
        """Notice imported uses, which change no generation, and count the present chunks."""
        root = _root(index)
        if index.lexical.warm:
            self._parts.budget.take(index.record.key, index.lexical.sizes()["chunks"])
        with suppress(NotFound):  # cleared or replaced meanwhile
            await root.rows.catch_up()
            precise_uses = await precise_use_state(self._parts.db, index.record)
            if precise_uses != root.precise_uses:
                index.graph.forget_files()
            root.precise_uses = precise_uses

    async def _poll(self) -> None:
        if self._registry is None:
            await self._check_registry()
        else:
            generations = self._generations()
            records = await read_records(self._parts.db, self.schema)
            await self._follow(records, generations)

    def _generations(self) -> dict[int, int]:
        """Return the applied generations, by index number."""
        return {number: _root(index).rows.generation for number, index in self._followed.items()}

    async def _follow(
        self, records: tuple[IndexRecord, ...], generations: Mapping[int, int]
    ) -> None:
        """Take new indexes, drop those that are gone, and apply the commits of the others.

        `generations` were applied before the records were read: a record with a smaller generation
        comes from an older database.
        """
        current = {record.number: record for record in records}
        await self._drop(
            *(
                index
                for number, index in self._followed.items()
                if _is_replaced(index, current.get(number), generations.get(number, -1))
            )
        )
        for record in records:
            index = self._followed.get(record.number)
            if index is None:
                await self._take(record)
            elif index.error is None:
                await self._catch_up(index, record)
        publications = await read_publications(self._parts.db, self.schema)
        for number, index in self._followed.items():
            _root(index).owner.note(publications.get(number))

    async def _catch_up(self, index: RunningIndex, record: IndexRecord) -> None:
        root = _root(index)
        index.record = replace(index.record, topics=record.topics)
        root.is_read = index.lexical.warm
        if record.generation != root.rows.generation:
            with suppress(NotFound):  # cleared meanwhile: the next poll drops it
                await root.rows.catch_up()

    async def _take(self, record: IndexRecord) -> None:
        """List an index, and begin to follow it if that is possible."""
        assert self._registry is not None
        assert self._channel is not None
        owner = IndexOwner(self._parts.db, record, self._channel, self._registry.host)
        index = self._create(record, owner)
        self._followed[record.number] = index
        await self._admit(index)
        self._parts.notifier.notify()

    async def _admit(self, index: RunningIndex) -> None:
        """Begin to follow an index, unless its name is taken or it does not fit."""
        record = index.record
        name = record.name
        try:
            chunks = (await index_records.counts(self._parts.db, record)).chunks
            if self._parts.is_taken(name) or self._indexes.get(name, index) is not index:
                raise Conflict(f"there is another index {name}", "give one of them another name")
            self._indexes[name] = index
            self._parts.budget.check(name, chunks)
            await _root(index).rows.start()
        except CocoSearchError as error:
            if index.error is None or index.error.message != error.message:
                log.warning("follow_refused", extra={"error": error.message, "hint": error.hint})
            index.error = error
            return
        self._parts.budget.take(record.key, chunks)
        index.error = None
        index.record = replace(record, generation=_root(index).rows.generation)
        _root(index).memory = describe_memory(chunks)
        self._parts.tasks.start_soon(self._run, index)
        size = {"chunks": chunks, "memory": describe_memory(chunks)}
        log.info("index_followed", extra={"index": name, **size})

    def _create(self, record: IndexRecord, owner: IndexOwner) -> RunningIndex:
        db = self._parts.db
        digest = hashlib.blake2b(self.schema.encode(), digest_size=6).hexdigest()
        folder = self._parts.lexical_dir / f"{record.slug}@{digest}"

        async def apply(commit: Commit) -> None:
            await self._apply(index, commit)

        index = RunningIndex(
            record=record,
            root=FollowedRoot(owner, FollowedRows(db, record, apply)),
            lexical=LexicalIndex(db, record, folder, self._parts.analyser, self._parts.limiter),
            graph=CodeGraph(db, record),
            tasks=anyio.CancelScope(),
            explicit_topics=record.topics,
            settings=IndexSettings(self._parts.loaded()),
        )
        return index

    async def _apply(self, index: RunningIndex, commit: Commit) -> None:
        """Apply a commit to its index, and announce it."""
        await index.apply_commit(commit)
        root = _root(index)
        root.record_commit(commit)
        self._parts.commits.publish(replace(commit, as_of=root.clock()))
        self._parts.notifier.notify()

    async def _run(self, index: RunningIndex) -> None:
        with index.tasks:
            async with anyio.create_task_group() as tasks:
                runs: dict[str, Callable[[], Awaitable[object]]] = {
                    "words": index.lexical.run,
                    "code graph": index.graph.run,
                }
                for task, run in runs.items():
                    name = f"{task} of {index.record.name}"
                    tasks.start_soon(partial(supervise, name, run, index.failure_recorder(task)))

    async def _drop(self, *indexes: RunningIndex) -> None:
        """Stop following indexes, and forget what was built from their rows."""
        for index in indexes:
            del self._followed[index.record.number]
            if self._indexes.get(index.record.name) is index:
                del self._indexes[index.record.name]
            self._parts.budget.free(index.record.key)
            index.tasks.cancel()
            await index.lexical.delete()
            await index.graph.free_memory()
            log.info("index_not_followed", extra={"index": index.record.name})
            self._parts.note_removal()
            self._parts.notifier.notify()

    def _fail(self, error: CocoSearchError) -> None:
        """List the indexes of a schema that cannot be followed now, with the reason."""
        previous = self.error
        if previous is not None and previous.message == error.message:
            return
        log.warning("schema_not_followed", extra={"error": error.message, "hint": error.hint})
        self.error = error
        for index in self._followed.values():
            if index.error is None or index.error is previous:
                index.error = error
        self._parts.notifier.notify()

    def _recover(self) -> None:
        """Answer again for the indexes of a schema that is back."""
        for index in self._followed.values():
            if index.error is self.error:
                index.error = None
        self.error = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about indexes and schemas that cannot be followed now, except listed indexes."""
        unlisted = [
            index.error
            for index in self._followed.values()
            if index.error is not None and self._indexes.get(index.record.name) is not index
        ]
        errors = [self.error] if self.error is not None else unlisted
        return tuple(f"database.follow: {error.message}: {error.hint}" for error in errors)


def _root(index: RunningIndex) -> FollowedRoot:
    assert isinstance(index.root, FollowedRoot)
    return index.root


def _is_admitted(index: RunningIndex) -> bool:
    return _root(index).rows.generation >= 0


def _is_replaced(index: RunningIndex, record: IndexRecord | None, generation: int) -> bool:
    """Return True if an index is gone, or has other rows than those that were read.

    `generation` was applied before the record was read.
    """
    return (
        record is None
        or record.generation < generation
        or record.identity != index.record.identity
        or record.slug != index.record.slug
        or record.name != index.record.name
        or _root(index).rows.is_replaced
    )
