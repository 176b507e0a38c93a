"""Resolves references to files: as results name them, as absolute paths, or relative to `cwd`."""

import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cocosearchd.errors import InvalidInput, NotFound
from cocosearchd.forms.path_forms import path_bytes, path_from_client, path_text
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.indexes.running_index import RunningIndex

Result = TypeVar("Result")
Indexes = tuple[RunningIndex, ...]


async def resolve_file(
    indexes: IndexLookup, path: str, name: str | None
) -> tuple[RunningIndex, str] | None:
    """Return the index of an absolute path (or the index `name`), and the path inside of it.

    Links in its directory are followed. The last part is not followed, and may be missing.
    """
    parent, base = os.path.split(_normalise_path(path))
    parent = await indexes.resolve_links(parent)
    index = indexes.containing(parent) if name is None else indexes.get(name)
    if index is None or not base:
        return None
    root = index.record.root.rstrip(b"/") + b"/"
    resolved = parent.rstrip(b"/") + b"/" + base
    return (index, path_text(resolved[len(root) :])) if resolved.startswith(root) else None


async def resolve_directory(
    indexes: IndexLookup, path: str, name: str | None, cwd: str | None
) -> tuple[RunningIndex, str] | None:
    """Return the index of a directory and the path inside of it, "" for the root.

    The directory is absolute or relative to `cwd`; None if it is in no index.
    """
    if not path.startswith("/") and cwd is None:
        return None
    absolute = path if path.startswith("/") else f"{cwd}/{path}"
    resolved = await indexes.resolve_links(_normalise_path(absolute))
    index = indexes.containing(resolved) if name is None else indexes.get(name)
    if index is None:
        return None
    root = index.record.root.rstrip(b"/") + b"/"
    if not (resolved + b"/").startswith(root):
        return None
    return index, path_text(resolved[len(root) :])


def _normalise_path(path: str) -> bytes:
    """Return an absolute path without `.` and `..`, with one slash at its front.

    A path relative to the `cwd` `/` begins with two slashes.
    """
    return b"/" + os.path.normpath(os.fsencode(path)).lstrip(b"/")


async def unsaved_file(
    indexes: IndexLookup, path: str, name: str | None, cwd: str | None
) -> tuple[RunningIndex, str]:
    """Return the index and path of an editor's text. `path` is absolute, or as results name it.

    Raises `NotFound` and `InvalidInput`.
    """
    if path.startswith("/"):
        reference = await resolve_file(indexes, path, name)
        if reference is None:
            raise NotFound(
                f"{path} is in no index" if name is None else f"{path} is not in index {name}", ""
            )
        return reference
    index = await indexes.select(name, cwd)
    relative = path.removeprefix("./")
    if not relative or ".." in relative.split("/"):
        raise InvalidInput(
            f"{path!r} is not the path of a file in a root", "give it as results have it"
        )
    return index, path_from_client(relative)


async def first_result(
    indexes: IndexLookup,
    path: str,
    name: str | None,
    cwd: str | None,
    topic: str | None,
    read: Callable[[Indexes, str], Awaitable[Result]],
) -> Result:
    """Return the result of `read` for the first candidate that exists.

    Candidates are the path as results name it, then the path from `cwd`.

    Without a named index and an index around `cwd`, all indexes are searched. Raises the first
    `NotFound` if no index has the file.
    """
    missing: NotFound | None = None
    for candidates, relative in await _candidates(indexes, path, name, cwd, topic):
        try:
            return await read(candidates, relative)
        except NotFound as error:
            missing = missing or error
    raise missing or NotFound(f"{path} is in no index", "`cocosearchctl list` shows the roots")


async def _candidates(
    indexes: IndexLookup, path: str, name: str | None, cwd: str | None, topic: str | None
) -> list[tuple[Indexes, str]]:
    candidates: list[tuple[Indexes, str]] = []
    if not path.startswith("/"):
        relative = path_from_client(path.removeprefix("./"))
        candidates.append((await _select_indexes(indexes, name, cwd, topic), relative))
    if path.startswith("/") or cwd is not None:
        reference = await resolve_file(
            indexes, path if path.startswith("/") else f"{cwd}/{path}", name
        )
        if reference is not None:
            candidates.append(((reference[0],), reference[1]))
    return candidates


async def _select_indexes(
    indexes: IndexLookup, name: str | None, cwd: str | None, topic: str | None
) -> Indexes:
    if topic is not None:
        return indexes.intersect((() if name is None else (name,),), ((topic,),))
    running = indexes.own()
    if name is None and len(running) > 1 and (cwd is None or await indexes.around(cwd) is None):
        return running
    return (await indexes.select(name, cwd),)


async def missing_path(
    indexes: IndexLookup, index: RunningIndex, path: str, cwd: str | None
) -> str:
    """Return the path in `index` of a file that a user does not find among the results.

    A file that exists as results name it comes first, then a file relative to `cwd`.
    """
    relative = path_from_client(path)
    is_absolute = path.startswith("/")
    if index.record.is_followed:
        return relative
    if not is_absolute and (
        cwd is None or await _exists(index, index.record.root + b"/" + path_bytes(relative))
    ):
        return relative
    absolute = path if is_absolute else f"{cwd}/{path}"
    reference = await resolve_file(indexes, absolute, index.record.name)
    if reference is not None and (is_absolute or await _exists(index, os.fsencode(absolute))):
        return reference[1]
    return relative


async def _exists(index: RunningIndex, path: bytes) -> bool:
    return await index.own_root.threads.run(os.path.lexists, path)
