"""Applies changed settings to running indexes: only affected files are read again, answers go on."""

import asyncio
import logging
import shlex
from dataclasses import replace

import anyio

from cocosearchd.config.index_settings import (
    SCOPE,
    IndexSettings,
    changed_names,
    read_index_settings,
)
from cocosearchd.config.project import Project, read_stamps
from cocosearchd.config.settings import LoadedSettings
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import EmbedderUnavailable, IdentityMismatch
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.indexing.indexer_messages import IndexRules
from cocosearchd.indexing.row_shape import (
    collect_shaping_settings,
    find_affected_files,
    index_identity,
)
from cocosearchd.indexing.symbol_queries import SymbolQueryFiles, read_overrides, stamp_query_files
from cocosearchd.model import IndexIdentity, IndexRecord
from cocosearchd.runtime.deadlines import ends_within
from cocosearchd.store.connection.database import Database
from cocosearchd.store.invalidation import invalidate
from cocosearchd.watching.root_threads import RootThreads

log = logging.getLogger(__name__)

NOT_READ = (
    "the project's own settings are not known: its root has not been there since the daemon started"
)


def is_complete(index: RunningIndex, replacement: RunningIndex) -> bool:
    """Return True if a replacement has all files in scope that the index itself has."""
    status = replacement.root.status()
    settled = (
        status.total is not None and status.state in ("live", "degraded") and not status.pending
    )
    if not settled or replacement.lexical.generation < replacement.record.generation:
        return False
    if index.root.status().state == "root_missing":
        return False  # an empty index would take the place of a full one
    failed = (
        {file.path for file in index.own_root.exclusions.failed()}
        if status.failed_count
        else set[str]()
    )
    return all(
        file.retry_in_s is None or file.path in failed
        for file in replacement.own_root.exclusions.failed()
    )


