"""Takes inline filters and phrases out of the text of a question. Pure.

The text may contain the filters `lang:go`, `path:src/**`, `-path:vendor`, `sym:function`,
`name:User*`, `index:a` and `topic:b`, and `"exact phrases"`. A phrase keeps its blanks as typed.
Commas separate the values of a list. A word with a colon and another key (`std::vector`,
`http://x`) is an ordinary word. Of a long text only the filters at its ends are meant as filters.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cocosearchd.errors import InvalidInput
from cocosearchd.filters.filter_fields import FILTER_FIELDS

# Keys that select indexes -> fields of requests that select indexes
SCOPE_KEYS = {"index": "indexes", "topic": "topics"}
FIELDS_BY_KEY = {key: row.name for row in FILTER_FIELDS for key in row.inline_keys} | SCOPE_KEYS
_EXCLUSIONS = {row.name: row.exclusion for row in FILTER_FIELDS if row.exclusion is not None}
_LISTS = {row.name for row in FILTER_FIELDS if row.splits_commas} | set(SCOPE_KEYS.values())
# The field of phrases
QUOTED = next(row.name for row in FILTER_FIELDS if row.is_quoted)
_FILTER = re.compile(rf'(?<!\S)(-?)({"|".join(FIELDS_BY_KEY)}):("[^"]+"|[^\s"]+)')
_PHRASE = re.compile(r'(?<!\S)"([^"]+)"(?!\S)')


@dataclass(frozen=True, slots=True)
class InlineQuery:
    """The words of a question's text, and the values of its inline filters by field name.

    The phrases are values of the field `QUOTED`.
    """

    words: str
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)


def parse_inline(text: str) -> InlineQuery:
    """Take the inline filters and phrases out of a question's text. Raises `InvalidInput`."""
    values = _read_filters(_FILTER.finditer(text))
    rest = _FILTER.sub(" ", text)
    phrases = [phrase.strip() for phrase in _PHRASE.findall(rest) if phrase.strip()]
    if phrases:
        values[QUOTED] = phrases
    return InlineQuery(" ".join(_PHRASE.sub(r" \1 ", rest).split()), values)


def parse_outer(text: str) -> InlineQuery:
    """Take the inline filters at the two ends of a text out of it. All else are words.

    So is what looks like a filter but cannot be negated.
    """
    matches = [match for match in _FILTER.finditer(text) if not match[1] or _can_negate(match[2])]
    leading = _leading_filters(text, matches)
    start = leading[-1].end() if leading else 0
    trailing = _trailing_filters(text, matches[len(leading) :])
    end = trailing[0].start() if trailing else len(text)
    return InlineQuery(text[start:end].strip(), _read_filters([*leading, *trailing]))


def _leading_filters(text: str, matches: Sequence[re.Match[str]]) -> Sequence[re.Match[str]]:
    """Return the filters before the first word."""
    end = 0
    for count, match in enumerate(matches):
        if text[end : match.start()].strip():
            return matches[:count]
        end = match.end()
    return matches


def _trailing_filters(text: str, matches: Sequence[re.Match[str]]) -> Sequence[re.Match[str]]:
    """Return the filters behind the last word."""
    start = len(text)
    for count, match in enumerate(reversed(matches)):
        if text[match.end() : start].strip():
            return matches[len(matches) - count :]
        start = match.start()
    return matches


def is_phrase(text: str) -> bool:
    """Return True if a text is a single phrase, in its quotation marks."""
    return _PHRASE.fullmatch(text) is not None


def has_line_breaks(text: str) -> bool:
    """Return True if a text has a line break outside of its phrases."""
    return "\n" in _PHRASE.sub("", text)


def _read_filters(matches: Iterable[re.Match[str]]) -> dict[str, list[str]]:
    """Return the values of inline filters, by field name. Raises `InvalidInput`."""
    values: dict[str, list[str]] = {}
    for match in matches:
        sign, key, written = match.groups()
        name = _negated_field(match[0], key) if sign else FIELDS_BY_KEY[key]
        value = written.strip('"')
        parts = filter(None, value.split(",")) if name in _LISTS else (value,)
        values.setdefault(name, []).extend(parts)
    return values


def _can_negate(key: str) -> bool:
    return FIELDS_BY_KEY[key] in _EXCLUSIONS


def _negated_field(inline_filter: str, key: str) -> str:
    exclusion = _EXCLUSIONS.get(FIELDS_BY_KEY[key])
    if exclusion is None:
        keys = " and ".join(
            f"-{key}:" for key, name in FIELDS_BY_KEY.items() if name in _EXCLUSIONS
        )
        raise InvalidInput(f"{inline_filter!r} cannot be negated", f"only {keys} excludes")
    return exclusion
