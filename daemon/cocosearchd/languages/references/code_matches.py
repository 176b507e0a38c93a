"""Runs the queries of a language on one tree: definitions and references in one pass. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from cocosearchd.languages import syntax
from cocosearchd.languages.references import reference_query
from cocosearchd.languages.symbols import QueryOverrides, query_text

Match = syntax.Match
# A group of patterns, identified by their captures. The empty key is the group of all other
# patterns.
GroupKey = frozenset[str]
# Matches of each group, in the order of the tree.
MatchGroups = Mapping[GroupKey, Sequence[Match]]
OTHER_PATTERNS: GroupKey = frozenset()


@dataclass(frozen=True, slots=True)
class CodeMatches:
    """The matches in one tree.

    `constants` are the values of `#set!`, by pattern number. `references` are matches by group, for
    each part of the text in turn. Without a reference query, both are empty.
    """

    definitions: Iterable[Match]
    references: Iterable[MatchGroups]
    constants: Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class _CodeQuery:
    """The query of a language. `groups` has the group of each pattern; None for definitions."""

    query: syntax.Query
    groups: Sequence[GroupKey | None]
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
        # Walking through a tree takes longer than matching, so both queries run as one. Compiling a
        # query takes up to 0.2 s in each process; for most files only this joint query is compiled.
        query = _compile(grammar, definition_text, reference_text)
        definitions, groups = _group(query, syntax.run_query(query.query, tree.root_node))
        return CodeMatches(definitions, (groups,), query.constants)
    query = _compile(grammar, "", reference_text)
    return CodeMatches(
        _match(grammar, tree, definition_text), _match_parts(query, tree, size), query.constants
    )


def needs_tree(language: str, grammar: str, overrides: QueryOverrides) -> bool:
    """Return True if a language has a query, built in or from the user."""
    return bool(
        query_text(language, overrides)
        or reference_query.reference_query_text(language, grammar, overrides)
    )


def _match(grammar: str, tree: syntax.Tree, text: str) -> list[Match]:
    return syntax.run_query(syntax.compile_query(grammar, text), tree.root_node) if text else []


def _match_parts(query: _CodeQuery, tree: syntax.Tree, size: int) -> Iterator[MatchGroups]:
    """Yield the references of a large text part by part, so that few matches are in memory."""
    for matches in syntax.match_parts(query.query, tree.root_node, size):
        yield _group(query, matches)[1]


def _group(query: _CodeQuery, matches: Iterable[Match]) -> tuple[list[Match], MatchGroups]:
    """Split matches into those of definitions, and those of references by group."""
    definitions: list[Match] = []
    groups: dict[GroupKey, list[Match]] = {key: [] for key in query.groups if key is not None}
    appends = [definitions.append if key is None else groups[key].append for key in query.groups]
    for match in matches:
        appends[match[0]](match)
    return definitions, groups


@cache
def _compile(grammar: str, definition_text: str, reference_text: str) -> _CodeQuery:
    text = f"{definition_text}\n{reference_text}" if definition_text else reference_text
    query = syntax.compile_query(grammar, text)
    definition_count = syntax.count_patterns(grammar, text, len(definition_text.encode()))
    groups = [
        None if number < definition_count else _choose_group(captures)
        for number, captures in enumerate(syntax.pattern_captures(query, text))
    ]
    return _CodeQuery(query, groups, syntax.pattern_constants(query))


def _choose_group(captures: GroupKey) -> GroupKey:
    """Return the group of a pattern. Patterns with independent matches have groups of their own."""
    return captures if captures in reference_query.INDEPENDENT_CAPTURES else OTHER_PATTERNS
