"""Extracts code facts from the matches of a query: imports, uses and types of variables.

The queries are references/<language>.scm; `references.reference_query` explains their captures. All
work is linear in the number of matches, which the size of a file bounds.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter

from cocosearchd.languages.code_facts import (
    NO_COLUMNS,
    Binding,
    BindingColumns,
    FactColumns,
    ImportColumns,
)
from cocosearchd.languages.references import reference_query
from cocosearchd.languages.references.chain_text import MAX_TEXT, TextCache
from cocosearchd.languages.references.code_matches import CodeMatches
from cocosearchd.languages.references.enclosing_symbols import EnclosingSymbols
from cocosearchd.languages.references.fact_collector import (
    BindingRange,
    FactCollector,
    ImportRange,
    Range,
)
from cocosearchd.languages.references.import_trees import last_part, split_import_tree
from cocosearchd.languages.references.text_positions import TextPositions
from cocosearchd.languages.references.use_extraction import make_uses
from cocosearchd.languages.references.variable_scopes import DeclaringScopes, VariableScope
from cocosearchd.model import Symbol

# A file with more is generated: only its first ones are extracted.
MAX_IMPORTS = 10_000
MAX_BINDINGS = 20_000

# Position in bytes; module, name and local name; True if it is exported.
_ImportAt = tuple[int, tuple[str, str, str], bool]
_NO_NAME: Range = (0, 0)


def extract_facts(matches: CodeMatches, data: bytes, symbols: Sequence[Symbol]) -> FactColumns:
    """Make the facts of a file with these symbols of the matches of its query."""
    if not matches.constants:  # most languages have no query
        return NO_COLUMNS
    collector = FactCollector(matches.references, matches.constants)
    positions, texts = TextPositions(data), TextCache(data)
    imports = _make_imports(collector, data, positions, texts)
    uses = make_uses(collector, data, positions, symbols)
    bindings = _make_bindings(collector, texts, positions, symbols)
    return FactColumns(_read_package(collector, texts), imports, uses, bindings)


def _read_package(collector: FactCollector, texts: TextCache) -> str:
    package = min(collector.ranges("package"), default=None)
    return texts.clean(*package).strip("\"'") if package else ""


def _make_imports(
    collector: FactCollector, data: bytes, positions: TextPositions, texts: TextCache
) -> ImportColumns:
    items = [*_read_imports(collector, texts), *_split_trees(collector, data)]
    items = sorted(items, key=itemgetter(0))[:MAX_IMPORTS]
    return ImportColumns(
        *zip(
            *((*path, positions.find_line(start), exported) for start, path, exported in items),
            strict=True,
        )
    )


def _read_imports(collector: FactCollector, texts: TextCache) -> Iterator[_ImportAt]:
    for item in collector.imports()[:MAX_IMPORTS]:
        module, name, local = _import_texts(item, texts)
        if local == reference_query.LAST_PART:
            local = last_part(module)
        yield item.start, (module, name, local), item.is_exported


def _split_trees(collector: FactCollector, data: bytes) -> Iterator[_ImportAt]:
    """Yield the names of trees of imports."""
    for (start, end), is_exported in sorted(collector.import_trees.items()):
        text = data[start:end].decode("utf-8", "replace")
        is_ascii = len(text) == end - start
        for path in islice(split_import_tree(text), MAX_IMPORTS):
            texts = (path.module, path.name, path.local)
            if all(len(part) <= MAX_TEXT for part in texts):
                yield start + (path.offset if is_ascii else 0), texts, is_exported


def _import_texts(item: ImportRange, texts: TextCache) -> Iterable[str]:
    """Return module, name and local name as text, without quotes."""
    for part in (item.module, item.name, item.local):
        text = part if isinstance(part, str) else texts.clean(*part) if part else ""
        yield text.strip("\"'`<>")


def _make_bindings(
    collector: FactCollector, texts: TextCache, positions: TextPositions, symbols: Sequence[Symbol]
) -> BindingColumns:
    """Make the bindings of a file, after its uses: those declare the variables of its scopes."""
    items = [(item.name[0] or text[0], item, text) for item, text in collector.bindings.items()]
    items += [(text[0], BindingRange("return", "", _NO_NAME), text) for text in collector.results]
    items.sort(key=itemgetter(0))
    maker = _BindingMaker(collector, texts, positions, symbols)
    return BindingColumns(*zip(*(maker.make(*item) for item in items[:MAX_BINDINGS]), strict=True))


class _BindingMaker:
    """Makes the bindings of one file, in the order of the text."""

    def __init__(
        self,
        collector: FactCollector,
        texts: TextCache,
        positions: TextPositions,
        symbols: Sequence[Symbol],
    ) -> None:
        self._texts = texts
        self._positions = positions
        self._symbols = symbols
        self._enclosing = EnclosingSymbols(symbols)
        self._scopes = DeclaringScopes(collector.scopes.values())
        self._lines: dict[VariableScope, tuple[int, int]] = {}

    def make(self, start: int, item: BindingRange, text_range: Range) -> Binding:
        """Make the binding of a variable to a text."""
        name = item.prefix + self._texts.clean(*item.name)
        owner = self._find_owner(start, name)
        # `x: "Client"` is a type that is written as a string.
        text = self._texts.clean(*text_range).strip("\"'")
        owner_start = self._symbols[owner].start_byte if owner >= 0 else -1
        scope = self._scopes.find_inner(start, name, owner_start)
        lines = (0, 0) if scope is None else self._find_lines(scope)
        return Binding(item.kind, name, text, owner, *lines)

    def _find_owner(self, start: int, name: str) -> int:
        enclosing, symbols = self._enclosing, self._symbols
        owner = enclosing.owner(enclosing.innermost(start))
        if owner >= 0 and symbols[owner].kind == "type" and symbols[owner].name == name:
            return enclosing.outer_owner(owner)  # an alias is no variable of itself
        return owner

    def _find_lines(self, scope: VariableScope) -> tuple[int, int]:
        if scope not in self._lines:
            find_line = self._positions.find_line
            self._lines[scope] = find_line(scope.start), find_line(scope.end - 1)
        return self._lines[scope]
