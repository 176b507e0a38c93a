"""Extracts code facts from the matches of a query: imports, uses and types of variables.

The queries are references/<language>.scm; `references.reference_query` explains their captures. All
work is linear in the number of matches, which the size of a file bounds.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import add, itemgetter
from typing import Any

from cocosearchd.languages.code_facts import (
    NO_COLUMNS,
    BindingColumns,
    FactColumns,
    ImportColumns,
)
from cocosearchd.languages.references import reference_query
from cocosearchd.languages.references.chain_text import MAX_TEXT, RangeTexts
from cocosearchd.languages.references.enclosing_symbols import EnclosingSymbols
from cocosearchd.languages.references.fact_collector import (
    BindingRange,
    FactCollector,
    Range,
)
from cocosearchd.languages.references.import_trees import last_part, split_import_tree
from cocosearchd.languages.references.text_positions import TextPositions
from cocosearchd.languages.references.use_extraction import make_uses
from cocosearchd.languages.references.variable_scopes import DeclaringScopes, VariableScope
from cocosearchd.model import Symbol

# A file with more imports or bindings is generated: only the first ones are extracted.
MAX_IMPORTS = 10_000
MAX_BINDINGS = 20_000

# (position in bytes, (module, name, local name), is exported)
_ImportAt = tuple[int, tuple[str, str, str], bool]
_NO_PATHS: tuple[tuple[str, ...], ...] = ((), (), ())
_NO_BINDINGS: tuple[tuple[Any, ...], ...] = ((), (), ())
_NO_LINES = (0, 0)  # of a binding that is valid in its whole symbol
_POSITION = itemgetter(0)
_RESULT: BindingRange = ("return", "", (0, 0))  # a declared result has no name


def extract_facts(collector: FactCollector, data: bytes, symbols: Sequence[Symbol]) -> FactColumns:
    """Make the facts of a file from the captures of its query and its symbols."""
    if collector.is_empty():  # most languages have no query
        return NO_COLUMNS
    positions, texts = TextPositions(data), RangeTexts(data)
    imports = _make_imports(collector, data, positions, texts)
    enclosing = EnclosingSymbols(symbols)
    uses = make_uses(collector, data, texts, positions, enclosing)
    bindings = _make_bindings(collector, texts, positions, enclosing)
    return FactColumns(_read_package(collector, texts), imports, uses, bindings)


def _read_package(collector: FactCollector, texts: RangeTexts) -> str:
    package = min(collector.ranges("package"), default=None)
    return texts.clean(*package).strip("\"'") if package else ""


def _make_imports(
    collector: FactCollector, data: bytes, positions: TextPositions, texts: RangeTexts
) -> ImportColumns:
    items = _read_imports(collector, texts)
    if collector.import_trees:
        items += _split_trees(collector, data)
    items.sort(key=_POSITION)
    del items[MAX_IMPORTS:]
    modules, names, local_names = (
        zip(*(path for _, path, _ in items), strict=True) if items else _NO_PATHS
    )
    lines = [positions.find_line(start) for start, _, _ in items]
    return ImportColumns(modules, names, local_names, lines, [flag for _, _, flag in items])


def _read_imports(collector: FactCollector, texts: RangeTexts) -> list[_ImportAt]:
    items: list[_ImportAt] = []
    for start, module_part, name_part, local_part, is_exported in collector.imports[:MAX_IMPORTS]:
        module = _import_text(module_part, texts)
        local = _import_text(local_part, texts)
        if local == reference_query.LAST_PART:
            local = last_part(module)
        items.append((start, (module, _import_text(name_part, texts), local), is_exported))
    return items


def _import_text(part: str | Range | None, texts: RangeTexts) -> str:
    """Return the text of a module or a name, without quotes."""
    if not part:
        return ""
    return (part if isinstance(part, str) else texts.clean(*part)).strip("\"'`<>")


def _split_trees(collector: FactCollector, data: bytes) -> Iterator[_ImportAt]:
    """Yield the imported names of import trees."""
    for (start, end), is_exported in sorted(collector.import_trees.items()):
        text = data[start:end].decode("utf-8", "replace")
        is_ascii = len(text) == end - start
        for path in islice(split_import_tree(text), MAX_IMPORTS):
            texts = (path.module, path.name, path.local)
            if all(len(part) <= MAX_TEXT for part in texts):
                yield start + (path.offset if is_ascii else 0), texts, is_exported


def _make_bindings(
    collector: FactCollector,
    texts: RangeTexts,
    positions: TextPositions,
    enclosing: EnclosingSymbols,
) -> BindingColumns:
    """Make the bindings of a file.

    Call it after `make_uses`, which declares the variables of scopes.
    """
    items = [(key[2][0] or text[0], key, text) for key, text in collector.bindings.items()]
    items += [(text[0], _RESULT, text) for text in collector.results]
    items.sort(key=_POSITION)
    del items[MAX_BINDINGS:]
    starts, keys, ranges = zip(*items, strict=True) if items else _NO_BINDINGS
    kinds, prefixes, name_ranges = zip(*keys, strict=True) if items else _NO_BINDINGS
    names = list(map(add, prefixes, texts.clean_all(name_ranges)))
    owners = enclosing.owners_of_all(starts, names)
    scopes = DeclaringScopes(collector.ordered_scopes)
    places = zip(starts, names, map(enclosing.start, owners), strict=True)
    lines = list(_find_valid_lines(scopes, places, positions))
    return BindingColumns(
        kinds,
        names,
        # `x: "Client"` is a type that is written as a string
        [text.strip("\"'") for text in texts.clean_all(ranges)],
        owners,
        [first for first, _ in lines],
        [last for _, last in lines],
    )


def _find_valid_lines(
    scopes: DeclaringScopes, places: Iterable[tuple[int, str, int]], positions: TextPositions
) -> Iterator[tuple[int, int]]:
    """Yield the lines in which each variable is valid.

    A place is the position of a variable, its name, and the start of the symbol that owns it.
    """
    for start, name, owner_start in places:
        if name in scopes.names:
            yield _find_lines(scopes.find_inner(start, name, owner_start), positions)
        else:
            yield _NO_LINES


def _find_lines(scope: VariableScope | None, positions: TextPositions) -> tuple[int, int]:
    if scope is None:
        return _NO_LINES
    return positions.find_line(scope.start), positions.find_line(scope.end - 1)
