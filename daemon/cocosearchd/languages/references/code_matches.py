"""Matches of the queries of a language in one tree: definitions and references in one pass. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from cocosearchd.languages import syntax
from cocosearchd.languages.references import reference_query
from cocosearchd.languages.symbols import QueryOverrides, query_text

Match = tuple[int, dict[str, list[syntax.Node]]]  # number of the pattern in its query, captures


@dataclass(frozen=True, slots=True)
class CodeMatches:
    """Matches in one tree. `constants` are the values of `#set!` by the number of a pattern.

    Without a query of references, there are no references and no constants.
    """

    definitions: Iterable[Match]
    references: Iterable[Match]
    constants: Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class _CodeQuery:
    """The query of a language: its first patterns, `definition_count`, match definitions."""

    query: syntax.Query
    definition_count: int
    constants: Sequence[Mapping[str, str]]


def match_code(
    language: str, grammar: str, tree: syntax.Tree, size: int, overrides: QueryOverrides
) -> CodeMatches:
    """Run the queries of a language on the tree of a text of `size` bytes."""
    definition_text = query_text(language, overrides)
    reference_text = reference_query.reference_query_text(language, grammar, overrides)
    if not reference_text:
        return CodeMatches(_match(grammar, tree, definition_text), (), ())
    if size <= syntax.MATCH_BYTES:
        return _match_jointly(_compile(grammar, definition_text, reference_text), tree)
    references = _compile(grammar, "", reference_text)
    return CodeMatches(
        _match(grammar, tree, definition_text),
        syntax.iterate_matches(references.query, tree.root_node, size),
        references.constants,
    )


def _match(grammar: str, tree: syntax.Tree, text: str) -> list[Match]:
    return syntax.run_query(syntax.compile_query(grammar, text), tree.root_node) if text else []


def _match_jointly(query: _CodeQuery, tree: syntax.Tree) -> CodeMatches:
    """Run both queries as one: to walk through the tree takes longer than to match.

    A query takes up to 0.2 s to compile, in each process: only this one is compiled for most files.
    """
    count = query.definition_count
    definitions: list[Match] = []
    references: list[Match] = []
    for match in syntax.run_query(query.query, tree.root_node):
        (definitions if match[0] < count else references).append(match)
    return CodeMatches(definitions, references, query.constants)


@cache
def _compile(grammar: str, definition_text: str, reference_text: str) -> _CodeQuery:
    text = f"{definition_text}\n{reference_text}" if definition_text else reference_text
    query = syntax.compile_query(grammar, text)
    count = syntax.count_patterns(grammar, text, len(definition_text.encode()))
    return _CodeQuery(query, count, syntax.pattern_constants(query))
