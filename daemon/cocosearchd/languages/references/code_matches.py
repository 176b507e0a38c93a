"""Runs the queries of a language on one tree: definitions and references in one pass. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import starmap
from typing import NamedTuple

from cocosearchd.languages import syntax
from cocosearchd.languages.references import reference_query
from cocosearchd.languages.references.reference_query import PatternActions, choose_actions
from cocosearchd.languages.symbols import QueryOverrides, query_text

Match = syntax.Match
# A group of patterns, identified by their captures. Patterns that only make bindings are one group,
# whatever they capture. The empty key is the group of all other patterns.
GroupKey = frozenset[str]
# Matches of each group, in the order of the tree.
MatchGroups = Mapping[GroupKey, Sequence[Match]]
BINDING_PATTERNS: GroupKey = frozenset({"binding"})
OTHER_PATTERNS: GroupKey = frozenset()


class CodePart(NamedTuple):
    """The matches in a part of a text: of definitions, and of references by group.

    A match of references that reaches into several parts is in each of them.
    """

    definitions: Sequence[Match]
    references: MatchGroups


class CodeMatches(NamedTuple):
    """The matches in one tree, for each part of the text in turn.

    `actions` are the steps for the matches of each pattern, by number. They are empty without a
    reference query.
    """

    parts: Iterable[CodePart]
    actions: Sequence[PatternActions]


@dataclass(frozen=True, slots=True)
class _CodeQuery:
    """The query of a language. `groups` has the group of each pattern; None for definitions."""

    query: syntax.Query
    groups: Sequence[GroupKey | None]
    actions: Sequence[PatternActions]

    def group(self, start: int, matches: Iterable[Match]) -> CodePart:
        """Split the matches of a part into those of definitions, and those of references by group.

        Definitions that begin before the start of the part are left out: an earlier part has them.
        """
        definitions: list[Match] = []
        groups: dict[GroupKey, list[Match]] = {key: [] for key in self.groups if key is not None}
        appends = [definitions.append if key is None else groups[key].append for key in self.groups]
        for match in matches:
            appends[match[0]](match)
        if start:
            definitions = [match for match in definitions if _first_start(match) >= start]
        return CodePart(definitions, groups)


def _first_start(match: Match) -> int:
    return min(nodes[0].start_byte for nodes in match[1].values())


def match_code(
    language: str, grammar: str, tree: syntax.Tree, size: int, overrides: QueryOverrides
) -> CodeMatches:
    """Run the queries of a language on the tree of a text of `size` bytes."""
    definition_text = query_text(language, overrides)
    reference_text = reference_query.reference_query_text(language, grammar, overrides)
    if not reference_text:
        return CodeMatches((CodePart(_match(grammar, tree, definition_text), {}),), ())
    # Walking through a tree takes longer than matching, so both queries run as one. Compiling a
    # query takes up to 0.2 s in each process: only this joint query is compiled.
    query = _compile(grammar, definition_text, reference_text)
    matches = syntax.match_parts(query.query, tree.root_node, size)
    return CodeMatches(starmap(query.group, matches), query.actions)


def needs_tree(language: str, grammar: str, overrides: QueryOverrides) -> bool:
    """Return True if a language has a query, built in or from the user."""
    return bool(
        query_text(language, overrides)
        or reference_query.reference_query_text(language, grammar, overrides)
    )


def _match(grammar: str, tree: syntax.Tree, text: str) -> list[Match]:
    return syntax.run_query(syntax.compile_query(grammar, text), tree.root_node) if text else []


@cache
def _compile(grammar: str, definition_text: str, reference_text: str) -> _CodeQuery:
    text = f"{definition_text}\n{reference_text}" if definition_text else reference_text
    query = syntax.compile_query(grammar, text)
    definition_count = syntax.count_patterns(grammar, text, len(definition_text.encode()))
    captures = syntax.pattern_captures(query, text)
    actions = list(map(choose_actions, captures, syntax.pattern_constants(query)))
    groups = [
        None if number < definition_count else _choose_group(captures[number], actions[number])
        for number in range(len(captures))
    ]
    return _CodeQuery(query, groups, actions)


def _choose_group(captures: GroupKey, actions: PatternActions) -> GroupKey:
    """Return the group of a pattern. Patterns with independent matches have groups of their own."""
    if captures in reference_query.INDEPENDENT_CAPTURES:
        return captures
    return BINDING_PATTERNS if actions.makes_only_bindings() else OTHER_PATTERNS
