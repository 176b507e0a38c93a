"""Conditions on files, symbols and texts, as SQL over a chunks table and as Python. Pure."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from cocosearchd.filters.globs import BOUNDS, Matcher, path_regex, symbol_matcher, symbol_regex
from cocosearchd.forms.unicode_forms import spellings

Values = tuple[str, ...]
# SQL with the names of its parameters in braces, and the parameters' values
Restriction = tuple[str, dict[str, Any]]

# At most 100 letters. `identifiers.MAX_WORD`, the length at which words are cut, is larger.
_LETTERS = re.compile(r"[A-Za-z]{1,100}")

# See `searched_names`.
_UNDERSCORES = re.compile(rf"(^|[{BOUNDS}])_+")
_ADDRESS = "starts_with(name, kind || '.') and kind !~ '[.]' and substr(name, length(kind) + 2)"
_WRITTEN = f"(name ~ {{name}} or ({_ADDRESS} ~ {{name}}))"
_MATCHES = rf"""(name ~* {{name}} or ({_ADDRESS} ~* {{name}})
        or (name ~ '(^|[{BOUNDS}])_'
            and regexp_replace(name, '(^|[{BOUNDS}])_+', '\1', 'g') ~* {{name}}))"""
# Rows that are older than the column `symbol_kinds` have one complete symbol, and only the last
# parts of the other symbols' names.
_OLD_MATCHES = f"""symbol_kinds is null and exists (
        select from unnest(array_append(definitions, symbol_name)) as s(name),
            (select symbol_type) as t(kind)
        where {_MATCHES})"""
_KIND = """(symbol_kinds && {kinds}::text[]
    or (symbol_kinds is null and symbol_type = any({kinds}::text[])))"""
_NAME = f"""(exists (
        select from unnest(symbol_kinds, symbol_names) as s(kind, name) where {_MATCHES})
    or ({_OLD_MATCHES}))"""
# One definition must have both the kind and the name. With `&&` the query uses the index.
_KIND_AND_NAME = f"""((symbol_kinds && {{kinds}}::text[] and exists (
        select from unnest(symbol_kinds, symbol_names) as s(kind, name)
        where kind = any({{kinds}}::text[]) and {_MATCHES}))
    or (symbol_type = any({{kinds}}::text[]) and {_OLD_MATCHES}))"""


@dataclass(frozen=True, slots=True)
class FileCondition:
    """A condition on one property of a file. A file passes if it matches one of the values.

    `sql` compares the property with the parameter `{values}`. `sql_values` converts the values for
    that parameter. `matcher` makes the same comparison in Python. If `excludes` is true, a file
    passes if it matches none of the values: `sql` says so itself, and callers of `matcher` negate
    its answer.
    """

    subject: Literal["path", "language"]
    sql: str
    sql_values: Callable[[Values], Any]
    matcher: Callable[[Values], Matcher]
    excludes: bool = False

    def restriction(self, values: Values) -> Restriction:
        """Return the SQL of the condition."""
        return self.sql, {"values": self.sql_values(values)}


@dataclass(frozen=True, slots=True)
class SymbolCondition:
    """A condition on the symbols of a chunk: one symbol has one of the kinds, and the name.

    Without `kinds` every kind passes. Without `name` every name passes.
    """

    kinds: Values
    name: str | None

    @property
    def restricts(self) -> bool:
        """True if some symbols do not pass."""
        return bool(self.kinds or self.name)

    def restrictions(self) -> Iterator[Restriction]:
        """Yield the SQL of the condition."""
        kinds = {"kinds": list(self.kinds)} if self.kinds else {}
        name = {"name": symbol_regex(self.name)} if self.name else {}
        if kinds and name:
            yield _KIND_AND_NAME, kinds | name
        elif kinds:
            yield _KIND, kinds
        elif name:
            yield _NAME, name

    def symbol_restrictions(self) -> Iterator[Restriction]:
        """Yield the SQL of the condition over the columns kind and name of a single symbol."""
        if self.kinds:
            yield "kind = any({kinds}::text[])", {"kinds": list(self.kinds)}
        if self.name:
            yield _MATCHES, {"name": symbol_regex(self.name)}

    def written_restrictions(self) -> Iterator[Restriction]:
        """Yield the SQL of `written_matcher`, over the columns kind and name of a single symbol."""
        if self.name:
            yield _WRITTEN, {"name": symbol_regex(self.name)}

    def written_matcher(self) -> Callable[[str, str], bool]:
        """Return a predicate for symbols with this name. Case and underscores must be equal."""
        return name_matcher(self.name, as_written=True) if self.name else lambda *_: True

    def matcher(self) -> Callable[[str, str], bool]:
        """Return a predicate for a symbol's kind and qualified name."""
        matches_name = name_matcher(self.name) if self.name else None

        def matches(kind: str, name: str) -> bool:
            if self.kinds and kind not in self.kinds:
                return False
            return matches_name is None or matches_name(kind, name)

        return matches


