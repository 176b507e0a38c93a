"""Wiring: what the daemon is made of, in which order it starts and stops, and what signals do.

Start: lock the state, bind the sockets, PostgreSQL, registry, embedder, the child, the indexes,
serve. Stop: the same backwards; requests in flight are answered, then work is dropped (it is found
again), then PostgreSQL.
"""

import asyncio
import importlib.metadata
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from ssl import SSLContext
from typing import Any

import anyio
from anyio.abc import TaskGroup

from cocosearch_ipc import address
from cocosearch_ipc.http import sockets
from cocosearch_ipc.http.app import FrontEnd
from cocosearch_ipc.http.serve import serve
from cocosearch_ipc.mcp.root_policy import RootPolicy
from cocosearch_ipc.trust import tls
from cocosearch_ipc.trust.credentials import TokenFile
from cocosearchd.api.engine import Engine
from cocosearchd.api.health import make_dependencies
from cocosearchd.api.verbs.status import DaemonInfo
from cocosearchd.config.project import OWN
from cocosearchd.config.settings import (
    ADDRESSES,
    LoadedSettings,
    ServerSettings,
    Settings,
    get_value,
    setting_keys,
)
from cocosearchd.embedding.embedder_registry import EmbedderRegistry
from cocosearchd.embedding.factory import api_key, open_embedder, query_timeout_s
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import BadSettings, EmbedderUnavailable, StoreUnavailable
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexing.coordinator.updater import IndexerSpec, Updater
from cocosearchd.indexing.cores import count_usable_cores, extra_unsettled_batches
from cocosearchd.model import Commit
from cocosearchd.runtime import logs
from cocosearchd.runtime.masking import find_secrets
from cocosearchd.runtime.state_dir import lock_state_dir
from cocosearchd.runtime.supervise import supervise
from cocosearchd.runtime.systemd import Notifier
from cocosearchd.runtime.ticks import seconds_to_tick
from cocosearchd.runtime.watchdog import WatchdogPlan, run_watchdog
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.store.connection.database import Database, without_password
from cocosearchd.store.connection.instance_lock import hold_instance_lock
from cocosearchd.store.connection.migrate import migrate_registry
from cocosearchd.store.server.embedded import EmbeddedPostgres
from cocosearchd.store.server.server_log import ServerLog
from cocosearchd.watching.mapped_files import watch_mappings

log = logging.getLogger(__name__)

# A killed PostgreSQL is back within this and its own recovery; where its end is an event, at once.
LOOK_S, CALM_LOOK_S = 1.0, 5.0
EMBEDDER_RETRY_S = 5.0
# Made as they are needed. A file server that hangs holds a few for each root of it, and the others
# need some as well.
THREADS = 64
# Settings that running indexes follow without a restart, beside those that a project may set.
INDEXED = OWN | {"indexing.index_secrets", "indexing.max_file_bytes", "indexing.queries_dir"}
# And settings of questions that are read at the start alone.
STARTED = frozenset({"search.cache_bytes", "search.cache_ttl_s", "search.weights_file"})


@dataclass(frozen=True, slots=True)
class DaemonPaths:
    """Where this daemon lives, and the secrets it may use. All from the environment, read by the
    caller.
    """

    state: Path
    rpc: Path
    bridge: Path
    token: Path
    log: Path | None = None
    home: str = "/nonexistent"
    postgres_bin: str = ""
    api_key: str = field(default="", repr=False)
    database_password: str = field(default="", repr=False)  # that libpq finds in the environment
    reload: Callable[[], LoadedSettings] = lambda: LoadedSettings(Settings(), {})
    notifier: Notifier = field(default_factory=Notifier)
    sockets: Mapping[str, Any] = field(default_factory=dict)  # from a service manager
    watchdog: WatchdogPlan | None = None

    @classmethod
    def of(
        cls,
        env: Mapping[str, str],
        settings: Settings,
        pid: int,
        reload: Callable[[], LoadedSettings],
    ) -> "DaemonPaths":
        """As `cocosearch_ipc.address` says, so that both programs agree. `reload` reads the
        settings again.
        """
        watchdog = (
            env.get("WATCHDOG_USEC", "") if env.get("WATCHDOG_PID", str(pid)) == str(pid) else ""
        )
        return cls(
            state=Path(address.state_dir(env)),
            rpc=Path(address.rpc_socket(env)),
            bridge=Path(address.bridge_socket(env)),
            token=Path(address.token_file(env)),
            log=Path(address.log_file(env)),
            home=address.home(env),
            postgres_bin=env.get("COCOSEARCH_PG_BIN", ""),
            api_key=api_key(settings.embedder, env),
            database_password=env.get("PGPASSWORD", ""),
            reload=reload,
            notifier=Notifier(
                env.get("NOTIFY_SOCKET", ""),
                int(watchdog) / 2_000_000 if watchdog.isdecimal() else None,
            ),
            sockets=sockets.inherited(env, pid) or sockets.launchd(("rpc", "mcp")),
            watchdog=WatchdogPlan.of(env, settings.server.watchdog_s, os.getppid()),
        )


