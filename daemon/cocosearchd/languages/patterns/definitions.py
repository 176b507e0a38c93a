"""Finds definitions by regular expressions, for text without a syntax tree.

The rules are line-based and ignore scopes, so that they work for every language and for broken
files. `definition_rules` has the keywords and values. A definition that is indented by more than
four columns counts half a point less.

Segments hold the definitions: if they change, raise `search.lexical.segments.segment_files.FORMAT`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter

from cocosearchd.languages import blocks, language_table
from cocosearchd.languages.patterns.definition_rules import (
    COMMON_RULES,
    FUNCTION,
    MINOR,
    MODIFIERS,
    DefinitionRules,
    FunctionPattern,
    keyword_values,
)

_NESTED = 0.5
_NESTED_COLUMNS = 4
_ALL_KEYWORDS = keyword_values(
    language_row.definitions for language_row in language_table.languages()
)
# Every line that the keyword expression matches contains one of these as a word, delimited by ASCII
# characters that are part of no word.
KEYWORDS = tuple(dict.fromkeys(keyword.strip("#!") for keyword in _ALL_KEYWORDS))
_MODIFIER = "|".join(MODIFIERS.split())
_KEYWORD = "|".join(sorted((re.escape(word) for word in _ALL_KEYWORDS), key=len, reverse=True))
_NAME = r"[A-Za-z_$][\w$]*(?:(?:\.|::|\#)[A-Za-z_][\w$]*)*[?!]?"
_DEFINITION = re.compile(
    rf"""^(?P<indent>[ \t]*)
    (?:(?:pub(?:\([^)\n]*\))?|extern[ ]"[^"\n]*"|@\w[\w.]*(?:\([^)\n]*\))?|\[[^\]\n]*\]|{_MODIFIER})[ \t]+)*
    (?P<keyword>{_KEYWORD})(?:[ \t]*\([^)\n]*\)[ \t]*(?=[A-Za-z_])|[ \t]*<[^>\n]*>[ \t]*|\*?[ \t]+\*?)
    (?:<[^>\n]*>[ \t]*)?(?:self\.)?(?P<name>{_NAME})(?P<rest>[^\n]{{0,120}})""",
    re.MULTILINE | re.VERBOSE,
)
# Words that the expressions for functions would take for a name.
_CONTROL = {
    "if", "for", "while", "switch", "catch", "return", "else", "do", "sizeof", "with", "synchronized", "using", "lock",
    "foreach", "function", "new",
}  # fmt: skip
_SCOPES = re.compile(r"\.|::|\#")
_BODY = re.compile(r"^[^;]*?(?:\{|:|\bfinal\b)|^\s*$")


@dataclass(frozen=True, slots=True)
class Definition:
    """A defined name with its offset in the text and its value."""

    name: str
    offset: int  # characters
    value: float


def find_definitions(
    text: str, language: str, lines: Sequence[int] | None = None
) -> list[Definition]:
    """Find all definitions in order of offset. A dotted name is followed by its last part.

    `lines` are the numbers, from 0, of the lines with one of `KEYWORDS`; None if unknown.
    """
    language_row = blocks.language_info(language)
    rules = COMMON_RULES if language_row is None else language_row.definitions
    matches = _DEFINITION.finditer(text) if lines is None else _match_lines(text, lines)
    keyword_definitions = list(_keyword_definitions(matches, rules))
    functions = list(_functions(text, rules.functions))
    names = [
        part
        for item in sorted(keyword_definitions + functions, key=attrgetter("offset"))
        for part in _with_last_part(item)
    ]
    if not functions:  # the keyword expression alone gives no duplicates
        return names
    firsts = dict[tuple[str, int], Definition]()
    for item in names:
        firsts.setdefault((item.name, item.offset), item)
    return list(firsts.values())


def _match_lines(text: str, lines: Sequence[int]) -> Iterator[re.Match[str]]:
    """Match the definitions on some lines.

    The matches are as in the full text: none exceeds its line.
    """
    if not lines:
        return
    # in characters, not counting line ends
    offsets = list(accumulate(map(len, text.split("\n")), initial=0))
    for line in lines:
        if match := _DEFINITION.match(text, offsets[line] + line):
            yield match


def _keyword_definitions(
    matches: Iterable[re.Match[str]], rules: DefinitionRules
) -> Iterator[Definition]:
    for match in matches:
        value = _value(match["keyword"], match["rest"], rules)
        is_local = value == MINOR and _columns(match["indent"]) > _NESTED_COLUMNS
        if value is not None and not is_local:
            yield _definition(match, value)


def _value(keyword: str, rest: str, rules: DefinitionRules) -> float | None:
    """Return the value of a definition with a keyword; None if the keyword defines nothing here."""
    if keyword in rules.body_keywords and not _BODY.match(rest):
        return None
    for rule in rules.values_by_rest:
        if rule.keyword == keyword and rule.rest.match(rest):
            return rule.value
    return rules.keywords.get(keyword)


def _functions(text: str, patterns: Iterable[FunctionPattern]) -> Iterator[Definition]:
    """Find functions that do not begin with a keyword."""
    for pattern in patterns:
        if pattern.may_match(text):
            for match in pattern.expression.finditer(text):
                if match["name"].lower() not in _CONTROL:
                    yield _definition(match, FUNCTION)


def _definition(match: re.Match[str], value: float) -> Definition:
    nested = _NESTED if _columns(match["indent"]) > _NESTED_COLUMNS else 0.0
    return Definition(match["name"], match.start("name"), value - nested)


def _columns(indent: str) -> int:
    return len(indent.expandtabs(4))


def _with_last_part(item: Definition) -> tuple[Definition, ...]:
    last = _SCOPES.split(item.name)[-1]
    return (
        (item, Definition(last, item.offset, item.value)) if last and last != item.name else (item,)
    )
