"""Turns a `Filter` into SQL, by one function for all statements that search."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from psycopg import sql

from cocosearchd.model import Filter, spellings
from cocosearchd.store.globs import path_regex, symbol_regex

# At most 100: shorter than `identifiers.MAX_WORD`, where words are cut.
_LETTERS = re.compile(r"[A-Za-z]{1,100}")

Condition = tuple[sql.Composable, dict[str, Any]]
_Restriction = tuple[Any, dict[str, Any]]

# Rows older than `symbol_kinds` have one symbol, and the last parts of the other names.
_KIND = """(symbol_kinds && {kinds}::text[]
    or (symbol_kinds is null and symbol_type = any({kinds}::text[])))"""
_NAME = """(exists (select from unnest(symbol_names) as s(name) where name ~* {name})
    or (symbol_kinds is null and exists (
        select from unnest(array_append(definitions, symbol_name)) as s(name)
        where name ~* {name})))"""
# A single definition with the kind and the name; `&&` makes the query use the index.
_KIND_AND_NAME = """((symbol_kinds && {kinds}::text[] and exists (
        select from unnest(symbol_kinds, symbol_names) as s(kind, name)
        where kind = any({kinds}::text[]) and name ~* {name}))
    or (symbol_kinds is null and symbol_type = any({kinds}::text[]) and exists (
        select from unnest(array_append(definitions, symbol_name)) as s(name)
        where name ~* {name})))"""


def filter_sql(where: Filter) -> Condition:
    """Return a condition over the columns of a chunks table, and its values.

    Without restrictions it is `true`.
    """
    return _condition(_restrictions(where))


def chunk_filter_sql(where: Filter) -> Condition:
    """Return the conditions of a filter on phrases and symbols, for chunks found by their keys.

    They use no index.
    """
    return _condition(chain(_symbol_restrictions(where), _phrase_restrictions(where)))


def phrase_words_sql(where: Filter) -> Condition:
    """Return the conditions of phrases on the index of words, which PostgreSQL can estimate."""
    return _condition(_word_restrictions(where))


def _condition(restrictions: Iterator[_Restriction]) -> Condition:
    conditions = list[sql.Composable]()
    values = dict[str, Any]()
    for text, parameters in restrictions:
        names = {key: f"filter_{len(values) + n}" for n, key in enumerate(parameters)}
        values |= {names[key]: value for key, value in parameters.items()}
        conditions.append(
            sql.SQL(text).format(**{key: sql.Placeholder(name) for key, name in names.items()})
        )
    return (sql.SQL(" and ").join(conditions) if conditions else sql.SQL("true")), values


def without_paths(where: Filter) -> Filter:
    """Return the part of a filter that the statistics of PostgreSQL can estimate."""
    return Filter(languages=where.languages, symbol_types=where.symbol_types)


def only_paths(where: Filter) -> Filter:
    """Return the part of a filter that the files table can answer exactly."""
    return Filter(paths=where.paths, not_paths=where.not_paths)


def _restrictions(where: Filter) -> Iterator[_Restriction]:
    if where.languages:
        yield "language_id = any({languages}::text[])", {"languages": list(where.languages)}
    if where.paths:
        yield "filename ~ {paths}", {"paths": _any_path(where.paths)}
    if where.not_paths:
        yield "filename !~ {paths}", {"paths": _any_path(where.not_paths)}
    yield from _symbol_restrictions(where)
    yield from _phrase_restrictions(where)
    yield from _word_restrictions(where)


def _phrase_restrictions(where: Filter) -> Iterator[_Restriction]:
    for phrase in where.phrases:
        parameters = {
            f"phrase{n}": spelling.replace("\0", "") for n, spelling in enumerate(spellings(phrase))
        }
        conditions = [f"strpos(lower(content_text), lower({{{name}}})) > 0" for name in parameters]
        yield f"({' or '.join(conditions)})", parameters


def _word_restrictions(where: Filter) -> Iterator[_Restriction]:
    for phrase in where.phrases:
        queries = [phrase_query(spelling) for spelling in spellings(phrase)]
        if all(queries):
            words = " | ".join(f"({query})" for query in dict.fromkeys(queries))
            yield "content_tsv @@ to_tsquery('simple', {words})", {"words": words}


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


def _symbol_restrictions(where: Filter) -> Iterator[_Restriction]:
    kinds = list(where.symbol_types)
    name = symbol_regex(where.symbol_name or "")
    if kinds and where.symbol_name:
        yield _KIND_AND_NAME, {"kinds": kinds, "name": name}
    elif kinds:
        yield _KIND, {"kinds": kinds}
    elif where.symbol_name:
        yield _NAME, {"name": name}


def _any_path(globs: tuple[str, ...]) -> str:
    # A single pattern stays as it is, so that PostgreSQL sees its fixed prefix and uses the key.
    regexes = [path_regex(glob.replace("\0", "")) for glob in globs]
    return regexes[0] if len(regexes) == 1 else "|".join(f"({regex})" for regex in regexes)
