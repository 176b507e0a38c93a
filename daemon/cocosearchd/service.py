"""Wiring of the daemon: its parts, the order of start and stop, and signals.

The start locks the state, binds the sockets, and starts PostgreSQL, registry, embedder, indexer
process and indexes; then the daemon serves. The stop runs in reverse: requests in flight are answered,
then indexing is dropped (the next scan finds its files again), then PostgreSQL stops.
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
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.http import sockets
from cocosearch_ipc.http.app import FrontEnd
from cocosearch_ipc.http.serve import serve
from cocosearch_ipc.mcp.root_policy import RootPolicy
from cocosearch_ipc.trust import tls
from cocosearch_ipc.trust.credentials import TokenFile
from cocosearchd.api.engine import Engine
from cocosearchd.api.health import Dependencies, make_dependencies
from cocosearchd.api.verbs.status import DaemonInfo
from cocosearchd.config.setting_effects import needs_restart
from cocosearchd.config.settings import (
    ADDRESSES,
    LoadedSettings,
    ServerSettings,
    Settings,
    get_value,
    setting_keys,
)
from cocosearchd.config.sources import parse_source
from cocosearchd.embedding.embedder_registry import EmbedderRegistry
from cocosearchd.embedding.factory import api_key, open_embedder, query_timeout_s
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import BadSettings, EmbedderUnavailable, StoreUnavailable
from cocosearchd.indexes.declared_sources import DeclaredSources
from cocosearchd.indexes.following.followed_indexes import FollowedIndexes
from cocosearchd.indexes.following.publisher import Publisher
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.indexing.cores import count_usable_cores, extra_unsettled_batches
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.model import Commit
from cocosearchd.runtime import logs
from cocosearchd.runtime.masking import find_secrets
from cocosearchd.runtime.state_dir import lock_state_dir
from cocosearchd.runtime.supervise import attempt, supervise
from cocosearchd.runtime.systemd import Notifier
from cocosearchd.runtime.ticks import REST_TICK_S, seconds_to_tick
from cocosearchd.runtime.watchdog import WatchdogPlan, run_watchdog
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.store.connection.database import Database, without_password
from cocosearchd.store.connection.instance_lock import InstanceLock
from cocosearchd.store.connection.migrate import migrate_registry
from cocosearchd.store.server.embedded import EmbeddedPostgres
from cocosearchd.store.server.server_log import ServerLog
from cocosearchd.store.server.used_wal import UsedWal

log = logging.getLogger(__name__)

# Intervals of checks of PostgreSQL: on a system that does not report the end of its process, and on
# one that does. A killed server is back after this interval and its own recovery.
SERVER_POLL_S = 1.0
USED_WAL_POLL_S = 10.0
EMBEDDER_RETRY_S = 5.0
MCP_MARK = "mcp.used"  # in the state directory
# Threads are started on demand. A file server that hangs blocks a few threads for each of its roots,
# and other roots need threads as well.
THREADS = 64


@dataclass(frozen=True, slots=True)
class DaemonEnvironment:
    """Paths, secrets, sockets and service manager of this daemon; `reload` reads its settings.

    All of it comes from the environment, which the caller reads.
    """

    state: Path
    rpc: Path
    bridge: Path
    token: Path
    log: Path | None = None
    home: str = "/nonexistent"
    postgres_bin: str = ""
    api_key: str = field(default="", repr=False)
    database_password: str = field(default="", repr=False)  # libpq reads it from the environment
    reload: Callable[[], LoadedSettings] = lambda: LoadedSettings(Settings(), {})
    notifier: Notifier = field(default_factory=Notifier)
    sockets: Mapping[str, Any] = field(default_factory=dict)  # from a service manager
    watchdog: WatchdogPlan | None = None

    @classmethod
    def from_environment(
        cls,
        env: Mapping[str, str],
        settings: Settings,
        pid: int,
        reload: Callable[[], LoadedSettings],
    ) -> "DaemonEnvironment":
        """Read the environment. Paths come from `cocosearch_ipc.address`, as for the command line.

        `reload` reads the settings again.
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
            watchdog=WatchdogPlan.from_environment(env, settings.server.watchdog_s, os.getppid()),
        )


