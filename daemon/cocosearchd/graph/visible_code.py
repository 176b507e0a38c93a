"""The part of a file that the resolution of uses in other files can read. Pure.

A save that leaves it as it was changes no meaning of a use in another file, so those that are
cached stay valid. It has no line numbers: edits move lines, and only their order matters.
"""

from collections.abc import Sequence
from typing import Any

from cocosearchd.graph.code_files import CodeFile
from cocosearchd.graph.resolution.file_names import mentions_of, names_of
from cocosearchd.languages.code_facts import Binding, Use
from cocosearchd.languages.symbol_table import values_of

# The fields of symbols by which they are looked up.
_SYMBOL_FIELDS = ("kind", "name", "qualified_name", "parent")


def see_same_code(earlier: CodeFile, later: CodeFile) -> bool:
    """Return True if two versions of a file are equal for all other files."""
    return _visible_code(earlier) == _visible_code(later)


def _visible_code(file: CodeFile) -> tuple[Any, ...]:
    facts, names = file.facts, names_of(file)
    return (
        file.language,
        facts.package,
        [list(values_of(file.symbols, field)) for field in _SYMBOL_FIELDS],
        names.parents,
        [tuple(names.same_definition(position)) for position in range(len(file.symbols))],
        [(item.module, item.name, item.local, item.exported) for item in facts.imports],
        _order_lines(facts.bindings),
        [_without_place(use) for use in facts.uses_of_kind("inherit")],
        # a default import counts as an alias of each name that its file uses
        _used_names(file) if mentions_of(file).has_defaults else None,
    )


def _order_lines(bindings: Sequence[Binding]) -> Sequence[Binding]:
    """Return bindings with the ranks of their lines in place of the lines; 0 stays 0."""
    lines = {0} | {line for item in bindings for line in (item.first_line, item.last_line)}
    ranks = {line: rank for rank, line in enumerate(sorted(lines))}
    return [
        item._replace(first_line=ranks[item.first_line], last_line=ranks[item.last_line])
        for item in bindings
    ]


def _without_place(use: Use) -> Use:
    return use._replace(line=0, column=0)


def _used_names(file: CodeFile) -> frozenset[str]:
    return frozenset(use.name for use in file.facts.uses)
