"""Verbs about the daemon: status, models, settings, languages, shutdown."""

import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

import anyio

from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol as w
from cocosearchd.api import replies
from cocosearchd.api.health import Dependencies
from cocosearchd.api.index_sync import IndexSync
from cocosearchd.api.row_summaries import STATUS_S
from cocosearchd.config.index_settings import IndexSettings, list_values
from cocosearchd.embedding.base import pairs_digest
from cocosearchd.embedding.embedder_registry import EmbedderRegistry
from cocosearchd.errors import EmbedderUnavailable
from cocosearchd.freshness import stale_reason
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.runtime.process_resources import handle_warning, measure_cpu, measure_memory
from cocosearchd.search.latency import Latency
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.store.connection.database import Database


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """Facts about the daemon's process. `postgres` gives the process ids of an embedded server."""

    version: str
    started: float  # time.monotonic()
    embedder_provider: str  # as configured
    mcp: Callable[[], dict[str, str]]
    store: Callable[[], dict[str, Any]]
    postgres: Callable[[], tuple[int, ...]]
    warnings: Callable[[], tuple[str, ...]]
    stop: Callable[[], None]


class StatusVerbs:
    """Implements the verbs about the daemon as a whole."""

    def __init__(
        self,
        info: DaemonInfo,
        dependencies: Dependencies,
        db: Database,
        embedders: EmbedderRegistry,
        indexes: IndexRegistry,
        pipeline: Pipeline,
        updater: Updater,
        sync: IndexSync,
        list_indexes: Callable[[p.Empty], Awaitable[p.IndexesReply]],
        latency: Latency,
    ) -> None:
        self._info = info
        self._dependencies = dependencies
        self._db = db
        self._embedders = embedders
        self._indexes = indexes
        self._pipeline = pipeline
        self._updater = updater
        self._sync = sync
        self._list_indexes = list_indexes
        self._latency = latency

    async def status(self, request: p.Empty) -> p.StatusReply:
        """Return the state of the daemon, of its dependencies, and of each index."""
        info = self._info
        processes = (
            self._updater.pid,
            info.postgres,
            [*self._indexes.analyser.pool.pids, *self._indexes.splitter.pool.pids],
        )
        return p.StatusReply(
            version=info.version,
            protocol=p.PROTOCOL_VERSION,
            pid=os.getpid(),
            uptime_s=round(time.monotonic() - info.started, 1),
            mcp=info.mcp(),
            store=await self._store_status(),
            embedder=self._embedder_status(),
            worker=asdict(self._updater.status),
            cache=asdict(self._pipeline.cache_statistics()),
            rss_bytes=await anyio.to_thread.run_sync(measure_memory, *processes),
            cpu_s=await anyio.to_thread.run_sync(measure_cpu, *processes),
            indexes=(await self._list_indexes(request)).indexes,
            warnings=(
                *info.warnings(),
                *self._indexes.config.warnings,
                *filter(None, (self._updater.status.paused, handle_warning())),
            ),
            queries=self._latency.summary(),
        )

    async def models(self, request: p.Empty) -> w.ModelsReply:  # noqa: ARG002 - the shape of a verb
        """Return embedding models that can be used, and the model of each index."""
        configured = self._embedder_status()
        available = await self._embedders.models()
        entries = tuple(
            w.ModelEntry(model.provider, model.model, model.state, model.detail)
            for model in available
        )
        digest = configured.get("digest")
        uses = [_model_use(index, digest) for index in self._indexes.lookup.all()]
        return w.ModelsReply(configured, entries, tuple(uses))

    async def config(self, request: w.ConfigRequest) -> w.ConfigReply:
        """Return effective settings, each with its origin."""
        index = await self._indexes.lookup.around(request.cwd) if request.cwd else None
        if request.index is not None:
            index = self._indexes.lookup.get(request.index)
        if index is None:
            values = _config_values(IndexSettings(self._indexes.config.loaded))
            return w.ConfigReply(values, None, self._indexes.config.warnings)
        applied = index.error is not None or await self._sync.apply_settings(
            index, self._sync.deadline(None)
        )
        warnings = (
            self._indexes.config.warnings
            + index.warnings
            + (() if applied else (stale_reason("settings_pending").sentence,))
        )
        return w.ConfigReply(_config_values(index.settings), index.record.name, warnings)

    async def languages(self, request: p.Empty) -> w.LanguagesReply:  # noqa: ARG002 - the shape of a verb
        """Return supported languages and their kinds, by name."""
        return replies.languages()

    async def shutdown(self, request: p.Empty) -> p.ShutdownReply:  # noqa: ARG002 - the shape of a verb
        """Stop cleanly; the reply is sent first."""
        self._info.stop()
        return p.ShutdownReply(os.getpid())

    async def _store_status(self) -> dict[str, Any]:
        health = await self._dependencies.store.probe_within(STATUS_S)
        return {
            **self._info.store(),
            "server": self._db.server_version,
            "pgvector": self._db.pgvector_version,
            **health.fields(),
        }

    def _embedder_status(self) -> dict[str, Any]:
        try:
            fingerprint = self._embedders.configured.fingerprint
        except EmbedderUnavailable as error:
            return {
                "provider": self._info.embedder_provider,
                "state": "down",
                "reason": error.message,
                "hint": error.hint,
            }
        return {
            **asdict(fingerprint),
            "digest": fingerprint.digest(),
            **self._dependencies.embedder.probe_soon().fields(),
        }


def _model_use(index: RunningIndex, configured_digest: str | None) -> w.ModelUse:
    replacement = index.replacement.record if index.replacement else None
    digest = pairs_digest(index.record.identity.embedder)
    return replies.model_use(index.record, replacement, digest, configured_digest)


def _config_values(settings: IndexSettings) -> tuple[w.ConfigValue, ...]:
    return tuple(w.ConfigValue(*value) for value in list_values(settings))