async def run(loaded: LoadedSettings, environment: DaemonEnvironment) -> None:
    """Serve until a signal or a request stops the daemon.

    Raises `Failure` if it cannot start, perhaps inside of an exception group.
    """
    started = time.monotonic()
    settings = loaded.settings
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    with (
        lock_state_dir(environment.state, environment.rpc),
        run_watchdog(environment.watchdog, environment.state),
    ):
        secure = _make_tls_context(settings.server, environment)
        bound = _bind_sockets(loaded, environment, secure=secure is not None)
        try:
            async with (
                _open_store(settings, environment) as store,
                anyio.create_task_group() as tasks,
            ):
                await _start_and_serve(
                    RunningParts(
                        loaded=loaded,
                        environment=environment,
                        bound=bound,
                        store=store,
                        tasks=tasks,
                        started=started,
                        tls=secure,
                    )
                )
                tasks.cancel_scope.cancel()  # before the pool is closed and PostgreSQL stops
        finally:
            bound.close()
    log.info("stopped")


def _bind_sockets(
    loaded: LoadedSettings, environment: DaemonEnvironment, *, secure: bool
) -> sockets.BoundSockets:
    """Bind the listening sockets. Raises `BadSettings` if a configured port is in use.

    If the default port is in use, for example by another daemon of the same user, this daemon answers
    without the port, with a warning.
    """
    server = loaded.settings.server
    origin = loaded.origins.get("server.port")
    try:
        return sockets.bind(
            environment.rpc,
            environment.bridge,
            host=server.host,
            port=server.port if server.enabled else None,
            port_needed=origin is not None,
            inherited=dict(environment.sockets),
            tls=secure,
        )
    except sockets.PortTaken as taken:
        set_by = f"server.port in {origin.location}: " if origin else ""
        raise BadSettings(f"{set_by}{taken.message}", taken.hint) from None


@dataclass(frozen=True, slots=True)
class StoreConnection:
    """A connected PostgreSQL; `postgres` is None for an external server."""

    db: Database
    dsn: str
    postgres: EmbeddedPostgres | None


@dataclass(frozen=True, slots=True)
class StartedEngine:
    """The engine that front ends call, and the indexes that its verbs share."""

    engine: Engine
    indexes: IndexRegistry


@dataclass(frozen=True, slots=True)
class RunningParts:
    """Values that the parts of one run share."""

    loaded: LoadedSettings
    environment: DaemonEnvironment
    bound: sockets.BoundSockets
    store: StoreConnection
    tasks: TaskGroup
    started: float
    tls: SSLContext | None

    @property
    def settings(self) -> Settings:
        """Settings at the start."""
        return self.loaded.settings

    def info(
        self, stop: Callable[[], None], sources: DeclaredSources, followed: FollowedIndexes
    ) -> DaemonInfo:
        """Return facts about this daemon, for `status`; `stop` ends it."""
        postgres = self.store.postgres
        kind = "embedded" if postgres else "external"
        return DaemonInfo(
            version=version(),
            started=self.started,
            embedder_provider=self.settings.embedder.provider,
            mcp=self.bound.urls,
            store=lambda: {"kind": kind, "dsn": without_password(self.store.dsn)},
            postgres=postgres.pids if postgres else tuple,
            warnings=lambda: (*self.bound.warnings, *sources.warnings, *followed.warnings),
            stop=stop,
        )


async def _start_and_serve(running: RunningParts) -> None:
    environment = running.environment
    tasks = running.tasks
    db = running.store.db
    stop = anyio.Event()
    start = asyncio.Future[StartedEngine]()  # a signal may come before its end
    tasks.start_soon(_handle_signals, stop, running, start)
    lock = await _secure_store(running)
    await migrate_registry(db)
    if lock is not None:
        await lock.claim()
    embedders = _make_embedders(running.settings, environment.api_key)
    embedder = embedders.configured
    # search by words works without the embedder
    with anyio.move_on_after(query_timeout_s(running.settings.embedder)):
        await _try_embedder(embedder)
    started = await _create_engine(running, embedders, stop, lock)
    start.set_result(started)
    if embedder.error is not None:
        tasks.start_soon(supervise, "embedder", partial(_await_embedder, embedder, started.indexes))
    if environment.notifier.watchdog_s is not None:
        embedded_db = None if running.store.postgres is None else db
        watchdog_s = environment.notifier.watchdog_s
        watch = partial(_watchdog, environment.notifier, watchdog_s, embedded_db)
        tasks.start_soon(supervise, "watchdog", watch)
    front = _make_front_end(running, started.engine)
    ready = partial(_announce_ready, running)
    await serve(front, running.bound, started=ready, stopping=stop, tls=running.tls)
    environment.notifier.stopping()
    await started.engine.aclose()
    await embedders.aclose()