async def run(loaded: LoadedSettings, places: DaemonPaths) -> None:
    """Serve until told to stop. Raises `Failure` for what keeps it from starting, maybe inside of a
    group.
    """
    started, settings = time.monotonic(), loaded.settings
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    with lock_state_dir(places.state, places.rpc), run_watchdog(places.watchdog, places.state):
        secure = _tls(settings.server, places)
        bound = _bound(loaded, places, secure=secure is not None)
        try:
            async with _store(settings, places) as store, anyio.create_task_group() as tasks:
                await _serve(RunningParts(loaded, places, bound, store, tasks, started, secure))
                tasks.cancel_scope.cancel()  # before the pool is closed and PostgreSQL stops
        finally:
            bound.close()
    log.info("stopped")


def _bound(loaded: LoadedSettings, places: DaemonPaths, *, secure: bool) -> sockets.BoundSockets:
    """The listening sockets. Raises `BadSettings` when another program holds a port that a setting
    names.

    The default port alone is not worth a daemon: a second one of the same user answers without it,
    and says so.
    """
    server, origin = loaded.settings.server, loaded.origins.get("server.port")
    try:
        return sockets.bind(
            places.rpc,
            places.bridge,
            host=server.host,
            port=server.port if server.enabled else None,
            port_needed=origin is not None,
            inherited=dict(places.sockets),
            tls=secure,
        )
    except sockets.PortTaken as taken:
        set_by = f"server.port in {origin.place}: " if origin else ""
        raise BadSettings(f"{set_by}{taken.message}", taken.hint) from None


@dataclass(frozen=True, slots=True)
class StoreConnection:
    """PostgreSQL in use; `postgres` is None when it is not ours."""

    db: Database
    dsn: str
    postgres: EmbeddedPostgres | None


@dataclass(frozen=True, slots=True)
class RunningParts:
    """What the parts of one run share."""

    loaded: LoadedSettings
    places: DaemonPaths
    bound: sockets.BoundSockets
    store: StoreConnection
    tasks: TaskGroup
    started: float
    tls: SSLContext | None

    @property
    def settings(self) -> Settings:
        """As they were at the start."""
        return self.loaded.settings

    def info(self, stop: Callable[[], None]) -> DaemonInfo:
        """Facts about this daemon, for `status`; `stop` ends it."""
        postgres = self.store.postgres
        kind = "embedded" if postgres else "external"
        return DaemonInfo(
            version=version(),
            started=self.started,
            embedder_provider=self.settings.embedder.provider,
            mcp=self.bound.urls,
            store=lambda: {"kind": kind, "dsn": without_password(self.store.dsn)},
            postgres=postgres.pids if postgres else tuple,
            warnings=lambda: self.bound.warnings,
            stop=stop,
        )


async def _serve(running: RunningParts) -> None:
    settings, places, tasks, db = running.settings, running.places, running.tasks, running.store.db
    stop = anyio.Event()
    # empty until there is one: a signal may come before
    engines: list[tuple[Engine, IndexRegistry]] = []
    tasks.start_soon(_signals, stop, running, engines)
    if running.store.postgres is not None:
        tasks.start_soon(supervise, "store", partial(_keep_store, running.store.postgres))
    # of an embedded server the lock of the state directory sees to that
    if running.store.postgres is None:
        await tasks.start(
            hold_instance_lock, db
        )  # before anything is changed there that another daemon uses
    await migrate_registry(db)
    embedder = LazyEmbedder(
        partial(open_embedder, settings.embedder, places.api_key),
        query_timeout_s=query_timeout_s(settings.embedder),
    )
    embedders = EmbedderRegistry(
        embedder, settings.embedder, partial(open_embedder, api_key=places.api_key), places.api_key
    )
    with anyio.move_on_after(query_timeout_s(settings.embedder)):  # words are found without it
        await _try_embedder(embedder)
    engine, indexes = await _engine(running, embedders, stop)
    engines.append((engine, indexes))
    if embedder.error is not None:
        tasks.start_soon(supervise, "embedder", partial(_await_embedder, embedder, indexes))
    if places.notifier.watchdog_s is not None:
        own = None if running.store.postgres is None else db
        tasks.start_soon(
            supervise,
            "watchdog",
            partial(_watchdog, places.notifier, places.notifier.watchdog_s, own),
        )
    token = TokenFile(places.token)
    token.ensure()
    server = settings.server
    front = FrontEnd(
        engine,
        token,
        roots=RootPolicy(
            server.allowed_roots, places.home, (str(places.state), str(places.rpc.parent))
        ),
        version=version(),
        max_body_bytes=server.max_body_bytes,
        hosts=(*server.hosts, server.host),
    )
    await serve(
        front, running.bound, started=partial(_ready, running), stopping=stop, tls=running.tls
    )
    places.notifier.stopping()
    await engine.aclose()
    await embedders.aclose()


