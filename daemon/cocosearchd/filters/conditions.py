"""Conditions on files, symbols and texts: each as SQL over a chunks table and as Python. Pure."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from cocosearchd.filters.globs import BOUNDS, Matcher, path_regex, symbol_matcher, symbol_regex
from cocosearchd.forms.unicode_forms import spellings

Values = tuple[str, ...]
# SQL with the names of parameters in braces, and the parameters
Restriction = tuple[str, dict[str, Any]]

# At most 100: shorter than `identifiers.MAX_WORD`, where words are cut.
_LETTERS = re.compile(r"[A-Za-z]{1,100}")

# See `searched_names`.
_UNDERSCORES = re.compile(rf"(^|[{BOUNDS}])_+")
_ADDRESS = "starts_with(name, kind || '.') and kind !~ '[.]' and substr(name, length(kind) + 2)"
_WRITTEN = f"(name ~ {{name}} or ({_ADDRESS} ~ {{name}}))"
_MATCHES = rf"""(name ~* {{name}} or ({_ADDRESS} ~* {{name}})
        or (name ~ '(^|[{BOUNDS}])_'
            and regexp_replace(name, '(^|[{BOUNDS}])_+', '\1', 'g') ~* {{name}}))"""
# Rows older than `symbol_kinds` have one symbol, and the last parts of the other names.
_OLD_MATCHES = f"""symbol_kinds is null and exists (
        select from unnest(array_append(definitions, symbol_name)) as s(name),
            (select symbol_type) as t(kind)
        where {_MATCHES})"""
_KIND = """(symbol_kinds && {kinds}::text[]
    or (symbol_kinds is null and symbol_type = any({kinds}::text[])))"""
_NAME = f"""(exists (
        select from unnest(symbol_kinds, symbol_names) as s(kind, name) where {_MATCHES})
    or ({_OLD_MATCHES}))"""
# A single definition with the kind and the name; `&&` makes the query use the index.
_KIND_AND_NAME = f"""((symbol_kinds && {{kinds}}::text[] and exists (
        select from unnest(symbol_kinds, symbol_names) as s(kind, name)
        where kind = any({{kinds}}::text[]) and {_MATCHES}))
    or (symbol_type = any({{kinds}}::text[]) and {_OLD_MATCHES}))"""


@dataclass(frozen=True, slots=True)
class FileCondition:
    """A condition on one property of a file: a file passes where it matches any of the values.

    `sql` compares the property with `{values}`, which `sql_values` makes of the values. `matcher`
    does the same in Python. With `excludes`, the files that match are left out, in both forms.
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
    """A condition on the symbols of a chunk: one of them has any of the kinds, and the name.

    Without `kinds` any kind will do; without `name` any name.
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
        """Yield the SQL of `written_matcher`, over the same columns."""
        if self.name:
            yield _WRITTEN, {"name": symbol_regex(self.name)}

    def written_matcher(self) -> Callable[[str, str], bool]:
        """Return a test that a symbol has the name as written: case and underscores count."""
        return name_matcher(self.name, as_written=True) if self.name else lambda *_: True

    def matcher(self) -> Callable[[str, str], bool]:
        """Return a test of a symbol's kind and qualified name."""
        matches_name = name_matcher(self.name) if self.name else None

        def matches(kind: str, name: str) -> bool:
            if self.kinds and kind not in self.kinds:
                return False
            return matches_name is None or matches_name(kind, name)

        return matches


@dataclass(frozen=True, slots=True)
class PhraseCondition:
    """A condition on the text of a chunk: it contains every phrase, in any of its spellings.

    It has no SQL, since texts are packed in PostgreSQL.
    """

    phrases: Values

    def word_restrictions(self) -> Iterator[Restriction]:
        """Yield weaker SQL over the words of a chunk, which uses their index."""
        for phrase in self.phrases:
            queries = [phrase_query(spelling) for spelling in spellings(phrase)]
            if all(queries):
                words = " | ".join(f"({query})" for query in dict.fromkeys(queries))
                yield "words @@ to_tsquery('simple', {words})", {"words": words}

    def matcher(self) -> Callable[[str], bool]:
        """Return a test of a chunk's text."""
        groups = [
            [spelling.replace("\0", "").lower() for spelling in spellings(phrase)]
            for phrase in self.phrases
        ]

        def matches(text: str) -> bool:
            lowered = text.replace("\0", "").lower()
            return all(any(spelling in lowered for spelling in group) for group in groups)

        return matches


def written_names(kind: str, name: str) -> Iterator[str]:
    """Yield the qualified name of a symbol, and the name without its kind if it begins with it.

    The addresses of HCL begin with a kind, which people leave out.

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
    """Return a test of a symbol's kind and qualified name by a glob over the name.

    With `as_written`, case and leading underscores count.
    """
    matches = symbol_matcher(glob, cased=as_written)
    names = written_names if as_written else searched_names

    def matches_name(kind: str, name: str) -> bool:
        # most names that match do so as they are
        return bool(matches(name)) or any(matches(form) for form in names(kind, name))

    return matches_name


def phrase_query(phrase: str) -> str:
    """Return a text search query that every chunk with the phrase passes; "" where there is none.

    It lets the index of words leave few texts to be read. Words between blanks are whole words of
    the text; the last one may go on there. Of the first word only its end is certain to be the end
    of a word, and text that is not plain letters may be split in another way.
    """
    *words, last = phrase.split(" ")
    terms = [f"'{word.lower()}'" for word in words[1:] if _LETTERS.fullmatch(word)]
    if words and (prefix := _LETTERS.match(last)):
        terms.append(f"'{prefix[0].lower()}':*")
    return " & ".join(terms)


def any_path_regex(globs: Values) -> str:
    """Return the regular expression of PostgreSQL that matches what any of the globs matches.

    A single expression stays as it is: PostgreSQL sees its fixed prefix and uses the key.
    """
    regexes = [path_regex(glob.replace("\0", "")) for glob in globs]
    return regexes[0] if len(regexes) == 1 else "|".join(f"({regex})" for regex in regexes)


def membership_matcher(values: Values) -> Matcher:
    """Return a test that a text is one of the values."""
    return frozenset(values).__contains__