async def _secure_store(running: RunningParts) -> InstanceLock | None:
    """Keep the embedded server running, or lock the schema of an external one for this daemon."""
    postgres = running.store.postgres
    if postgres is None:
        lock = InstanceLock(running.store.db)
        # locked before any change of tables that another daemon may use
        await running.tasks.start(lock.hold)
        return lock
    # the lock of the state directory protects an embedded server
    running.tasks.start_soon(supervise, "store", partial(_keep_store, postgres))
    free_wal = partial(_free_used_wal, postgres)
    running.tasks.start_soon(supervise, "used log of PostgreSQL", free_wal)
    return None


def _make_embedders(settings: Settings, key: str) -> EmbedderRegistry:
    embedder = LazyEmbedder(
        partial(open_embedder, settings.embedder, key),
        query_timeout_s=query_timeout_s(settings.embedder),
    )
    return EmbedderRegistry(embedder, settings.embedder, partial(open_embedder, api_key=key), key)


def _make_front_end(running: RunningParts, engine: Engine) -> FrontEnd:
    environment = running.environment
    server = running.settings.server
    token = TokenFile(environment.token)
    token.ensure()
    own_directories = (str(environment.state), str(environment.rpc.parent))
    return FrontEnd(
        engine,
        token,
        roots=RootPolicy(server.allowed_roots, environment.home, own_directories),
        version=version(),
        max_body_bytes=server.max_body_bytes,
        hosts=(*server.hosts, server.host),
        answer_tokens=server.answer_tokens,
        mcp_mark=environment.state / MCP_MARK,
    )


async def _create_engine(
    running: RunningParts,
    embedders: EmbedderRegistry,
    stop: anyio.Event,
    lock: InstanceLock | None,
) -> StartedEngine:
    """Create the engine and the registry, and start their supervised tasks."""
    settings = running.settings
    db = running.store.db
    embedder = embedders.configured

    async def on_commit(commit: Commit) -> None:
        await indexes.committed(commit)

    spec = _make_indexer_spec(running, "" if lock is None else lock.owner)
    unsettled = extra_unsettled_batches(count_usable_cores())
    updater = Updater(spec, on_commit, extra_unsettled=unsettled)
    state_dir = running.environment.state
    indexes = IndexRegistry(db, updater, embedder, running.loaded, state_dir, running.tasks)
    pipeline = Pipeline(
        db,
        embedder,
        settings.search,
        indexes.lexical_of,
        embedders.get,
        indexes.splitter.split,
        indexes.note_classic,
        find_history=indexes.lookup.history_of,
    )
    # Wait until commits that a killed daemon sent have ended: no event will announce them.
    await db.wait_for_predecessors(spec.series)
    running.tasks.start_soon(supervise, "updater", updater.run)
    if lock is not None:  # before the first index: rows may be lost while others start
        lock.on_held_again = indexes.compare_generations
    await indexes.start_all(running.environment.notifier.starting, stop.is_set)
    dependencies = make_dependencies(db, embedder, indexes.retry)
    sources = DeclaredSources(
        indexes, embedder, tuple(map(parse_source, settings.watching.sources))
    )
    _start_index_tasks(running.tasks, indexes, dependencies, sources)
    followed = indexes.follow(settings.database.follow, settings.database.follow_max_chunks)
    engine = Engine(
        db=db,
        embedders=embedders,
        indexes=indexes,
        pipeline=pipeline,
        updater=updater,
        settings=settings.search,
        info=running.info(stop.set, sources, followed),
        dependencies=dependencies,
        is_owner=lambda: lock is None or lock.is_held,
    )
    if running.store.postgres is None:
        publisher = Publisher(db, indexes.lookup, engine.index_sync.wait_seconds)
        running.tasks.start_soon(supervise, "publications", publisher.run)
    return StartedEngine(engine, indexes)


