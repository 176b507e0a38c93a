"""Keeps running indexes as their settings say: what a change affects is read again, nothing else;
answers go on.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import anyio

from cocosearchd.config.index_settings import (
    SCOPE,
    IndexSettings,
    changed,
    read_index_settings,
    sentence,
)
from cocosearchd.config.project import Project, seen
from cocosearchd.config.settings import LoadedSettings
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import CocoSearchError, EmbedderUnavailable, IdentityMismatch
from cocosearchd.indexing.coordinator.updater import IndexRules, Updater
from cocosearchd.indexing.row_shape import collect_row_settings, find_affected_files, index_identity
from cocosearchd.indexing.symbol_queries import SymbolQueryFiles, read_overrides, stamp_query_files
from cocosearchd.model import IndexIdentity, IndexRecord
from cocosearchd.runtime.deadlines import ended
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.store.connection.database import Database
from cocosearchd.store.invalidation import invalidate
from cocosearchd.watching.availability.single_flight import SingleFlight
from cocosearchd.watching.root_threads import RootThreads
from cocosearchd.watching.watched_root import WatchedRoot

log = logging.getLogger(__name__)

Stamps = tuple[tuple[int, ...], ...]
NOTED_S = 600.0  # how long it is said what a change of settings did
NOT_READ = (
    "the project's own settings are not known: its root has not been there since the daemon started"
)


@dataclass(slots=True)
class RunningIndex:
    """`record.generation` follows the commits; `refusal` is set, and `root` is not running, for a
    foreign identity, and for an index that could not be started. `troubles` are sentences about
    tasks that failed and start again.

    `record.topics` are those that were `given`, or else those of the project. `settings` hold for
    this index.
    """

    record: IndexRecord
    root: WatchedRoot
    lexical: LexicalIndex
    tasks: anyio.CancelScope
    refusal: CocoSearchError | None = None
    given: tuple[str, ...] = ()
    settings: IndexSettings = field(default_factory=IndexSettings)
    lacking: int = 0  # chunks of before the newest columns, when they were counted last
    note: str = ""
    noted_at: float = 0.0
    # its name in the updater; it keeps that when it takes the place, and the name, of another
    lane: str = ""
    # is being filled with another embedder, to take its place
    following: "RunningIndex | None" = None
    # one change of it at a time, or of what follows it
    changing: anyio.Lock = field(default_factory=anyio.Lock)
    noticed: anyio.Event = field(default_factory=anyio.Event)  # a file of settings may have changed
    troubles: dict[str, str] = field(default_factory=dict)
    settings_look: SingleFlight[Stamps | None] = field(init=False)

    def __post_init__(self) -> None:
        self.settings_look = SingleFlight(lambda: seen(self.record.root), self.root.threads)

    def reporter(self, task: str) -> Callable[[str | None], None]:
        """Takes the sentence about a task that failed, and None when it runs again: see
        `supervise`.
        """

        def report(sentence: str | None) -> None:
            if sentence is None:
                self.troubles.pop(task, None)
            else:
                self.troubles[task] = sentence

        return report

    async def outdated(self, within_s: float = math.inf) -> bool:
        """Whether its project's files have changed since they were read. What is not there has not.

        A file system that does not answer keeps who asks this waiting; for so long, and then
        nothing is known to have.
        """
        found, presence = None, self.root.presence
        if self.refusal is None and presence.there and self.root.local:
            found = seen(self.record.root)
        elif self.refusal is None and presence.there:
            with anyio.move_on_after(within_s):
                await presence.answers()
                # however many ask: one thread where it never answers
                found = await self.settings_look.seen()
        return found is not None and found != self.settings.stamps

    @property
    def said(self) -> tuple[str, ...]:
        """What a person should know of its settings."""
        recent = self.note and anyio.current_time() - self.noted_at < NOTED_S
        filling = (self._filling(self.following),) if self.following else ()
        return (
            *self.settings.said,
            *((self.note,) if recent else ()),
            *filling,
            *self.troubles.values(),
            *self.lexical.exclusion_warnings,
        )

    def _filling(self, following: "RunningIndex") -> str:
        old, new = self.record.identity.model, following.record.identity.model
        status = following.root.status()
        return f"vectors of {new}: {status.done} of {status.total or '?'} files; until all are there, {old} answers"

    def tell(self, differ: tuple[str, ...], files: int) -> None:
        """Note and log what a change of settings did: `files` are read again for it."""
        self.note, self.noted_at = sentence(differ, files), anyio.current_time()
        log.info(
            "settings_changed", extra={"index": self.record.name, "changed": differ, "files": files}
        )


def complete(index: RunningIndex, following: RunningIndex) -> bool:
    """Whether the next index has all that is in scope, but for files that the one that answers
    lacks as well.
    """
    status = following.root.status()
    settled = (
        status.total is not None and status.state in ("live", "degraded") and not status.pending
    )
    if not settled or following.lexical.generation < following.record.generation:
        return False
    if index.root.status().state == "root_missing":
        return False  # else an empty index would take the place of a full one
    failed = {file.path for file in index.root.failed()} if status.failed_count else set[str]()
    return all(file.retry_in_s is None or file.path in failed for file in following.root.failed())


def refusal_of(embedder: LazyEmbedder, record: IndexRecord) -> IdentityMismatch | None:
    """Why an index is not run. None also while the embedder is not known: that is no reason to stop
    finding words.
    """
    try:
        fingerprint = embedder.fingerprint
    except EmbedderUnavailable:
        return None
    if fingerprint.pairs() == record.identity.embedder:
        return None
    return IdentityMismatch(
        f"index {record.name!r} was built with {record.identity.model} ({record.dimension}-d); "
        f"configured: {fingerprint}",
        f"cocosearchctl reindex {record.name}, or configure what it was built with",
    )


class ConfigSync:
    """The settings of the daemon as far as they are of indexes. One change of an index at a time:
    see `changing`.
    """

    def __init__(self, db: Database, updater: Updater, loaded: LoadedSettings) -> None:
        self._db, self._updater, self.loaded = db, updater, loaded
        self._overrides, self._seen = SymbolQueryFiles(), tuple[tuple[str, tuple[int, ...]], ...]()
        # PostgreSQL takes one at a time: a connection that waits for its turn is wasted
        self._remaking = anyio.Lock()

    @property
    def queries_dir(self) -> str:
        """Where the user's symbol queries are, "" for nowhere."""
        return self.loaded.settings.indexing.queries_dir

    @property
    def said(self) -> tuple[str, ...]:
        """What a person should know of the user's symbol queries."""
        return self._overrides.warnings

    async def outdated(self) -> bool:
        """Whether the user's symbol queries have changed since they were read."""
        directory = self.queries_dir
        return (
            bool(directory)
            and await anyio.to_thread.run_sync(stamp_query_files, directory) != self._seen
        )

    async def read(self, loaded: LoadedSettings) -> None:
        """Take these settings, and read the symbol queries that they name."""
        self.loaded = loaded
        directory = loaded.settings.indexing.queries_dir
        self._seen = await anyio.to_thread.run_sync(stamp_query_files, directory)
        self._overrides = await anyio.to_thread.run_sync(read_overrides, directory)
        for text in self._overrides.warnings:
            log.warning("query_not_used", extra={"error": text})

    def rules(self, settings: IndexSettings) -> IndexRules:
        """What shapes the rows of an index of these settings."""
        return IndexRules(settings.indexing, self._overrides.queries)

    async def begin(
        self,
        record: IndexRecord,
        threads: RootThreads,
        within_s: float,
        *,
        refused: bool,
        there: bool,
    ) -> tuple[IndexRecord, IndexSettings, int]:
        """An index that is not running yet, made what its settings say, and how many files will be
        read again.

        While its root is not there, or does not give its files of settings within so many seconds,
        it stays as it was made; `follow` must come before its files. Raises `StoreUnavailable`.
        """
        reading = (
            asyncio.ensure_future(threads.run(read_index_settings, record.root, self.loaded))
            if there
            else None
        )
        if reading is None or not await ended(reading, within_s):
            return record, IndexSettings(self.loaded, trouble=NOT_READ), 0
        settings = reading.result()
        made, files = (record, 0) if refused else await self._remade(record, self.rules(settings))
        return replace(made, topics=record.topics or settings.project.topics), settings, files

    async def follow(self, index: RunningIndex) -> None:
        """Make a running index what its settings of now say, if its root is there.

        Raises `StoreUnavailable`; then nothing has changed.
        """
        before = index.settings
        settings = await index.root.threads.run(
            _read_there, index.record.root, self.loaded, before.project
        )
        if settings is None or not index.root.presence.there:
            return
        rules = self.rules(settings)  # once: those of the daemon may change while this waits
        known, differ = before.trouble != NOT_READ, changed(before, settings)
        # Rules that the rows were made by are none yet by which the index is kept, where they had
        # not been read.
        files = (
            0 if known and not _differs(index.record, rules) else await self._renewed(index, rules)
        )
        if set(differ) & set(SCOPE):
            await index.root.configure(settings.indexing)
        elif files:
            index.root.rescan("settings changed")
        # Last: who finds the settings of now here waits for nothing that they changed.
        index.settings = settings
        index.record = replace(index.record, topics=index.given or settings.project.topics)
        if files or (differ and known):
            index.tell(differ or ("queries_dir",), files)

    async def _renewed(self, index: RunningIndex, rules: IndexRules) -> int:
        files = 0

        async def change() -> IndexRecord:
            nonlocal files
            made, files = await self._remade(index.record, rules)
            return made

        await self._updater.change_rules(index.lane, rules, change)
        identity, noted = _wanted(index.record, rules)
        index.record = replace(
            index.record, identity=identity, made_with=tuple(sorted(noted.items()))
        )
        return files

    async def _remade(self, record: IndexRecord, rules: IndexRules) -> tuple[IndexRecord, int]:
        """The index for these rules, and how many files will be read again. Nobody may be
        writing.
        """
        if not _differs(record, rules):
            return record, 0
        identity, noted = _wanted(record, rules)
        async with self._remaking:
            return await invalidate(
                self._db,
                record,
                identity,
                noted,
                find_affected_files(dict(record.made_with), noted),
            )


def _wanted(record: IndexRecord, rules: IndexRules) -> tuple[IndexIdentity, dict[str, str]]:
    identity = index_identity(record.identity.embedder, rules.indexing)
    return identity, collect_row_settings(rules.indexing, rules.queries)


def _differs(record: IndexRecord, rules: IndexRules) -> bool:
    return _wanted(record, rules) != (record.identity, dict(record.made_with))


def _read_there(root: bytes, loaded: LoadedSettings, last: Project) -> IndexSettings | None:
    """The settings of the index of a root; None if that went away meanwhile, and its files with it.
    Blocking.
    """
    found = read_index_settings(root, loaded, last)
    return found if seen(root) is not None else None
