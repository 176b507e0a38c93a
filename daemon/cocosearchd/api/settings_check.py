"""Checks settings without starting the daemon, and probes its database and its embedder."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import anyio

from cocosearch_ipc import address
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.render.finding import Finding
from cocosearch_ipc.trust import tls
from cocosearchd.config.index_settings import project_settings
from cocosearchd.config.settings import LoadedSettings, ServerSettings
from cocosearchd.embedding.factory import api_key, open_embedder
from cocosearchd.errors import BadSettings
from cocosearchd.indexing.symbol_queries import read_overrides
from cocosearchd.search.code.code_profile import load_weights
from cocosearchd.store.connection.database import Database
from cocosearchd.store.server.binaries import find_install

PROBE_DEADLINE_S = 20.0


async def check_settings(
    read: Callable[[], LoadedSettings], env: Mapping[str, str], project: str
) -> AsyncIterator[Finding]:
    """Yield findings in the order of the daemon's start; unreadable settings end the check."""
    try:
        loaded = await anyio.to_thread.run_sync(read)
    except BadSettings as error:
        yield Finding("settings", "fail", error.message, error.hint)
        return
    for finding in _files(loaded, env, project):
        yield finding
    if loaded.settings.server.enabled:
        yield await _probe("listener", _listener(loaded.settings.server))
    if loaded.settings.search.weights_file:
        yield await _probe("weights", _weights(loaded.settings.search.weights_file))
    yield await _probe("database", _database(loaded, env))
    yield await _probe("embedder", _embedder(loaded, env))


def _files(loaded: LoadedSettings, env: Mapping[str, str], project: str) -> Iterator[Finding]:
    file = Path(address.config_file(env))
    paths = [str(path) for path in (file, file.with_name(".env")) if path.exists()]
    yield Finding("settings", "ok", ", ".join(paths) or f"defaults; {file} is not there")
    settings = project_settings(loaded, project)
    yield from _part("project", settings.warnings, settings.project.file, settings.error)
    overrides = read_overrides(loaded.settings.indexing.queries_dir)
    languages = ", ".join(language for language, _ in overrides.queries)
    yield from _part("queries", overrides.warnings, languages)


def _part(part: str, warnings: Sequence[str], detail: str, error: str = "") -> Iterator[Finding]:
    """Yield findings about one part: its warnings, else `detail`; the warning `error` is a failure."""
    for warning in warnings:
        yield Finding(part, "fail" if warning == error else "warn", warning)
    if detail and not warnings:
        yield Finding(part, "ok", detail)


async def _probe(part: str, answer: Awaitable[str]) -> Finding:
    try:
        with anyio.fail_after(PROBE_DEADLINE_S):
            return Finding(part, "ok", await answer)
    except Failure as error:
        return Finding(part, "fail", error.message, error.hint)
    except TimeoutError:
        return Finding(
            part, "fail", f"it does not answer within {PROBE_DEADLINE_S:g} s", "see that it runs"
        )


async def _listener(server: ServerSettings) -> str:
    """Return the address of the TCP listener. Raises `Failure` if its settings reveal the token."""
    exposure = tls.Exposure(server.host, server.remote, server.tls_cert, server.tls_key)
    context = await anyio.to_thread.run_sync(tls.context, exposure)
    return f"port {server.port} of {server.host}{'' if context is None else ', with TLS'}"


async def _weights(file: str) -> str:
    """Return the file of weights. Raises `BadSettings` if it has none."""
    await anyio.to_thread.run_sync(load_weights, file)
    return file


async def _database(loaded: LoadedSettings, env: Mapping[str, str]) -> str:
    settings = loaded.settings.database
    if not settings.url:
        install = await anyio.to_thread.run_sync(find_install, env.get("COCOSEARCH_PG_BIN", ""))
        return f"embedded, PostgreSQL {install.version} in {install.bin}"
    async with Database.open(settings.url, settings) as db:
        return f"PostgreSQL {db.server_version}, pgvector {db.pgvector_version}"


async def _embedder(loaded: LoadedSettings, env: Mapping[str, str]) -> str:
    settings = loaded.settings.embedder
    embedder = await open_embedder(settings, api_key(settings, env))
    try:
        return str(embedder.fingerprint)
    finally:
        await embedder.aclose()
