"""Lists the files of indexes, page by page."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.model import IndexRecord, SkipReason
from cocosearchd.search.listing.cursors import read_cursor
from cocosearchd.search.request_limits import (
    MAX_LISTED_FILES,
    check_budget,
    check_filters,
    check_range,
)
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database


@dataclass(frozen=True, slots=True)
class ListingEntry:
    """A file of an index. `skipped` is the reason why its text is not searched."""

    index: str
    path: str
    language: str
    chunks: int
    skipped: SkipReason | None = None


@dataclass(frozen=True, slots=True)
class FilePage:
    """A page of files, ordered by index and path. `total` counts all matching files.

    `cursor` continues the list; it is None at the end.
    """

    files: tuple[ListingEntry, ...]
    total: int
    cursor: str | None = None


async def list_files(
    db: Database,
    indexes: Sequence[IndexRecord],
    *,
    under: str = "",
    pattern: str | None = None,
    skipped: bool = False,
    limit: int = 100,
    cursor: str | None = None,
    budget_tokens: int | None = None,
) -> FilePage:
    """List files below the directory `under` that match the glob `pattern`.

    Both are relative to the root. `skipped` adds files that are not searched. A page begins after
    the page that returned `cursor`, even if files were added or removed since. Its lines have about
    `budget_tokens` tokens. Raises `InvalidInput`.
    """
    check_budget(budget_tokens)
    check_range("limit", limit, 1, MAX_LISTED_FILES)
    patterns = () if pattern is None else (pattern,)
    check_filters(patterns)
    after = _read_cursor(cursor)
    entries = list[ListingEntry]()
    total = 0
    for record in sorted(indexes, key=lambda index: index.name):
        files, count = await index_records.file_page(
            db,
            record,
            Filter(paths=patterns),
            under=under.removeprefix("./").strip("/"),
            skipped=skipped,
            after=after.path if record.name == after.index else "",
            # one more than a page, to see whether another page follows
            limit=limit + 1 - len(entries) if record.name >= after.index else 0,
        )
        entries += (
            ListingEntry(record.name, file.path, file.language, file.chunk_count, file.skip_reason)
            for file in files
        )
        total += count
    page = _fit_entries(entries[:limit], budget_tokens)
    more = len(entries) > len(page)
    return FilePage(page, total, json.dumps([page[-1].index, page[-1].path]) if more else None)


def _fit_entries(entries: Sequence[ListingEntry], budget: int | None) -> tuple[ListingEntry, ...]:
    """Return the first entries that fit into a token budget, at least one entry."""
    if budget is None:
        return tuple(entries)
    fitting = list[ListingEntry]()
    for entry in entries:
        budget -= estimate_tokens(f"{entry.path}  {entry.language}\n")
        if fitting and budget < 0:
            break
        fitting.append(entry)
    return tuple(fitting)


@dataclass(frozen=True, slots=True)
class _Position:
    """The index and the path of the last file of a page; empty before the first page."""

    index: str = ""
    path: str = ""


def _read_cursor(cursor: str | None) -> _Position:
    """Parse a cursor. It is JSON, because names of indexes and files may have any separator."""
    if cursor is None:
        return _Position()
    index, path = read_cursor(cursor, ((str,), (str,)))
    return _Position(index, path)