def _make_indexer_spec(running: RunningParts, owner: str) -> IndexerSpec:
    settings = running.settings
    return IndexerSpec(
        dsn=running.store.dsn,
        state_dir=str(running.environment.state),
        database=settings.database,
        embedder=settings.embedder,
        indexing=settings.indexing,
        api_key=running.environment.api_key,
        owner=owner,
    )


def _start_index_tasks(
    tasks: TaskGroup,
    indexes: IndexRegistry,
    dependencies: Dependencies,
    sources: DeclaredSources,
) -> None:
    """Start the supervised tasks that serve all indexes."""
    tasks.start_soon(supervise, "settings", indexes.watch_settings)
    tasks.start_soon(supervise, "mappings", indexes.mapped_files.watch)
    tasks.start_soon(supervise, "memory", indexes.removals.tidy)
    for part in (dependencies.store, dependencies.embedder):
        tasks.start_soon(supervise, f"health of the {part.name}", part.watch)
    tasks.start_soon(supervise, "sources", sources.run)


def _make_tls_context(server: ServerSettings, environment: DaemonEnvironment) -> SSLContext | None:
    """Return the TLS context of the TCP listener, if it needs one.

    If a service manager provides the socket, the address of that socket decides. Raises `BadSettings`:
    no restart changes the outcome.
    """
    inherited = environment.sockets.get("mcp")
    if inherited is None and not server.enabled:
        return None
    host = server.host if inherited is None else inherited.getsockname()[0]
    try:
        return tls.context(tls.Exposure(host, server.remote, server.tls_cert, server.tls_key))
    except Failure as failure:
        raise BadSettings(failure.message, failure.hint) from None


def secrets_in(settings: Settings, environment: DaemonEnvironment) -> tuple[str, ...]:
    """Return secrets that no log record may show."""
    addresses = find_secrets(*(get_value(settings, key) for key in ADDRESSES))
    return tuple(
        secret
        for secret in (environment.api_key, environment.database_password, *addresses)
        if secret
    )


def _announce_ready(running: RunningParts) -> None:
    log.info("ready", extra={"socket": str(running.environment.rpc), **running.bound.urls()})
    for warning in running.bound.warnings:
        log.warning(warning)
    running.environment.notifier.ready("answering")


def version() -> str:
    """Return the version of the installed distribution."""
    return importlib.metadata.version("cocosearchd")


@asynccontextmanager
async def _open_store(
    settings: Settings, environment: DaemonEnvironment
) -> AsyncIterator[StoreConnection]:
    """Open a pool to PostgreSQL. Without a URL, start an embedded server, and stop it at the end."""
    if settings.database.url:
        async with Database.open(settings.database.url, settings.database) as db:
            yield StoreConnection(db, settings.database.url, None)
        return
    address.forget("PG")  # PGHOSTADDR and PGSERVICE of another server win over the DSN
    # quoted, as PostgreSQL reads no fraction or space with a unit otherwise
    lines = {"shared_buffers": f"'{settings.database.shared_buffers}'"}
    postgres = EmbeddedPostgres(environment.state / "postgres", lines, environment.postgres_bin)
    dsn = await anyio.to_thread.run_sync(postgres.ensure)
    try:
        async with Database.open(dsn, settings.database) as db:
            yield StoreConnection(db, dsn, postgres)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(postgres.stop)


async def _keep_store(postgres: EmbeddedPostgres) -> None:
    """Restart the server whenever it has ended; copy its log to ours, and cut its log file."""
    server_log = ServerLog(postgres.log)
    while True:
        await _follow_server(postgres, server_log)
        if not postgres.reachable():
            log.error("postgres_gone")
            await anyio.to_thread.run_sync(postgres.ensure)
            log.info("postgres_back")


async def _free_used_wal(postgres: EmbeddedPostgres) -> None:
    """Free the used write-ahead log of bulk work, soon after the work has ended."""
    used_wal = UsedWal(postgres.data, postgres.superuser_dsn)
    while True:
        await anyio.sleep(seconds_to_tick(USED_WAL_POLL_S))
        # a stopped server may never answer
        freed = await anyio.to_thread.run_sync(used_wal.free, abandon_on_cancel=True)
        if freed:
            log.info("used_wal_freed", extra={"bytes": freed})


