"""Browsing an index: which files it has, and what one of them says.

Content comes from disk only while it is what was indexed; otherwise it is put together from the stored chunks and
marked so. Thus nothing outside of a root is ever given out, whatever links point there.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import anyio

from cocosearchd.errors import InvalidInput, NotFound
from cocosearchd.model import IndexRecord
from cocosearchd.search.disk import Disk
from cocosearchd.store import queries, records
from cocosearchd.store.file_states import file_states
from cocosearchd.store.globs import path_regex
from cocosearchd.store.pool import Database

MAX_FILES = 1000
# Between two chunks that are not neighbours, in content that is put together.
GAP = "…"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of an index."""

    index: str
    path: str
    language: str
    chunks: int


@dataclass(frozen=True, slots=True)
class FilePage:
    """Files by index and path. `cursor` continues the list; None at its end."""

    files: tuple[FileEntry, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class FileContent:
    """Lines `first_line` to `last_line` of a file, inclusive, from 1; `lines` is how many there are.

    `source` is `disk` when the file is as it was indexed; `index` when it has changed, gone or cannot be read since:
    then this is what the index knows, with a line `…` where it knows nothing.
    """

    index: str
    path: str
    language: str
    content: str
    first_line: int
    last_line: int
    lines: int
    source: Literal["disk", "index"]


async def list_files(
    db: Database,
    indexes: Sequence[IndexRecord],
    *,
    prefix: str = "",
    glob: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> FilePage:
    """Files with something to search, below the directory `prefix` and matching `glob`, both relative to the root.

    `cursor` is that of the page before. Raises `InvalidInput`.
    """
    if not 1 <= limit <= MAX_FILES:
        raise InvalidInput(f"limit is {limit}", f"use 1 to {MAX_FILES}")
    pattern = re.compile(path_regex(glob)) if glob else None
    after = _read_cursor(cursor)
    found: list[FileEntry] = []
    for record in sorted(indexes, key=lambda each: each.name):
        if after is not None and record.name < after[0]:
            continue
        rows = await records.file_records(db, record, prefix.removeprefix("./").strip("/"))
        found += (
            FileEntry(record.name, row.path, row.language, row.chunk_count)
            for row in rows
            if row.skip_reason is None
            and (after is None or (record.name, row.path) > after)
            and (pattern is None or pattern.search(row.path))
        )
        if len(found) > limit:
            break
    page = tuple(found[:limit])
    return FilePage(page, json.dumps([page[-1].index, page[-1].path]) if len(found) > limit else None)


async def get_file(
    db: Database,
    indexes: Sequence[IndexRecord],
    path: str,
    disk: Disk,
    *,
    first_line: int = 1,
    last_line: int | None = None,
) -> FileContent:
    """A file of one of the indexes. Raises `NotFound`, and `InvalidInput` when several have that path."""
    path = path.removeprefix("./")
    if first_line < 1 or (last_line is not None and last_line < first_line):
        raise InvalidInput(
            f"lines {first_line} to {last_line} are no range", "lines count from 1; the last one is included"
        )
    holding = [(record, found) for record in indexes if (found := await _lookup(db, record, path)) is not None]
    if not holding:
        names = ", ".join(record.name for record in indexes) or "any"
        raise NotFound(f"index {names} has no file {path}", "`cocosearchctl files` lists what is indexed")
    if len(holding) > 1:
        names = ", ".join(record.name for record, _ in holding)
        raise InvalidInput(f"{path} is in several indexes: {names}", "name one of them")
    record, content_hash = holding[0]
    text = await anyio.to_thread.run_sync(disk.verified, record.root, path, content_hash)
    stored = [file async for file in queries.file_chunks(db, record, [path])]
    language = stored[0].language if stored else ""
    if text is not None:
        lines, total = text.lines(first_line, last_line or text.line_count), text.line_count
        source: Literal["disk", "index"] = "disk"
    else:
        whole = _assembled(stored[0].chunks if stored else ())
        lines, total, source = whole[first_line - 1 : last_line], len(whole), "index"
    shown_last = first_line + len(lines) - 1
    return FileContent(record.name, path, language, "\n".join(lines), first_line, shown_last, total, source)


async def _lookup(db: Database, record: IndexRecord, path: str) -> bytes | None:
    state = (await file_states(db, record, [path])).files.get(path)
    return None if state is None else state.content_hash


def _assembled(chunks: Sequence[queries.StoredChunk]) -> list[str]:
    """The lines of a file as its chunks have them, each at its own place; overlaps are taken once."""
    lines: dict[int, str] = {}
    for chunk in chunks:
        lines |= dict(enumerate(chunk.content.removesuffix("\n").split("\n"), chunk.start_line))
    return [lines.get(number, GAP) for number in range(1, max(lines, default=0) + 1)]


def _read_cursor(cursor: str | None) -> tuple[str, str] | None:
    """A cursor is JSON, because names of indexes and files may hold any separator."""
    if cursor is None:
        return None
    try:
        index, path = json.loads(cursor)
    except (ValueError, TypeError):
        index = path = None
    if not isinstance(index, str) or not isinstance(path, str):
        raise InvalidInput(f"{cursor!r} is not a cursor", "pass on the one of the page before, unchanged")
    return index, path
