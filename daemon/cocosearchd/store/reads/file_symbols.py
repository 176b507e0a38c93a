"""Reads for lists of symbols: the files with matching symbols, and the symbols of files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.filter_sql import symbol_sql, written_sql
from cocosearchd.store.reads.text_scan import resolve_filter


@dataclass(frozen=True, slots=True)
class SymbolFile:
    """A file with symbols that pass a filter.

    `has_written`: a symbol has exactly the name in the filter; `has_other`: a symbol has another
    name. Without a name in the filter, `has_written` counts all symbols.
    """

    path: str
    has_written: bool
    has_other: bool


@dataclass(frozen=True, slots=True)
class FileSymbols:
    """The symbols of a file, packed by `languages.symbol_table`; None: not known yet.

    `generation` is that of the file's last change.
    """

    generation: int
    language: str
    symbols: bytes | None


async def symbol_files(
    db: Database, record: IndexRecord, where: Filter, first_path: str, limit: int
) -> tuple[SymbolFile, ...]:
    """List files with symbols that pass a filter, from `first_path` on.

    Files with exactly the filter's name come first; the second order is by path.
    """
    matches, match_values = symbol_sql(where)
    written, written_values = written_sql(where)
    page = {"first_path": first_path, "limit": limit}
    async with db.connection() as connection:
        condition, values = await resolve_filter(connection, record, where)
        query = statement("symbol_files", record, filter=condition, symbol=matches, written=written)
        values = values | match_values | written_values | page
        rows = await (await connection.execute(query, values)).fetchall()
    return tuple(SymbolFile(*row) for row in rows)


async def file_symbols(
    db: Database, record: IndexRecord, paths: Sequence[str]
) -> Mapping[str, FileSymbols]:
    """Read the symbols of files by path; files that are not stored are left out."""
    async with db.connection() as connection:
        cursor = connection.cursor(binary=True)
        await cursor.execute(statement("file_symbols", record), {"filenames": list(paths)})
        return {path: FileSymbols(*values) for path, *values in await cursor.fetchall()}
