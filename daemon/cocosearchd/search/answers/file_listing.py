"""Lists the files of indexes, page by page."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cocosearchd.errors import InvalidInput
from cocosearchd.filters.filter_values import language_ids
from cocosearchd.filters.globs import path_matcher
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.model import FileRecord, IndexRecord, SkipReason
from cocosearchd.search.query_bounds import check_budget, check_filters
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database

MAX_FILES = 1000


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of an index. `skipped` is the reason why its text is not searched."""

    index: str
    path: str
    language: str
    chunks: int
    skipped: SkipReason | None = None


@dataclass(frozen=True, slots=True)
class FilePage:
    """A page of files by index and path. `total` counts all that match.

    `cursor` continues the list; None at its end.
    """

    files: tuple[FileEntry, ...]
    total: int
    cursor: str | None = None


async def list_files(
    db: Database,
    indexes: Sequence[IndexRecord],
    *,
    under: str = "",
    pattern: str | None = None,
    languages: Sequence[str] = (),
    skipped: bool = False,
    limit: int = 100,
    offset: int = 0,
    cursor: str | None = None,
    budget_tokens: int | None = None,
) -> FilePage:
    """List files below the directory `under` that match the glob `pattern`.

    Both are relative to the root. `languages` are names or aliases; `skipped` adds files that are
    not searched. A page begins at `offset`, or after the page that returned `cursor`, even if files
    came or went since; its lines have about `budget_tokens` tokens. Raises `InvalidInput`.
    """
    check_budget(budget_tokens)
    if not 1 <= limit <= MAX_FILES or offset < 0:
        raise InvalidInput(
            f"limit is {limit}, offset {offset}",
            f"use a limit of 1 to {MAX_FILES}, an offset from 0",
        )
    passes = _make_file_filter(pattern, languages, skipped=skipped)
    entries = [
        FileEntry(record.name, row.path, row.language, row.chunk_count, row.skip_reason)
        for record in sorted(indexes, key=lambda index: index.name)
        for row in await index_records.file_records(db, record, under.removeprefix("./").strip("/"))
        if passes(row)
    ]
    after = _read_cursor(cursor)
    remaining = [
        entry for entry in entries[offset:] if after is None or (entry.index, entry.path) > after
    ]
    page = _fit_entries(remaining[:limit], budget_tokens)
    return FilePage(
        page,
        len(entries),
        json.dumps([page[-1].index, page[-1].path]) if len(remaining) > len(page) else None,
    )


def _fit_entries(entries: Sequence[FileEntry], budget: int | None) -> tuple[FileEntry, ...]:
    """Return the first entries that fit into a budget of tokens, at least one of them."""
    if budget is None:
        return tuple(entries)
    fitting = list[FileEntry]()
    for entry in entries:
        budget -= estimate_tokens(f"{entry.path}  {entry.language}\n")
        if fitting and budget < 0:
            break
        fitting.append(entry)
    return tuple(fitting)


def _make_file_filter(
    pattern: str | None, languages: Sequence[str], *, skipped: bool
) -> Callable[[FileRecord], bool]:
    """Make the filter of a listing. Raises `InvalidInput`."""
    check_filters((pattern or "", *languages))
    matches = path_matcher((pattern or "**",))
    ids = frozenset(language_ids(languages))

    def passes(row: FileRecord) -> bool:
        if row.skip_reason is not None and not skipped:
            return False
        if ids and row.language not in ids:
            return False
        return pattern is None or bool(matches(row.path))

    return passes


def _read_cursor(cursor: str | None) -> tuple[str, str] | None:
    """Parse a cursor. It is JSON, because names of indexes and files may have any separator."""
    if cursor is None:
        return None
    try:
        index, path = json.loads(cursor)
    except (ValueError, TypeError):
        index = path = None
    if not isinstance(index, str) or not isinstance(path, str):
        raise InvalidInput(
            f"{cursor!r} is not a cursor", "use the cursor of the previous page, unchanged"
        )
    return index, path