async def _engine(
    running: RunningParts, embedders: EmbedderRegistry, stop: anyio.Event
) -> tuple[Engine, IndexRegistry]:
    """The parts of the daemon, put together."""
    settings, places, db = running.settings, running.places, running.store.db
    embedder = embedders.configured

    async def on_commit(commit: Commit) -> None:
        await indexes.committed(commit)

    spec = IndexerSpec(
        dsn=running.store.dsn,
        state_dir=str(places.state),
        database=settings.database,
        embedder=settings.embedder,
        indexing=settings.indexing,
        api_key=places.api_key,
    )
    updater = Updater(
        spec, on_commit, extra_unsettled=extra_unsettled_batches(count_usable_cores())
    )
    indexes = IndexRegistry(db, updater, embedder, running.loaded, places.state, running.tasks)
    pipeline = Pipeline(db, embedder, settings.search, indexes.lexical_of, embedders.get)
    # What is read of an index must have in it what a daemon that was killed has sent: nobody tells
    # of that any more.
    await db.wait_for_predecessors(spec.series)
    running.tasks.start_soon(supervise, "updater", updater.run)
    await indexes.start_all()
    running.tasks.start_soon(supervise, "settings", indexes.watch_settings)
    mappings = partial(watch_mappings, lambda: [index.root for index in indexes.lookup.all()])
    running.tasks.start_soon(supervise, "mappings", mappings)
    running.tasks.start_soon(supervise, "memory", indexes.removals.tidy)
    parts = make_dependencies(db, embedder, indexes.retry)
    for part in (parts.store, parts.embedder):
        running.tasks.start_soon(supervise, f"health of the {part.name}", part.watch)
    info = running.info(stop.set)
    engine = Engine(db, embedders, indexes, pipeline, updater, settings.search, info, parts)
    return engine, indexes


def _tls(server: ServerSettings, places: DaemonPaths) -> SSLContext | None:
    """How the TCP listener speaks, where there is one; one that a service manager opened is judged
    by its address.
    """
    given = places.sockets.get("mcp")
    if given is None and not server.enabled:
        return None
    host = server.host if given is None else given.getsockname()[0]
    return tls.context(tls.Exposure(host, server.remote, server.tls_cert, server.tls_key))


def secrets_in(settings: Settings, places: DaemonPaths) -> tuple[str, ...]:
    """The secrets that no record of the log may show."""
    addresses = find_secrets(*(get_value(settings, key) for key in ADDRESSES))
    return tuple(
        secret for secret in (places.api_key, places.database_password, *addresses) if secret
    )


def _ready(running: RunningParts) -> None:
    log.info("ready", extra={"socket": str(running.places.rpc), **running.bound.urls()})
    for warning in running.bound.warnings:
        log.warning(warning)
    running.places.notifier.ready("answering")


def version() -> str:
    """Of the installed distribution."""
    return importlib.metadata.version("cocosearchd")


@asynccontextmanager
async def _store(settings: Settings, places: DaemonPaths) -> AsyncIterator[StoreConnection]:
    """PostgreSQL, embedded unless a URL is set, and a pool to it. An embedded server is stopped at
    the end.
    """
    if settings.database.url:
        async with Database.open(settings.database.url, settings.database) as db:
            yield StoreConnection(db, settings.database.url, None)
        return
    address.forget("PG")  # of another server: PGHOSTADDR and PGSERVICE win over what the DSN says
    lines = {"shared_buffers": settings.database.shared_buffers}
    postgres = EmbeddedPostgres(places.state / "postgres", lines, places.postgres_bin)
    dsn = await anyio.to_thread.run_sync(postgres.ensure)
    try:
        async with Database.open(dsn, settings.database) as db:
            yield StoreConnection(db, dsn, postgres)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(postgres.stop)


