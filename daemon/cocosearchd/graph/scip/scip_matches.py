"""Matches the occurrences of a SCIP index with the uses in our index, to learn their meanings.

Pure. Only files count that have not changed since the SCIP index was made. An occurrence counts if
our index has a use at exactly that position. A definition counts if our index has a symbol with its
name there.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from cocosearchd.errors import InvalidInput
from cocosearchd.graph.code_files import CodeFile, CodeFiles, PreciseTarget
from cocosearchd.graph.scip.scip_reader import (
    DEFINITION,
    UTF8,
    UTF32,
    ScipDocument,
    ScipOccurrence,
)
from cocosearchd.graph.scip.scip_symbols import (
    is_constructor,
    is_local,
    is_variable,
    normal_name,
)

# Limits of one SCIP index: some 250 and 16 bytes of memory each, until all of it is read.
MAX_DEFINITIONS = 500_000
MAX_USES = 8_000_000
MAX_TARGETS = 8  # definitions of one symbol
MAX_NAME = 1000  # characters of a name that is compared
_MAX_NESTED = 64  # symbols with one name before a line that are looked at
_SPLIT = "Make an index of a part of the project, and import one part after the other."

# Returns the text of a file; None if it is not as the SCIP index saw it.
ReadText = Callable[[CodeFile], str | None]
Position = tuple[int, int]  # line and column, from 1


class PreciseFile(NamedTuple):
    """The meanings of uses in a file, valid while its content has this hash."""

    path: str
    content_hash: bytes
    uses: Mapping[Position, tuple[PreciseTarget, ...]]


class _MatchedUses(NamedTuple):
    """Uses of a file by their positions in its facts, with the hash of the symbol of each."""

    path: str
    uses: "array[int]"
    symbols: "array[int]"


class ScipMatcher:
    """Matches documents one by one; when all are added, `finish` yields the files."""

    def __init__(self, files: CodeFiles, read_text: ReadText) -> None:
        self._files = files
        self._read_text = read_text
        self.directory = ""  # of the documents, relative to the root of the index
        self._definitions = dict[int, tuple[PreciseTarget, ...]]()
        self._matches = list[_MatchedUses]()
        self._use_count = 0
        self.skipped = Counter[str]()  # documents by reason: "not_indexed", "changed"

    def add(self, document: ScipDocument) -> None:
        """Match a document. Raises `InvalidInput` at a limit."""
        path = f"{self.directory}/{document.path}" if self.directory else document.path
        file = self._files.load([path]).get(path)
        text = None if file is None else self._read_text(file)
        if file is None or text is None or document.text not in ("", text):
            self.skipped["not_indexed" if file is None else "changed"] += 1
            return
        occurrences = list(_in_characters(document, text))
        self._match_uses(file, occurrences)
        self._match_definitions(file, occurrences, text.split("\n"))

    def finish(self) -> Iterator[PreciseFile]:
        """Yield the files that have uses with known meanings."""
        for match in self._matches:
            file = self._files.load([match.path]).get(match.path)
            if file is not None:
                aliases = {item.local for item in file.facts.imports if item.local != item.name}
                uses = dict(self._meanings(file, match, aliases))
                yield PreciseFile(file.path, file.content_hash, uses)

    def _meanings(
        self, file: CodeFile, match: _MatchedUses, aliases: set[str]
    ) -> Iterator[tuple[Position, tuple[PreciseTarget, ...]]]:
        """Yield the uses whose symbol is defined, unless its name is another one.

        Some indexers name the first definition of a module in place of an imported one.
        """
        for number, symbol in zip(match.uses, match.symbols, strict=True):
            targets = self._definitions.get(symbol)
            use = file.facts.uses[number]
            if targets is not None and (
                use.name in aliases
                or all(target.name.rpartition(".")[2] == use.name for target in targets)
            ):
                yield (use.line, use.column), targets

    def _match_uses(self, file: CodeFile, occurrences: Sequence[ScipOccurrence]) -> None:
        places = {(use.line, use.column): number for number, use in enumerate(file.facts.uses)}
        match = _MatchedUses(file.path, array("I"), array("Q"))
        for item in occurrences:
            number = places.get((item.line, item.column))
            if number is None or item.roles & DEFINITION:
                continue
            if item.end_column - item.column == len(file.facts.uses[number].name):
                match.uses.append(number)
                match.symbols.append(_hash(file.path, item.symbol))
        self._use_count += len(match.uses)
        if self._use_count > MAX_USES:
            raise InvalidInput(f"The SCIP index has more than {MAX_USES:,} uses.", _SPLIT)
        self._matches.append(match)

    def _match_definitions(
        self, file: CodeFile, occurrences: Sequence[ScipOccurrence], lines: Sequence[str]
    ) -> None:
        used_symbols = set(self._matches[-1].symbols)
        symbols_by_name = _positions_by_name(file)
        taken_positions = set[int]()
        definitions = (item for item in occurrences if item.roles & DEFINITION)
        # a parameter may have the name of its function, which is there too
        for item in sorted(definitions, key=_definition_order):
            name_hash = _hash(file.path, item.symbol)
            is_unused = is_local(item.symbol) and name_hash not in used_symbols
            if is_constructor(item.symbol) or is_unused:
                continue
            positions = symbols_by_name.get(_text_of(item, lines), ())
            position = _innermost(file, positions, item.line)
            if position is not None and position not in taken_positions:
                taken_positions.add(position)
                self._add_definition(name_hash, _target(file, position))
            elif is_variable(item.symbol):
                self._definitions.setdefault(name_hash, ())
        if len(self._definitions) > MAX_DEFINITIONS:
            raise InvalidInput(
                f"The SCIP index has more than {MAX_DEFINITIONS:,} definitions.", _SPLIT
            )

    def _add_definition(self, symbol: int, target: PreciseTarget) -> None:
        earlier = self._definitions.get(symbol, ())
        if len(earlier) < MAX_TARGETS:
            self._definitions[symbol] = (*earlier, target)


def _hash(path: str, symbol: str) -> int:
    """Return 64 bits of the name of a symbol: Python salts them, so nobody can choose equal ones."""
    return hash(normal_name(path, symbol)) & 0xFFFF_FFFF_FFFF_FFFF


def _positions_by_name(file: CodeFile) -> Mapping[str, Sequence[int]]:
    positions = defaultdict[str, list[int]](list)
    for position, symbol in enumerate(file.symbols):
        positions[symbol.name].append(position)
    return positions


def _definition_order(item: ScipOccurrence) -> tuple[bool, int, int]:
    is_inner = is_local(item.symbol) or item.symbol.endswith(")")
    return is_inner, item.line, item.column


def _innermost(file: CodeFile, positions: Sequence[int], line: int) -> int | None:
    """Return the last of the symbols around a line; they are in the order of the file."""
    end = bisect_right(positions, line, key=lambda i: file.symbols[i].start_line)
    for position in reversed(positions[max(0, end - _MAX_NESTED) : end]):
        if line <= file.symbols[position].end_line:
            return position
    return None


def _target(file: CodeFile, position: int) -> PreciseTarget:
    symbol = file.symbols[position]
    return PreciseTarget(file.path, file.content_hash, symbol.qualified_name, symbol.start_line)


def _text_of(item: ScipOccurrence, lines: Sequence[str]) -> str:
    if item.line > len(lines) or item.end_column - item.column > MAX_NAME:
        return ""
    return lines[item.line - 1][item.column - 1 : item.end_column - 1]


def _in_characters(document: ScipDocument, text: str) -> Iterator[ScipOccurrence]:
    """Yield the occurrences of a document with columns in characters."""
    if text.isascii() or document.encoding == UTF32:
        yield from document.occurrences
        return
    lines = text.split("\n")
    ends: dict[int, array[int]] = {}  # of the characters of a line, in units of the encoding
    for item in document.occurrences:
        if item.line > len(lines) or lines[item.line - 1].isascii():
            yield item
            continue
        if item.line not in ends:
            ends[item.line] = _character_ends(lines[item.line - 1], document.encoding)
        first = bisect_left(ends[item.line], item.column)
        last = bisect_left(ends[item.line], item.end_column)
        yield item._replace(column=first + 1, end_column=last + 1)


def _character_ends(line: str, encoding: int) -> "array[int]":
    """Return the offset behind each character of a line; without an encoding in UTF-16 units."""
    if encoding == UTF8:
        sizes = [len(character.encode("utf-8", "surrogatepass")) for character in line]
    else:
        sizes = [2 if character > "\uffff" else 1 for character in line]
    return array("I", accumulate(sizes))
