"""Composes the SQL of a `Filter` for all statements that search. The meaning is in `filters`."""

from collections.abc import Iterable
from itertools import chain
from typing import Any, Literal

from psycopg import sql

from cocosearchd.filters.conditions import Restriction
from cocosearchd.filters.filter_fields import (
    FILTER_FIELDS,
    Filter,
    chunk_conditions,
    chunk_restrictions,
    file_restrictions,
    select_fields,
)

Condition = tuple[sql.Composable, dict[str, Any]]


def filter_sql(where: Filter) -> Condition:
    """Return a condition over the columns of a chunks table, and its values.

    Without restrictions it is `true`. It has no phrases: see `text_scan.resolve_filter`.
    """
    assert not where.phrases, "texts are packed: their phrases are resolved before"
    return _join(chain(file_restrictions(where), chunk_restrictions(where)))


def file_filter_sql(where: Filter) -> Condition:
    """Return the conditions of a filter on files, over the columns of a files table."""
    return _join(file_restrictions(where))


def chunk_filter_sql(where: Filter) -> Condition:
    """Return the conditions of a filter on symbols, for chunks found by their keys.

    These conditions use no index. `PhraseCondition.matcher` evaluates those on phrases.
    """
    return _join(chunk_restrictions(where))


def symbol_sql(where: Filter) -> Condition:
    """Return the conditions of a filter on a single symbol, over its columns kind and name."""
    symbols, _ = chunk_conditions(where)
    return _join(symbols.symbol_restrictions(), "symbol")


def written_sql(where: Filter) -> Condition:
    """Return the condition that a symbol has exactly the filter's name; `true` without a name."""
    symbols, _ = chunk_conditions(where)
    return _join(symbols.written_restrictions(), "written")


def phrase_words_sql(where: Filter) -> Condition:
    """Return weaker conditions of phrases over the table of words, which use the index of words.

    Without values, there are no conditions.
    """
    _, phrases = chunk_conditions(where)
    return _join(phrases.word_restrictions(), "words")


def select_match_count(
    where: Filter, match_count: Literal["estimated", "counted", "unknown"]
) -> Filter:
    """Return the part of a filter whose matches are estimated, counted, or unknown in advance."""
    return select_fields(where, (row for row in FILTER_FIELDS if row.match_count == match_count))


def _join(restrictions: Iterable[Restriction], prefix: str = "filter") -> Condition:
    conditions = list[sql.Composable]()
    values = dict[str, Any]()
    for text, parameters in restrictions:
        names = {key: f"{prefix}_{len(values) + n}" for n, key in enumerate(parameters)}
        values |= {names[key]: value for key, value in parameters.items()}
        conditions.append(
            sql.SQL(text).format(**{key: sql.Placeholder(name) for key, name in names.items()})
        )
    return (sql.SQL(" and ").join(conditions) if conditions else sql.SQL("true")), values