async def _keep_store(postgres: EmbeddedPostgres) -> None:
    """Start the server again whenever it is gone, whoever ended it; pass on what it says, and keep
    that short.
    """
    said = ServerLog(postgres.log)
    while True:
        await _ended(postgres)
        for level, text in said.unread():
            log.log(level, "postgres_said", extra={"text": text})
        await anyio.to_thread.run_sync(said.trim)
        if not postgres.reachable():
            log.error("postgres_gone")
            await anyio.to_thread.run_sync(postgres.ensure)
            log.info("postgres_back")


async def _ended(postgres: EmbeddedPostgres) -> None:
    """Returns when the server has ended, or when it is time to look at what it says."""
    handle = postgres.handle()
    if handle is None:
        await anyio.sleep(seconds_to_tick(LOOK_S))
        return
    try:
        with anyio.move_on_after(seconds_to_tick(CALM_LOOK_S)):
            await anyio.wait_readable(handle)
    finally:
        os.close(handle)


async def _try_embedder(embedder: LazyEmbedder) -> None:
    try:
        await embedder.open()
    except EmbedderUnavailable as error:
        log.warning("embedder_unavailable", extra={"error": error.message, "hint": error.hint})


async def _await_embedder(embedder: LazyEmbedder, indexes: IndexRegistry) -> None:
    """Until it is there, then for ever: the supervisor takes an end for a failure."""
    while embedder.error is not None:
        await anyio.sleep(EMBEDDER_RETRY_S)
        try:
            await _try_embedder(embedder)
        except BadSettings as error:  # at the start this ends the daemon, which answers by now
            log.error("embedder_refused", extra={"error": error.message, "hint": error.hint})
    log.info("embedder_available", extra={"embedder": str(embedder.fingerprint)})
    await indexes.recheck()
    await anyio.sleep_forever()


async def _watchdog(notifier: Notifier, every_s: float, own: Database | None) -> None:
    """Says that the daemon lives when the event loop runs this, and a server of its `own` is not
    frozen.

    A frozen one is ended with the daemon, which helps. One that is away does not hang, and its end
    is no reason to end the daemon, which goes on without it, and could not be started again without
    it.
    """
    while True:
        if own is not None:
            with suppress(StoreUnavailable):
                await own.ping()
        if own is None or not own.unresponsive:
            notifier.alive()
        await anyio.sleep(every_s)


async def _signals(
    stop: anyio.Event, running: RunningParts, engine: list[tuple[Engine, IndexRegistry]]
) -> None:
    """SIGTERM and SIGINT stop; a second one stops at once. SIGHUP reads the settings again."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            if number == signal.SIGHUP:
                # beside this: what follows may wait for a model server, and must not keep a stop
                for each in engine:
                    running.tasks.start_soon(_reload, running, *each)
            elif stop.is_set():
                log.warning("forced_exit")
                os._exit(128 + number)
            else:
                log.info("stopping", extra={"signal": signal.Signals(number).name})
                stop.set()


async def _reload(running: RunningParts, engine: Engine, indexes: IndexRegistry) -> None:
    """Logs, defaults of queries and what shapes indexes change now; what else differs is named: it
    needs a restart.
    """
    running.places.notifier.reloading()
    try:
        await _follow(running, running.places.reload(), engine, indexes)
    except BadSettings as error:
        # the old ones stay
        log.error("reload_refused", extra={"error": error.message, "hint": error.hint})
    running.places.notifier.ready("answering")


async def _follow(
    running: RunningParts, loaded: LoadedSettings, engine: Engine, indexes: IndexRegistry
) -> None:
    settings = loaded.settings
    secrets = (*secrets_in(settings, running.places), *secrets_in(running.settings, running.places))
    logs.configure(settings.log.level, settings.log.format, running.places.log, secrets=secrets)
    engine.configure(settings.search)
    await indexes.configure(loaded)
    differ = [
        key
        for key in setting_keys()
        if get_value(settings, key) != get_value(running.settings, key)
    ]
    later = [
        key
        for key in differ
        if key in STARTED or not (key.startswith(("search.", "log.")) or key in INDEXED)
    ]
    log.info("reloaded", extra={"changed": differ, "needs_restart": later})
