"""Filter -> SQL, in one function for all statements that search."""

from collections.abc import Iterator
from typing import Any

from psycopg import sql

from cocosearchd.model import Filter
from cocosearchd.store.globs import name_regex, path_regex

Condition = tuple[sql.Composable, dict[str, Any]]

# A qualified name and what follows its last separator.
_NAME_MATCHES = """exists (
    select from unnest(array_append(definitions, symbol_name)) as defined(name)
    where name ~* {pattern} or substring(name from '[^.:#/]+$') ~* {pattern}
)"""


def filter_sql(where: Filter) -> Condition:
    """A condition over the columns of a chunks table, and its values. Without restrictions it is `true`."""
    conditions, values = list[sql.Composable](), dict[str, Any]()
    for text, value in _restrictions(where):
        name = f"filter_{len(values)}"
        values[name] = value
        conditions.append(sql.SQL(text).format(pattern=sql.Placeholder(name)))
    return (sql.SQL(" and ").join(conditions) if conditions else sql.SQL("true")), values


def without_paths(where: Filter) -> Filter:
    """The part of a filter that the statistics of PostgreSQL can estimate."""
    return Filter(languages=where.languages, symbol_types=where.symbol_types)


def only_paths(where: Filter) -> Filter:
    """The part of a filter that the files table can answer exactly."""
    return Filter(paths=where.paths, not_paths=where.not_paths)


def _restrictions(where: Filter) -> Iterator[tuple[Any, Any]]:
    if where.languages:
        yield "language_id = any({pattern}::text[])", list(where.languages)
    if where.symbol_types:
        yield "symbol_type = any({pattern}::text[])", list(where.symbol_types)
    if where.paths:
        yield "filename ~ {pattern}", _any_path(where.paths)
    if where.not_paths:
        yield "filename !~ {pattern}", _any_path(where.not_paths)
    if where.symbol_name:
        yield _NAME_MATCHES, name_regex(where.symbol_name)
    for phrase in where.phrases:
        yield "strpos(lower(content_text), lower({pattern})) > 0", phrase.replace("\0", "")


def _any_path(globs: tuple[str, ...]) -> str:
    # One pattern by itself, so that PostgreSQL sees its fixed beginning and uses the key.
    regexes = [path_regex(glob.replace("\0", "")) for glob in globs]
    return regexes[0] if len(regexes) == 1 else "|".join(f"({regex})" for regex in regexes)
