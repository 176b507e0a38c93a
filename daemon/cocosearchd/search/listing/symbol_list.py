"""Lists symbols page by page: each symbol that passes a filter, once, with its own lines.

The files with matching symbols come from memory (`code`) or from PostgreSQL. The symbols of a file
always come from PostgreSQL or the overlay. Therefore both profiles give the same list.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cocosearchd.filters.conditions import SymbolCondition
from cocosearchd.filters.filter_fields import Filter, chunk_conditions
from cocosearchd.languages import symbol_table
from cocosearchd.languages.patterns.path_roles import is_test
from cocosearchd.model import Hit, IndexRecord, Symbol
from cocosearchd.search.listing.cursors import shift_notes
from cocosearchd.search.listing.list_cursor import ListCursor, ListPosition, decode_cursor
from cocosearchd.search.overlay import Overlay, OverlayFile
from cocosearchd.search.plan import Plan, Query
from cocosearchd.search.scored_candidates import ScoredCandidate, listed_candidate
from cocosearchd.store.chunks.rows import Candidate
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.file_symbols import (
    FileSymbols,
    SymbolFile,
    file_symbols,
    symbol_files,
)

# Listed files with a matching name: files with the name as written have priority.
MAX_MATCHING_FILES = 20_000
# Files of a list by path whose symbols are not known, or are cut from a very large table: without
# spare files, a page of such files would end the list. Most pages do not read them.
SPARE_FILES = 1_000
# Files that are read together: some kilobytes of symbols each, at most two megabytes
BATCH_FILES = 50


@dataclass(frozen=True, slots=True)
class SymbolPage:
    """A page of a list: at most `limit` symbols that pass a filter, after the position `after`."""

    where: Filter
    after: ListPosition | None
    limit: int

    @property
    def is_ranked(self) -> bool:
        """True if the order is by relevance to a name, False if it is by path."""
        return bool(self.where.symbol_name)

    @property
    def first_path(self) -> str:
        """The path of the first file that may have symbols of the page."""
        return "" if self.is_ranked or self.after is None else self.after.path

    @property
    def max_files(self) -> int:
        """The largest number of files that the page needs, in the order of the list.

        In a list by path, these are the file of the position, one file per symbol, and some files
        that turn out to have no symbol of the page.
        """
        return MAX_MATCHING_FILES if self.is_ranked else self.limit + 1 + SPARE_FILES

    @property
    def symbols(self) -> SymbolCondition:
        """The condition on single symbols."""
        return chunk_conditions(self.where)[0]


@dataclass(frozen=True, slots=True)
class SymbolList:
    """Symbols in the order of the list.

    `complete` is False if a file has changed or is gone since the files were listed. `unknown`
    counts the files with unknown symbols.
    """

    candidates: tuple[Candidate, ...] = ()
    complete: bool = True
    unknown: int = 0

    @property
    def scored(self) -> list[ScoredCandidate]:
        """The symbols as candidates of a ranking."""
        return [listed_candidate(row, rank) for rank, row in enumerate(self.candidates, 1)]

    @property
    def warning(self) -> str | None:
        """A warning for people about files with unknown symbols."""
        if not self.unknown:
            return None
        return (
            f"the symbols of {self.unknown:,} files are missing: an earlier version stored no lines "
            "of symbols, and these files are being read again"
        )


def symbol_page(plan: Plan, index: str) -> SymbolPage | None:
    """Return the page that a plan needs from an index; None if earlier pages have all its symbols.

    The page has one symbol more than is shown, to see whether another page follows.
    """
    cursor = plan.cursor
    if cursor is not None and index < cursor.index:
        return None
    is_begun = cursor is not None and cursor.index == index
    return SymbolPage(
        plan.where, cursor.position if cursor is not None and is_begun else None, plan.limit + 1
    )


def next_cursor(query: Query, hits: Sequence[Hit], generations: Mapping[str, int]) -> str | None:
    """Return the cursor that continues a list of symbols after its last hit.

    `generations` has the generation of each index that was listed.
    """
    if query.words or not hits:
        return None
    last = hits[-1]
    return ListCursor(last.index, _position_of(last, query.where), generations[last.index]).encode()


def page_notes(query: Query, generations: Mapping[str, int]) -> tuple[str, ...]:
    """Return a note if symbols of the cursor's index may have moved since the earlier page."""
    if query.words or query.ranking.cursor is None:
        return ()
    cursor = decode_cursor(query.ranking.cursor)
    generation = generations.get(cursor.index)
    return () if generation is None else shift_notes(cursor.generation, generation)


def _position_of(hit: Hit, where: Filter) -> ListPosition:
    page = SymbolPage(where, None, 0)
    kind = hit.symbol_type or ""
    name = hit.symbol_name or ""
    return ListPosition(
        is_other=not page.symbols.written_matcher()(kind, name),
        is_in_test=page.is_ranked and is_test(hit.path),
        path=hit.path,
        start_byte=hit.start_byte,
        name=name,
    )


