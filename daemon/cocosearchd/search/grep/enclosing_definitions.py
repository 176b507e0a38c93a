"""Finds the names of the definitions that enclose lines of indexed files.

For each file, the store has the ranges of all definitions, but not their names. For each chunk, it
has the names of the definitions that begin there, but not their ranges. Therefore the first line of
the innermost enclosing definition determines the chunk, and the first of the chunk's names on that
line is the name.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cocosearchd.languages.definition_ranges import innermost_starts
from cocosearchd.model import IndexRecord, Symbol
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.file_states import ChunkSymbols, symbols_at_lines

Line = tuple[str, int]  # path, line from 1
_SIGNATURE_LINES = 5  # lines that are searched for the name: decorators come before it
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class EnclosingDefinition:
    """The kind and the qualified name of a definition."""

    kind: str
    name: str


async def enclosing_definitions(
    db: Database, record: IndexRecord, ranges: Mapping[str, bytes], lines: Sequence[Line]
) -> dict[Line, EnclosingDefinition]:
    """Find the innermost definition around each line, if it has one.

    `ranges` maps each file to the packed ranges of its definitions. Raises `StoreUnavailable`.
    """
    starts = await asyncio.to_thread(_find_starts, ranges, lines)
    chunks = await symbols_at_lines(db, record, sorted(set(starts.values())))
    names = {start: _name_at(start[1], chunk) for start, chunk in chunks.items()}
    return {
        line: definition
        for line, start in starts.items()
        if (definition := names.get(start)) is not None
    }


def _find_starts(ranges: Mapping[str, bytes], lines: Iterable[Line]) -> dict[Line, Line]:
    """Map lines to the first lines of their innermost definitions."""
    numbers = defaultdict[str, list[int]](list)
    for path, number in lines:
        numbers[path].append(number)
    return {
        (path, number): (path, start)
        for path, lines_of_file in numbers.items()
        for number, start in innermost_starts(ranges.get(path, b""), lines_of_file).items()
    }


def enclosing_definition(symbols: Iterable[Symbol], line: int) -> EnclosingDefinition | None:
    """Find the innermost symbol around a line; None without one. For unsaved text."""
    around = [symbol for symbol in symbols if symbol.start_line <= line <= symbol.end_line]
    if not around:
        return None
    innermost = min(around, key=lambda symbol: symbol.end_line - symbol.start_line)
    return EnclosingDefinition(innermost.kind, innermost.qualified_name)


def _name_at(line: int, chunk: ChunkSymbols) -> EnclosingDefinition | None:
    """Choose the symbol of a chunk whose name occurs first on the lines of a definition."""
    if len(chunk.symbols) == 1:
        return EnclosingDefinition(*chunk.symbols[0])
    by_word = {
        _last_word(name): EnclosingDefinition(kind, name) for kind, name in chunk.symbols[::-1]
    }
    rows = chunk.text.split("\n")[line - chunk.first_line :][:_SIGNATURE_LINES]
    words = (word for row in rows for word in _WORD.findall(row))
    return next((by_word[word] for word in words if word in by_word), None)


def _last_word(name: str) -> str:
    words: list[str] = _WORD.findall(name)
    return words[-1] if words else name