@dataclass(frozen=True, slots=True)
class PhraseCondition:
    """A condition on the text of a chunk: the text contains every phrase, in one of its spellings.

    It has no exact SQL, since PostgreSQL stores the texts packed.
    """

    phrases: Values

    def word_restrictions(self) -> Iterator[Restriction]:
        """Yield SQL over the indexed words of a chunk, which lets more chunks pass."""
        for phrase in self.phrases:
            queries = [phrase_query(spelling) for spelling in spellings(phrase)]
            if all(queries):
                words = " | ".join(f"({query})" for query in dict.fromkeys(queries))
                yield "words @@ to_tsquery('simple', {words})", {"words": words}

    def matcher(self) -> Callable[[str], bool]:
        """Return a predicate for a chunk's text."""
        groups = [
            [spelling.replace("\0", "").lower() for spelling in spellings(phrase)]
            for phrase in self.phrases
        ]

        def matches(text: str) -> bool:
            lowered = text.replace("\0", "").lower()
            return all(any(spelling in lowered for spelling in group) for group in groups)

        return matches


def written_names(kind: str, name: str) -> Iterator[str]:
    """Yield the qualified name of a symbol. If it begins with the kind, yield it also without.

    An address in HCL begins with a kind. People leave that kind out.

    >>> list(written_names("resource", "resource.aws_s3_bucket.logs"))
    ['resource.aws_s3_bucket.logs', 'aws_s3_bucket.logs']
    """
    yield name
    if "." not in kind and name.startswith(f"{kind}."):
        yield name[len(kind) + 1 :]


def searched_names(kind: str, name: str) -> Iterator[str]:
    """Yield the names that a filter may match: as written, and without leading underscores.

    >>> list(searched_names("method", "Boot._load"))
    ['Boot._load', 'Boot.load']
    """
    yield from written_names(kind, name)
    plain = _UNDERSCORES.sub(r"\1", name)
    if plain != name:
        yield plain


def name_matcher(glob: str, *, as_written: bool = False) -> Callable[[str, str], bool]:
    """Return a predicate for a symbol's kind and qualified name, by a glob over the name.

    With `as_written`, the case and the leading underscores must be equal.
    """
    matches = symbol_matcher(glob, cased=as_written)
    names = written_names if as_written else searched_names

    def matches_name(kind: str, name: str) -> bool:
        # Most matching names match without a change.
        return bool(matches(name)) or any(matches(form) for form in names(kind, name))

    return matches_name


def phrase_query(phrase: str) -> str:
    """Return a text search query that matches every chunk with the phrase, or "" if there is none.

    The query uses the index of words, so that few texts must be read. A word between two blanks is
    a whole word of the text. The last word of the phrase may be the beginning of a longer word. The
    first word may be the end of a longer word, so the query omits it. The query also omits words
    with other characters than ASCII letters, since PostgreSQL may split them differently.
    """
    *words, last = phrase.split(" ")
    terms = [f"'{word.lower()}'" for word in words[1:] if _LETTERS.fullmatch(word)]
    if words and (prefix := _LETTERS.match(last)):
        terms.append(f"'{prefix[0].lower()}':*")
    return " & ".join(terms)


def any_path_regex(globs: Values) -> str:
    """Return one regular expression for PostgreSQL that matches what one of the globs matches.

    A single expression gets no parentheses. So PostgreSQL sees its fixed prefix and uses the key.
    """
    regexes = [path_regex(glob.replace("\0", "")) for glob in globs]
    return regexes[0] if len(regexes) == 1 else "|".join(f"({regex})" for regex in regexes)


def membership_matcher(values: Values) -> Matcher:
    """Return a predicate for texts that are one of the values."""
    return frozenset(values).__contains__