def embedder_mismatch(embedder: LazyEmbedder, record: IndexRecord) -> IdentityMismatch | None:
    """Return the error of an index that another embedder built; None if its embedder is right.

    Also None while the configured embedder is unknown: the index still answers by words.
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
        f"cocosearchctl reindex {shlex.quote(record.name)}, or configure what it was built with",
    )


class ConfigSync:
    """Applies the daemon's settings to indexes. Callers hold the lock of the index (`lock`)."""

    def __init__(self, db: Database, updater: Updater, loaded: LoadedSettings) -> None:
        self._db = db
        self._updater = updater
        self.loaded = loaded
        self._overrides = SymbolQueryFiles()
        self._stamps: tuple[tuple[str, tuple[int, ...]], ...] = ()
        # PostgreSQL runs one invalidation at a time: a connection that waits for its turn is wasted
        self._invalidation = anyio.Lock()

    @property
    def queries_dir(self) -> str:
        """Directory of the user's symbol queries, "" for none."""
        return self.loaded.settings.indexing.queries_dir

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the user's symbol queries."""
        return self._overrides.warnings

    async def has_changed_queries(self) -> bool:
        """Return True if the user's symbol queries have changed since they were read."""
        directory = self.queries_dir
        return (
            bool(directory)
            and await anyio.to_thread.run_sync(stamp_query_files, directory) != self._stamps
        )

    async def read(self, loaded: LoadedSettings) -> None:
        """Use these settings, and read the symbol queries that they name; or change nothing."""
        directory = loaded.settings.indexing.queries_dir
        stamps = await anyio.to_thread.run_sync(stamp_query_files, directory)
        overrides = await anyio.to_thread.run_sync(read_overrides, directory)
        self.loaded, self._stamps, self._overrides = loaded, stamps, overrides
        for text in self._overrides.warnings:
            log.warning("query_not_used", extra={"error": text})

    def rules(self, settings: IndexSettings) -> IndexRules:
        """Return rules that shape the rows of an index with these settings."""
        return IndexRules(settings.indexing, self._overrides.queries)

    async def apply_before_start(
        self,
        record: IndexRecord,
        threads: RootThreads,
        within_s: float,
        *,
        blocked: bool,
        available: bool,
    ) -> tuple[IndexRecord, IndexSettings, int]:
        """Apply the settings to an index before it runs; return the number of files to read again too.

        The index stays unchanged if it is `blocked` (its error keeps it from running), if its root
        is not `available`, or if the root's settings files cannot be read within `within_s` seconds.
        Then `apply_current` must be called before its files are read. Raises `StoreUnavailable`.
        """
        reading = (
            asyncio.ensure_future(threads.run(read_index_settings, record.root, self.loaded))
            if available
            else None
        )
        if reading is None or not await ends_within(reading, within_s):
            return record, IndexSettings(self.loaded, error=NOT_READ), 0
        settings = reading.result()
        files = 0
        topics = record.topics or settings.project.topics
        if not blocked:
            record, files = await self._invalidate(record, self.rules(settings))
        return replace(record, topics=topics), settings, files

    async def apply_current(self, index: RunningIndex) -> None:
        """Apply the current settings to a running index, if its root is available.

        Raises `StoreUnavailable`; then PostgreSQL may have the new rules, and refuses writes by the
        old ones until this is called again.
        """
        previous = index.settings
        in_doubt = index.rules_in_doubt
        settings = await index.own_root.threads.run(
            _read_there, index.record.root, self.loaded, previous.project
        )
        if settings is None or not index.own_root.availability.available:
            return
        rules = self.rules(settings)  # read once: the daemon's rules may change while this waits
        was_read = previous.error != NOT_READ
        differ = changed_names(previous, settings)
        files = 0
        if _needs_rules(index, rules):
            files = await self._renew(index, rules)
        await _apply_scope(index, settings, differ, is_invalid=in_doubt or files > 0)
        # Last: a caller that sees the new settings here does not wait for their effects.
        index.settings = settings
        index.record = replace(
            index.record, topics=index.explicit_topics or settings.project.topics
        )
        if files or (differ and was_read):
            index.note_change(differ or ("queries_dir",), files)

    async def _renew(self, index: RunningIndex, rules: IndexRules) -> int:
        files = 0

        async def change() -> IndexRecord:
            nonlocal files
            in_doubt, index.rules_in_doubt = index.rules_in_doubt, True
            record, files = await self._invalidate(index.record, rules, always=in_doubt)
            index.rules_in_doubt = False
            return record

        await self._updater.change_rules(index.queue_name, rules, change)
        identity, settings = _target(index.record, rules)
        index.record = replace(
            index.record, identity=identity, shaping_settings=tuple(sorted(settings.items()))
        )
        return files

    async def _invalidate(
        self, record: IndexRecord, rules: IndexRules, *, always: bool = False
    ) -> tuple[IndexRecord, int]:
        """Mark files whose rows do not fit these rules; the new record and the number of files.

        `record` has the rules that made the rows. `always` stores the rules even if they are equal:
        the registry may have others.
        """
        if not always and not _do_rules_differ(record, rules):
            return record, 0
        identity, settings = _target(record, rules)
        async with self._invalidation:
            return await invalidate(
                self._db,
                record,
                identity,
                settings,
                find_affected_files(dict(record.shaping_settings), settings),
            )


def _target(record: IndexRecord, rules: IndexRules) -> tuple[IndexIdentity, dict[str, str]]:
    """Return the identity and settings that rows have under these rules."""
    identity = index_identity(record.identity.embedder, rules.indexing)
    return identity, collect_shaping_settings(rules.indexing, rules.queries)


def _do_rules_differ(record: IndexRecord, rules: IndexRules) -> bool:
    return _target(record, rules) != (record.identity, dict(record.shaping_settings))


def _needs_rules(index: RunningIndex, rules: IndexRules) -> bool:
    """Return True if an index does not run by these rules, or PostgreSQL may have others.

    Settings that were never read are no rules of the updater yet, even if the rows fit them.
    """
    never_read = index.settings.error == NOT_READ
    return never_read or index.rules_in_doubt or _do_rules_differ(index.record, rules)


def _read_there(root: bytes, loaded: LoadedSettings, last: Project) -> IndexSettings | None:
    """Read the settings of a root; None if the root went away meanwhile. Blocking."""
    settings = read_index_settings(root, loaded, last)
    return settings if read_stamps(root) is not None else None


async def _apply_scope(
    index: RunningIndex, settings: IndexSettings, differ: tuple[str, ...], *, is_invalid: bool
) -> None:
    if set(differ) & set(SCOPE):
        await index.own_root.configure(settings.indexing)
    elif is_invalid:
        index.own_root.rescan("settings changed")
