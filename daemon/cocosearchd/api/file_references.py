"""Files as people, editors and assistants name them: as results do, by absolute path, or as seen
from a directory.
"""

import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cocosearchd.errors import InvalidInput, NotFound
from cocosearchd.indexes.config_sync import RunningIndex
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.model import decode_path, encode_path, named_path

Found = TypeVar("Found")
Among = tuple[RunningIndex, ...]


async def at(
    indexes: IndexLookup, path: str, name: str | None = None
) -> tuple[RunningIndex, str] | None:
    """The index (the one of this name, if there is one) and the path in it of an absolute path.

    Its directory may be reached through links; its last part is what it is, and may be missing.
    """
    directory, base = _split(path)
    place = await indexes.resolved(directory)
    found = indexes.at(place) if name is None else indexes.get(name)
    if found is None or not base:
        return None
    root, raw = found.record.root.rstrip(b"/") + b"/", place.rstrip(b"/") + b"/" + base
    return (found, encode_path(raw[len(root) :])) if raw.startswith(root) else None


async def directory(
    indexes: IndexLookup, path: str, name: str | None, cwd: str | None
) -> tuple[RunningIndex, str] | None:
    """The index and the path in it ("" is its root) of a directory: absolute, or as seen from
    `cwd`.
    """
    if not path.startswith("/") and cwd is None:
        return None
    place = await indexes.resolved(_normal(path if path.startswith("/") else f"{cwd}/{path}"))
    found = indexes.at(place) if name is None else indexes.get(name)
    root = b"" if found is None else found.record.root.rstrip(b"/") + b"/"
    if found is None or not (place + b"/").startswith(root):
        return None
    return found, encode_path(place[len(root) :])


def _split(path: str) -> tuple[bytes, bytes]:
    return os.path.split(_normal(path))


def _normal(path: str) -> bytes:
    """An absolute path without `.` and `..`; two slashes at its front, as below a `cwd` of `/`, are
    one.
    """
    return b"/" + os.path.normpath(os.fsencode(path)).lstrip(b"/")


async def unsaved(
    indexes: IndexLookup, path: str, name: str | None, cwd: str | None
) -> tuple[RunningIndex, str]:
    """Where an editor's text belongs: absolute, or as results name it. Raises `NotFound`,
    `InvalidInput`.
    """
    if path.startswith("/"):
        placed = await at(indexes, path, name)
        if placed is None:
            raise NotFound(
                f"{path} is in no index" if name is None else f"{path} is not in index {name}", ""
            )
        return placed
    index, inside = await indexes.one(name, cwd), path.removeprefix("./")
    if not inside or ".." in inside.split("/"):
        raise InvalidInput(
            f"{path!r} is not the path of a file in a root", "give it as results have it"
        )
    return index, named_path(inside)


async def first(
    indexes: IndexLookup,
    path: str,
    name: str | None,
    cwd: str | None,
    topic: str | None,
    look: Callable[[Among, str], Awaitable[Found]],
) -> Found:
    """What `look` finds at the first of the places that a path may mean: as results name it, then
    from `cwd`.

    With no index named or around `cwd`, it may be in any. Raises the first `NotFound` if it is at
    none of them.
    """
    missing: NotFound | None = None
    for among, inside in await _meant(indexes, path, name, cwd, topic):
        try:
            return await look(among, inside)
        except NotFound as error:
            missing = missing or error
    raise missing or NotFound(f"{path} is in no index", "`cocosearchctl list` shows the roots")


async def _meant(
    indexes: IndexLookup, path: str, name: str | None, cwd: str | None, topic: str | None
) -> list[tuple[Among, str]]:
    found = list[tuple[Among, str]]()
    if not path.startswith("/"):
        found.append((await _among(indexes, name, cwd, topic), named_path(path.removeprefix("./"))))
    if path.startswith("/") or cwd is not None:
        placed = await at(indexes, path if path.startswith("/") else f"{cwd}/{path}", name)
        found += [((placed[0],), placed[1])] if placed is not None else []
    return found


async def _among(
    indexes: IndexLookup, name: str | None, cwd: str | None, topic: str | None
) -> Among:
    if name is None and topic is not None:
        return indexes.of_topics((topic,))
    every = indexes.all()
    if name is None and len(every) > 1 and (cwd is None or await indexes.around(cwd) is None):
        return every
    return (await indexes.one(name, cwd),)


async def explained(indexes: IndexLookup, index: RunningIndex, path: str, cwd: str | None) -> str:
    """The path in `index` of a file that somebody misses among results.

    What is there as results name it is meant, else what is there as seen from `cwd`.
    """
    absolute = path.startswith("/")
    named = named_path(path)
    if not absolute and (
        cwd is None or await _there(index, index.record.root + b"/" + decode_path(named))
    ):
        return named
    raw = path if absolute else f"{cwd}/{path}"
    placed = await at(indexes, raw, index.record.name)
    return (
        placed[1]
        if placed is not None and (absolute or await _there(index, os.fsencode(raw)))
        else named
    )


async def _there(index: RunningIndex, path: bytes) -> bool:
    return await index.root.threads.run(os.path.lexists, path)