async def _follow_server(postgres: EmbeddedPostgres, server_log: ServerLog) -> None:
    """Copy the log of the server until the server may have ended, or lacks its socket."""
    handle = postgres.handle()
    try:
        may_have_ended = False
        while not may_have_ended and postgres.has_socket():
            may_have_ended = await _wait_for_end(handle)
            for level, text in server_log.unread():
                log.log(level, "postgres_said", extra={"text": text})
            if server_log.is_too_long():
                await anyio.to_thread.run_sync(server_log.trim)
    finally:
        if handle is not None:
            os.close(handle)


async def _wait_for_end(handle: int | None) -> bool:
    """Wait until a server has ended, or until it is time to read its log.

    Return True if it may have ended, as always without a handle.
    """
    if handle is None:
        await anyio.sleep(seconds_to_tick(SERVER_POLL_S))
        return True
    with anyio.move_on_after(seconds_to_tick(REST_TICK_S)):
        await anyio.wait_readable(handle)
        return True
    return False


async def _try_embedder(embedder: LazyEmbedder) -> None:
    try:
        await embedder.open()
    except EmbedderUnavailable as error:
        log.warning("embedder_unavailable", extra={"error": error.message, "hint": error.hint})


async def _await_embedder(embedder: LazyEmbedder, indexes: IndexRegistry) -> None:
    """Retry until the embedder answers, then sleep: the supervisor treats a return as a failure."""
    while embedder.error is not None:
        await anyio.sleep(EMBEDDER_RETRY_S)
        try:
            await _try_embedder(embedder)
        except BadSettings as error:  # would end a starting daemon, but not one that answers
            log.error("embedder_refused", extra={"error": error.message, "hint": error.hint})
    log.info("embedder_available", extra={"embedder": str(embedder.fingerprint)})
    await indexes.recheck()
    await anyio.sleep_forever()


async def _watchdog(notifier: Notifier, every_s: float, embedded_db: Database | None) -> None:
    """Notify the service manager while the event loop runs and the embedded server answers.

    A frozen server makes the manager end and restart both. A server that has ended is no reason for
    that: the daemon goes on without it, but could not start without it.
    """
    while True:
        if embedded_db is not None:
            with suppress(StoreUnavailable):
                await embedded_db.ping()
        if embedded_db is None or not embedded_db.unresponsive:
            notifier.alive()
        await anyio.sleep(every_s)


async def _handle_signals(
    stop: anyio.Event, running: RunningParts, start: "asyncio.Future[StartedEngine]"
) -> None:
    """Stop at SIGTERM or SIGINT, at once at a second one; read the settings again at SIGHUP."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            if number == signal.SIGHUP:
                # a separate task: a reload may wait for a model server, and must not delay a stop
                if start.done():
                    running.tasks.start_soon(_reload, running, start.result())
            elif stop.is_set():
                log.warning("forced_exit")
                os._exit(128 + number)
            else:
                log.info("stopping", extra={"signal": signal.Signals(number).name})
                stop.set()


async def _reload(running: RunningParts, started: StartedEngine) -> None:
    """Apply changed settings of logs, queries and indexes; log the settings that need a restart."""
    running.environment.notifier.reloading()

    async def follow() -> None:
        await _apply_settings(running, running.environment.reload(), started)

    error = await attempt("reload", follow, (BadSettings,))  # the old settings stay
    if isinstance(error, BadSettings):
        log.error("reload_refused", extra={"error": error.message, "hint": error.hint})
    running.environment.notifier.ready("answering")


async def _apply_settings(
    running: RunningParts, loaded: LoadedSettings, started: StartedEngine
) -> None:
    settings = loaded.settings
    secrets = (
        *secrets_in(settings, running.environment),
        *secrets_in(running.settings, running.environment),
    )
    logs.configure(
        settings.log.level, settings.log.format, running.environment.log, secrets=secrets
    )
    await started.indexes.configure(loaded)  # first: it may refuse them
    started.engine.configure(settings.search)
    differ = [
        key
        for key in setting_keys()
        if get_value(settings, key) != get_value(running.settings, key)
    ]
    later = [key for key in differ if needs_restart(key)]
    log.info("reloaded", extra={"changed": differ, "needs_restart": later})
