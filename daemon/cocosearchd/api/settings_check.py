"""Looks at settings without becoming a daemon: what would hold, and whether database and embedder
can be used.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import anyio

from cocosearch_ipc import address
from cocosearch_ipc.protocol import Failure
from cocosearch_ipc.render.finding import Finding
from cocosearchd.config.index_settings import IndexSettings, read_index_settings
from cocosearchd.config.settings import LoadedSettings
from cocosearchd.embedding.factory import api_key, open_embedder
from cocosearchd.errors import BadSettings
from cocosearchd.indexing.symbol_queries import read_overrides
from cocosearchd.store.connection.database import Database
from cocosearchd.store.server.binaries import find_install

WAIT_S = 20.0


def project_settings(loaded: LoadedSettings, project: str) -> IndexSettings:
    """The settings of a directory, or of the nearest one above it that has files of settings of its
    own. Blocking.
    """
    place = Path(project).resolve()  # as a root is registered
    for directory in (place, *place.parents):
        found = read_index_settings(os.fsencode(directory), loaded)
        if found.project.file or found.error:
            return found
    return IndexSettings(loaded)


async def check_settings(
    read: Callable[[], LoadedSettings], env: Mapping[str, str], project: str
) -> AsyncIterator[Finding]:
    """Everything, in the order in which a daemon would meet it; nothing more once the settings
    cannot be read.
    """
    try:
        loaded = await anyio.to_thread.run_sync(read)
    except BadSettings as error:
        yield Finding("settings", "fail", error.message, error.hint)
        return
    for found in _files(loaded, env, project):
        yield found
    yield await _asked("database", _database(loaded, env))
    yield await _asked("embedder", _embedder(loaded, env))


def _files(loaded: LoadedSettings, env: Mapping[str, str], project: str) -> Iterator[Finding]:
    file = Path(address.config_file(env))
    there = [str(one) for one in (file, file.with_name(".env")) if one.exists()]
    yield Finding("settings", "ok", ", ".join(there) or f"defaults; {file} is not there")
    found = project_settings(loaded, project)
    for said in found.warnings:
        yield Finding("project", "fail" if said == found.error else "warn", said)
    if found.project.file and not found.warnings:
        yield Finding("project", "ok", found.project.file)
    overrides = read_overrides(loaded.settings.indexing.queries_dir)
    for said in overrides.warnings:
        yield Finding("queries", "warn", said)
    if overrides.queries and not overrides.warnings:
        yield Finding("queries", "ok", ", ".join(language for language, _ in overrides.queries))


async def _asked(what: str, answer: Awaitable[str]) -> Finding:
    try:
        with anyio.fail_after(WAIT_S):
            return Finding(what, "ok", await answer)
    except Failure as error:
        return Finding(what, "fail", error.message, error.hint)
    except TimeoutError:
        return Finding(what, "fail", f"it does not answer within {WAIT_S:g} s", "see that it runs")


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
