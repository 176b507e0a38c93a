"""Selects the files that a grep reads: files that pass its filter and can contain its literals.

The lexical index knows the files and their languages. While it is cold or behind, PostgreSQL lists
the files, and literals do not narrow them.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from cocosearchd.filters.filter_fields import Filter, make_filter, make_relative
from cocosearchd.model import IndexRecord
from cocosearchd.search.code.file_masks import file_mask, passing_files
from cocosearchd.search.grep.bloom_cache import BloomCache
from cocosearchd.search.grep.required_literals import NOTHING, Alternatives
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.request_limits import check_filters
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.file_states import files_without_chunks

_PATH = attrgetter("path")
# Wait for the commit hook of a generation that is already stored; the hook takes 2 to 10 ms.
WAIT_S = 0.25


@dataclass(frozen=True, slots=True)
class GrepFilter:
    """The filter that chooses the files of an index for a grep.

    `under` is a file or directory; "" is the root. The grep begins at the path `first`. A file can
    match only if it has the `literals`. Files of `changed` paths are read whatever their Bloom
    filters say.
    """

    where: Filter
    under: str = ""
    first: str = ""
    literals: Alternatives = NOTHING
    changed: frozenset[str] = frozenset()

    def relative_to(self, root: bytes) -> "GrepFilter":
        """Return the filter with absolute paths made relative to a root."""
        return replace(self, where=make_relative(self.where, root))


def make_grep_filter(under: str, **filters: Sequence[str]) -> GrepFilter:
    """Make the filter of a request. `filters` are values as written. Raises `InvalidInput`."""
    check_filters([value for values in filters.values() for value in values])
    return GrepFilter(make_filter(filters), under)


class SelectedFile(NamedTuple):
    """A file to read. `has_bloom` is False if the grep should make its Bloom filter.

    `text` is searched in place of the disk: unsaved text, or the stored text of a followed index.
    A tuple, because a grep makes thousands.
    """

    path: str
    language: str
    has_bloom: bool = True
    text: bytes | None = None
    is_unsaved: bool = False


@dataclass(frozen=True, slots=True)
class FileSelection:
    """The files to read, ordered by path.

    `total` counts all files that pass the filter, read or not.
    """

    files: tuple[SelectedFile, ...]
    total: int


async def select_files(
    db: Database,
    record: IndexRecord,
    lexical: LexicalIndex,
    blooms: BloomCache,
    grep_filter: GrepFilter,
    overlay: Overlay | None,
) -> FileSelection:
    """Select the files of an index to read. Raises `StoreUnavailable`."""
    snapshot = None
    if await lexical.wait_for_generation(record.generation, WAIT_S):
        snapshot = await lexical.snapshot()
    # Excluded files are not in the snapshot, but the store lists them, so that a grep lacks none.
    if snapshot is None or lexical.missing_paths:
        saved = await _list_stored(db, record, grep_filter)
    else:
        saved = await asyncio.to_thread(_select_live, snapshot, blooms, grep_filter)
        if _can_match_blanks(grep_filter.literals) or not saved.total:
            blank = await files_without_chunks(db, record)
            rest = _passing(grep_filter, (SelectedFile(path, language) for path, language in blank))
            saved = FileSelection((*saved.files, *rest), saved.total + len(rest))
    return await asyncio.to_thread(_replace_unsaved, saved, grep_filter, overlay)


def _can_match_blanks(literals: Alternatives) -> bool:
    """Return True if a text of blanks alone can have the literals of one alternative."""
    return any(all(map(str.isspace, alternative)) for alternative in literals)


def is_under(path: str, directory: str) -> bool:
    """Return True for the path itself and for all paths below it; "" is the root."""
    return not directory or path == directory or path.startswith(f"{directory}/")


async def _list_stored(db: Database, record: IndexRecord, grep_filter: GrepFilter) -> FileSelection:
    records = await index_records.file_records(db, record, grep_filter.under)
    files = _passing(
        grep_filter,
        (SelectedFile(row.path, row.language) for row in records if row.skip_reason is None),
    )
    return FileSelection(files, len(files))


def _select_live(
    snapshot: IndexSnapshot, blooms: BloomCache, grep_filter: GrepFilter
) -> FileSelection:
    live = snapshot.live_documents
    blooms.retain(live.paths)
    table = blooms.table(snapshot)
    allowed = file_mask(grep_filter.where, live)
    selected = np.ones(len(live.paths), np.bool_) if allowed is None else allowed.copy()
    if grep_filter.under:
        selected &= np.fromiter(
            (is_under(path, grep_filter.under) for path in live.paths), np.bool_, len(live.paths)
        )
    total = int(np.count_nonzero(selected))
    if grep_filter.literals != NOTHING:
        possible = table.possible_files(grep_filter.literals)
        if grep_filter.changed:
            possible |= np.fromiter(
                (path in grep_filter.changed for path in live.paths), np.bool_, len(live.paths)
            )
        selected &= possible
    numbers = np.flatnonzero(selected)
    files = [
        SelectedFile(live.paths[number], live.languages[number], has_bloom)
        for number, has_bloom in zip(
            numbers.tolist(), table.has_bloom[numbers].tolist(), strict=True
        )
        if live.paths[number] >= grep_filter.first
    ]
    return FileSelection(tuple(files), total)


def _replace_unsaved(
    saved: FileSelection, grep_filter: GrepFilter, overlay: Overlay | None
) -> FileSelection:
    """Replace saved files by their unsaved versions, and sort all files by path."""
    hidden = overlay.files.keys() if overlay else frozenset[str]()
    files = [file for file in saved.files if not hidden or file.path not in hidden]
    files += _unsaved_files(grep_filter, overlay)
    files.sort(key=_PATH)
    return FileSelection(tuple(files), max(saved.total, len(files)))


def _unsaved_files(grep_filter: GrepFilter, overlay: Overlay | None) -> tuple[SelectedFile, ...]:
    if overlay is None:
        return ()
    return _passing(
        grep_filter,
        (
            SelectedFile(file.path, file.language, text=file.text.data, is_unsaved=True)
            for file in overlay.files.values()
        ),
    )


def _passing(grep_filter: GrepFilter, files: Iterable[SelectedFile]) -> tuple[SelectedFile, ...]:
    listed = [
        file
        for file in files
        if file.path >= grep_filter.first and is_under(file.path, grep_filter.under)
    ]
    passing = passing_files(
        grep_filter.where, [file.path for file in listed], [file.language for file in listed]
    )
    return tuple(file for file, passes in zip(listed, passing.tolist(), strict=True) if passes)
