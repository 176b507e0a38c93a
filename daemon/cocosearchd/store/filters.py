"""Filter -> SQL, in one function for all statements that search."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from psycopg import sql

from cocosearchd.model import Filter, spellings
from cocosearchd.store.globs import path_regex, symbol_regex

# shorter than `identifiers.MAX_WORD`, where words are cut
_LETTERS = re.compile(r"[A-Za-z]{1,100}")

Condition = tuple[sql.Composable, dict[str, Any]]
_Restriction = tuple[Any, dict[str, Any]]

# Rows of before `symbol_kinds` know one symbol and the last names of the others.
_KIND = """(symbol_kinds && {kinds}::text[] or (symbol_kinds is null and symbol_type = any({kinds}::text[])))"""
_NAME = """(exists (select from unnest(symbol_names) as s(name) where name ~* {name})
    or (symbol_kinds is null and exists (
        select from unnest(array_append(definitions, symbol_name)) as s(name) where name ~* {name})))"""
# One definition that has the kind and the name; `&&` lets the index in.
_BOTH = """((symbol_kinds && {kinds}::text[] and exists (
        select from unnest(symbol_kinds, symbol_names) as s(kind, name)
        where kind = any({kinds}::text[]) and name ~* {name}))
    or (symbol_kinds is null and symbol_type = any({kinds}::text[]) and exists (
        select from unnest(array_append(definitions, symbol_name)) as s(name) where name ~* {name})))"""


def filter_sql(where: Filter) -> Condition:
    """A condition over the columns of a chunks table, and its values. Without restrictions it is
    `true`.
    """
    return _condition(_restrictions(where))


def chunk_filter_sql(where: Filter) -> Condition:
    """The part of a filter about phrases and symbols, for chunks that are found by their keys:
    without indexes.
    """
    return _condition(chain(_of_symbols(where), _texts(where)))


def phrase_words_sql(where: Filter) -> Condition:
    """What the index of words can say of phrases, for the statistics of PostgreSQL to estimate."""
    return _condition(_words(where))


def _condition(restrictions: Iterator[_Restriction]) -> Condition:
    conditions, values = list[sql.Composable](), dict[str, Any]()
    for text, given in restrictions:
        names = {key: f"filter_{len(values) + place}" for place, key in enumerate(given)}
        values |= {names[key]: value for key, value in given.items()}
        conditions.append(
            sql.SQL(text).format(**{key: sql.Placeholder(name) for key, name in names.items()})
        )
    return (sql.SQL(" and ").join(conditions) if conditions else sql.SQL("true")), values


def without_paths(where: Filter) -> Filter:
    """The part of a filter that the statistics of PostgreSQL can estimate."""
    return Filter(languages=where.languages, symbol_types=where.symbol_types)


def only_paths(where: Filter) -> Filter:
    """The part of a filter that the files table can answer exactly."""
    return Filter(paths=where.paths, not_paths=where.not_paths)


def _restrictions(where: Filter) -> Iterator[_Restriction]:
    if where.languages:
        yield "language_id = any({languages}::text[])", {"languages": list(where.languages)}
    if where.paths:
        yield "filename ~ {paths}", {"paths": _any_path(where.paths)}
    if where.not_paths:
        yield "filename !~ {paths}", {"paths": _any_path(where.not_paths)}
    yield from _of_symbols(where)
    yield from _texts(where)
    yield from _words(where)


def _texts(where: Filter) -> Iterator[_Restriction]:
    for phrase in where.phrases:
        given = {f"phrase{n}": each.replace("\0", "") for n, each in enumerate(spellings(phrase))}
        conditions = [f"strpos(lower(content_text), lower({{{name}}})) > 0" for name in given]
        yield f"({' or '.join(conditions)})", given


def _words(where: Filter) -> Iterator[_Restriction]:
    for phrase in where.phrases:
        found = [phrase_query(each) for each in spellings(phrase)]
        if all(found):
            words = " | ".join(f"({words})" for words in dict.fromkeys(found))
            yield "content_tsv @@ to_tsquery('simple', {words})", {"words": words}


def phrase_query(phrase: str) -> str:
    """A text search that every chunk with the phrase passes, so that the index leaves few texts to
    be read; or "".

    Words between blanks are whole words of the text, the last may go on there. Of the first one
    only the end is known to be one, and what is not plain letters may be split in another way.
    """
    *others, last = phrase.split(" ")
    found = [f"'{word.lower()}'" for word in others[1:] if _LETTERS.fullmatch(word)]
    if others and (begun := _LETTERS.match(last)):
        found.append(f"'{begun[0].lower()}':*")
    return " & ".join(found)


def _of_symbols(where: Filter) -> Iterator[_Restriction]:
    kinds, name = list(where.symbol_types), symbol_regex(where.symbol_name or "")
    if kinds and where.symbol_name:
        yield _BOTH, {"kinds": kinds, "name": name}
    elif kinds:
        yield _KIND, {"kinds": kinds}
    elif where.symbol_name:
        yield _NAME, {"name": name}


def _any_path(globs: tuple[str, ...]) -> str:
    # One pattern by itself, so that PostgreSQL sees its fixed beginning and uses the key.
    regexes = [path_regex(glob.replace("\0", "")) for glob in globs]
    return regexes[0] if len(regexes) == 1 else "|".join(f"({regex})" for regex in regexes)