async def list_stored_symbols(
    db: Database, record: IndexRecord, plan: Plan, overlay: Overlay | None
) -> SymbolList:
    """List the symbols of a plan with PostgreSQL alone. Raises `StoreUnavailable`."""
    page = symbol_page(plan, record.name)
    if page is None:
        return SymbolList()
    stored = page.where if overlay is None else overlay.exclude_overlaid(page.where)
    files = await symbol_files(db, record, stored, page.first_path, page.max_files)
    unsaved = () if overlay is None else overlay.symbol_files(page.where)
    return await read_symbols(db, record, page, (*files, *unsaved), overlay)


async def read_symbols(
    db: Database,
    record: IndexRecord,
    page: SymbolPage,
    files: Sequence[SymbolFile],
    overlay: Overlay | None = None,
    generation: int | None = None,
) -> SymbolList:
    """Read the symbols of a page. `files` are the first `max_files` files with symbols of the page.

    `generation` is the generation at which the files were listed, if known. Raises
    `StoreUnavailable`.
    """
    unsaved = overlay.files if overlay is not None else {}
    groups = await asyncio.to_thread(_order_groups, page, files)
    candidates = list[Candidate]()
    complete = True
    unknown = set[str]()
    for start in range(0, len(groups), BATCH_FILES):
        batch = groups[start : start + BATCH_FILES]
        paths = list(dict.fromkeys(group.path for group in batch if group.path not in unsaved))
        stored = await file_symbols(db, record, paths)
        complete = complete and _is_complete(paths, stored, generation)
        remaining = page.limit - len(candidates)
        listed = await asyncio.to_thread(_list_groups, page, batch, stored, unsaved, remaining)
        candidates += listed.candidates
        unknown |= listed.unknown
        if len(candidates) >= page.limit:
            break
    return SymbolList(tuple(candidates), complete, len(unknown))


class _SymbolGroup(NamedTuple):
    """A part of the symbols of a file: those with the name as written, or the others."""

    is_other: bool
    is_in_test: bool
    path: str


@dataclass(frozen=True, slots=True)
class _ListedGroups:
    """The symbols of some groups, and the paths of files with unknown symbols."""

    candidates: tuple[Candidate, ...]
    unknown: frozenset[str]


def _order_groups(page: SymbolPage, files: Sequence[SymbolFile]) -> list[_SymbolGroup]:
    """Return the groups in order, without those on earlier pages."""
    ordered = sorted(files, key=lambda file: (not file.has_written, file.path))
    groups = sorted(
        _SymbolGroup(is_other, page.is_ranked and is_test(file.path), file.path)
        for file in (ordered[: page.max_files] if page.is_ranked else files)
        for is_other, has_symbols in ((False, file.has_written), (True, file.has_other))
        if has_symbols
    )
    return [group for group in groups if page.after is None or group >= page.after[:3]]


def _is_complete(
    paths: Sequence[str], stored: Mapping[str, FileSymbols], generation: int | None
) -> bool:
    return all(
        path in stored and (generation is None or stored[path].generation <= generation)
        for path in paths
    )


def _list_groups(
    page: SymbolPage,
    groups: Sequence[_SymbolGroup],
    stored: Mapping[str, FileSymbols],
    unsaved: Mapping[str, OverlayFile],
    limit: int,
) -> _ListedGroups:
    """List at most `limit` symbols of groups.

    Files are unpacked one at a time, and only until the limit is reached: a file may have 20,000
    symbols.
    """
    candidates = list[Candidate]()
    unknown = set[str]()
    for group in groups:
        path = group.path
        if len(candidates) >= limit:
            break
        if path in unsaved:
            symbols: Sequence[Symbol] | None = unsaved[path].symbols
            language = unsaved[path].language
        elif path in stored:
            packed = stored[path].symbols
            symbols = None if packed is None else symbol_table.unpack(packed)
            language = stored[path].language
        else:
            continue
        if symbols is None:
            unknown.add(path)
            continue
        matching = _matching_symbols(page, group, symbols)
        candidates += (_make_candidate(path, language, symbol) for symbol in matching)
    return _ListedGroups(tuple(candidates[:limit]), frozenset(unknown))


def _matching_symbols(
    page: SymbolPage, group: _SymbolGroup, symbols: Sequence[Symbol]
) -> list[Symbol]:
    """Return, in order, the symbols of a group that pass the filter and come after the position."""
    matches = page.symbols.matcher()
    is_written = page.symbols.written_matcher()
    rows = [
        (ListPosition(*group, symbol.start_byte, symbol.qualified_name), symbol)
        for symbol in symbols
        if matches(symbol.kind, symbol.qualified_name)
        and is_written(symbol.kind, symbol.qualified_name) is not group.is_other
    ]
    rows.sort(key=lambda row: row[0])
    return [symbol for position, symbol in rows if page.after is None or position > page.after]


def _make_candidate(path: str, language: str, symbol: Symbol) -> Candidate:
    """Make a candidate from a symbol. The signature is its text."""
    return Candidate(
        path=path,
        start_byte=symbol.start_byte,
        end_byte=symbol.end_byte,
        start_line=symbol.start_line,
        end_line=symbol.end_line,
        language=language,
        block_type=symbol.kind,
        hierarchy=symbol.qualified_name,
        symbol_type=symbol.kind,
        symbol_name=symbol.qualified_name,
        symbol_signature=symbol.signature,
        content=symbol.signature,
        definitions=(symbol.name,),
        header="",
        score=0.0,
        symbol_parent=symbol.parent,
    )
