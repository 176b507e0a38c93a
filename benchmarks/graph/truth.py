"""The truth of a SCIP index: where functions, classes and methods of a project are used. Pure.

Occurrences count if their symbol is a function, class, interface, type or method that the project
defines, and if they are neither definitions nor keys of object literals, nor within an import or
re-export statement. A call of a class and its constructor are the class. A local symbol, or one of
the project, without a definition is one that the indexer could not resolve: it says nothing.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cocosearchd.graph.scip.scip_reader import DEFINITION, ScipDocument, ScipOccurrence
from cocosearchd.graph.scip.scip_symbols import is_local, normal_name
from cocosearchd.languages import syntax
from cocosearchd.languages.parse import grammar_of

# scip-python does not mark the second definition of a name as one.
_REDEFINITION = re.compile(r"(?:^|\s)(?:def|class)\s+$")
_WORD = re.compile(r"\w+")
# Variables of a module whose value is a function, as scip-typescript documents them.
_FUNCTION_VALUE = re.compile(r"^```ts\n(?:var|const|let) [\w$]+: (?:<.*?>)?\(.*=>", re.DOTALL)
# SCIP names a key by the type that the context expects: the object defines it, and uses none.
_KEYS = """
(pair key: (property_identifier) @key)
(object (method_definition name: (property_identifier) @key))
(shorthand_property_identifier) @key
"""
_IMPORT = re.compile(
    r"^[ \t]*(?:import|export)\b(?:[^;\"'`()=]|\"[^\"\n]*\"(?=\s*as\b))*?\bfrom\s*[\"'][^\"'\n]*[\"']"
    r"|^[ \t]*export\s*(?:type\s*)?\{[^}]*\}|^[ \t]*export\s+default\s+[\w$]+\s*;?$"
    r"|^[ \t]*import\s+[\w$]+\s*=\s*[\w$.]+",
    re.MULTILINE,
)


class SourcePosition(NamedTuple):
    """A position in a project, from 1."""

    path: str
    line: int
    column: int


class DefinedName(NamedTuple):
    """The position where a symbol is defined, and its name there."""

    path: str
    line: int
    name: str


@dataclass(frozen=True, slots=True)
class UsedSymbol:
    """The symbols that occur at a position."""

    symbols: tuple[str, ...]
    is_counted: bool  # a function, class or method of the project is among them


@dataclass(frozen=True, slots=True)
class Truth:
    """All uses of an index, and where its symbols are defined."""

    uses: Mapping[SourcePosition, UsedSymbol]
    definitions: Mapping[str, tuple[DefinedName, ...]]


def read_truth(documents: Iterable[ScipDocument], texts: Mapping[str, str]) -> Truth:
    """Return the truth of a project's documents, of which the texts are given by path."""
    items = [document for document in documents if document.path in texts]
    definitions = _definitions(items, texts)
    targets = _targets(items, definitions)
    packages = {_package(symbol) for symbol in definitions}
    uses: dict[SourcePosition, UsedSymbol] = {}
    for document in items:
        imports = import_lines(document.path, texts[document.path])
        lines = texts[document.path].split("\n")
        keys = object_keys(document.path, texts[document.path])
        for position, symbols in _occurrences(document):
            if (position.line, position.column) in keys:
                continue
            if _is_redefinition(lines, position):
                continue
            names = {item.name for symbol in symbols for item in definitions.get(symbol, ())}
            if _is_misnamed(
                document.path,
                texts[document.path],
                lines[position.line - 1],
                position,
                names,
            ):
                continue
            is_resolved = any(
                symbol in definitions or _package(symbol) not in packages for symbol in symbols
            )
            if position.line not in imports and is_resolved:
                uses[position] = UsedSymbol(symbols, not targets.isdisjoint(symbols))
    return Truth(uses, definitions)


def import_lines(path: str, text: str) -> set[int]:
    """Return the lines of the import and re-export statements of a file, from 1."""
    lines: set[int] = set()
    if path.endswith((".py", ".pyi")):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return lines
    for match in _IMPORT.finditer(text):
        first = text.count("\n", 0, match.start()) + 1
        lines.update(range(first, first + match[0].count("\n") + 1))
    return lines


def object_keys(path: str, text: str) -> set[tuple[int, int]]:
    """Return line and column of each key of an object literal in TypeScript, from 1."""
    data = text.encode()
    grammar = grammar_of(path, "typescript") if path.endswith((".ts", ".tsx", ".mts")) else ""
    tree = syntax.parse_tree(grammar, data) if grammar else None
    if tree is None:
        return set()
    lines = data.split(b"\n")
    keys: set[tuple[int, int]] = set()
    for _, captures in syntax.run_query(syntax.compile_query(grammar, _KEYS), tree.root_node):
        for node in captures["key"]:
            row, column = node.start_point
            keys.add((row + 1, len(lines[row][:column].decode("utf-8", "replace")) + 1))
    return keys


def _definitions(
    documents: Iterable[ScipDocument], texts: Mapping[str, str]
) -> dict[str, tuple[DefinedName, ...]]:
    places: dict[str, list[DefinedName]] = defaultdict(list)
    for document in documents:
        lines = texts[document.path].split("\n")
        for item in document.occurrences:
            if item.roles & DEFINITION or _is_redefinition(lines, item):
                name = normal_name(document.path, item.symbol)
                text = lines[item.line - 1][item.column - 1 : item.end_column - 1]
                places[name].append(DefinedName(document.path, item.line, text))
    return {name: tuple(items) for name, items in places.items()}


def _is_misnamed(
    path: str, text: str, line: str, position: SourcePosition, names: Collection[str]
) -> bool:
    """Return True if scip-python says that a name means a definition with another name.

    It does so for modules that import all names of another one: `httpx.Response` is "Request",
    the first name of that module. An alias is written in the file.
    """
    word = _WORD.match(line, position.column - 1)
    if not path.endswith(".py") or word is None or not names or "" in names:
        return False
    return word[0] not in names and f" as {word[0]}" not in text


def _is_redefinition(lines: Sequence[str], item: SourcePosition | ScipOccurrence) -> bool:
    return _REDEFINITION.search(lines[item.line - 1][: item.column - 1]) is not None


def _targets(
    documents: Iterable[ScipDocument],
    definitions: Mapping[str, tuple[DefinedName, ...]],
) -> frozenset[str]:
    """Return the functions, classes, types and methods that the project defines."""
    documentation = {
        symbol: text for document in documents for symbol, text in document.documentation.items()
    }
    return frozenset(
        symbol
        for symbol in definitions
        if not is_local(symbol)
        and (
            symbol.endswith(("#", "()."))
            or (symbol.endswith(".") and _FUNCTION_VALUE.match(documentation.get(symbol, "")))
        )
    )


def _occurrences(
    document: ScipDocument,
) -> Iterator[tuple[SourcePosition, tuple[str, ...]]]:
    groups: dict[tuple[int, int], list[ScipOccurrence]] = defaultdict(list)
    for item in document.occurrences:
        groups[item.line, item.column].append(item)
    for (line, column), items in groups.items():
        if not any(item.roles & DEFINITION for item in items):
            names = dict.fromkeys(normal_name(document.path, item.symbol) for item in items)
            yield SourcePosition(document.path, line, column), tuple(names)


def _package(symbol: str) -> str:
    """Return the package of a symbol: scheme, manager and name; "local" for local symbols."""
    return "local" if is_local(symbol) else " ".join(symbol.split(" ", 3)[:3])
