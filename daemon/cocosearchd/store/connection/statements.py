"""Loads the SQL files and fills in table names: the only place where an identifier becomes SQL."""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from psycopg import sql

from cocosearchd.errors import Refused
from cocosearchd.model import IndexRecord

STORE = Path(__file__).parents[1]
# Parts of statements, named in queries.sql like statements.
SHARED = (
    "texts",
    "columns",
    "content_columns",
    "live",
    "place",
    "place_in_file",
    "requested",
)
# Parts of statements that insert rows, by whether the schema is distributed. A distributed schema
# takes the new generation and time from the row of the index, where they were stored before.
INSERT_PARTS: Mapping[bool, Mapping[str, str]] = {
    False: {
        "beside": "",
        "registered": "true",
        # 0 without the index: the statement that raises the generation tells that it is gone.
        "new_generation": "coalesce((select generation from {indexes} where number = {number}), 0)",
        "change_time": "now()",
        "chunk_numbers_array": "chunk_numbers::int8[]",
        "starts_array": "starts::int8[]",
        "first_lines_array": "first_lines::int4[]",
        "retain_deleted": "{retain_deleted}",
    },
    True: {
        "beside": "{indexes} cross join",
        "registered": "number = {number}",
        "new_generation": "generation",
        "change_time": "last_change",
        "chunk_numbers_array": "string_to_array(btrim(chunk_numbers, '{{}}'), ',')::int8[]",
        "starts_array": "string_to_array(btrim(starts, '{{}}'), ',')::int8[]",
        "first_lines_array": "string_to_array(btrim(first_lines, '{{}}'), ',')::int4[]",
        "retain_deleted": "",
    },
}
_NAMED = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"--.*$", re.MULTILINE)
# A statement with one of these words changes rows or tables, or takes a lock that writers wait for.
_WRITE = re.compile(
    r"\b(insert|update|delete|copy|truncate|create|alter|drop|lock|reindex|vacuum|analyze"
    r"|pg_advisory\w*|pg_try_advisory\w*)\b",
    re.IGNORECASE,
)


@cache
def named_statements() -> Mapping[str, str]:
    """Read every statement of queries.sql, by name."""
    _, *parts = _NAMED.split((STORE / "queries.sql").read_text("utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))


@cache
def migrations(family: str) -> tuple[str, ...]:
    """Read the texts of `migrations/<family>_NNNN.sql`; the first is version 1."""
    files = sorted((STORE / "migrations").glob(f"{family}_[0-9][0-9][0-9][0-9].sql"))
    assert [int(path.stem[-4:]) for path in files] == list(range(1, len(files) + 1)), (
        "a migration is missing"
    )
    return tuple(path.read_text("utf-8") for path in files)


def is_write(text: str) -> bool:
    """Return True for a statement that changes rows or tables, or takes a lock of writers."""
    return _WRITE.search(_COMMENT.sub("", text)) is not None


@cache
def newest_schema(family: str) -> str:
    """Read the schema that all migrations of a family lead to, to create missing tables."""
    return (STORE / "schema" / f"{family}.sql").read_text("utf-8")


def split_statements(text: str) -> tuple[str, ...]:
    """Split the text of a file of the store into its statements, without comments.

    In those files, a comment is a line of its own, and a semicolon at the end of a line ends a
    statement.
    """
    statements = [""]
    for line in text.splitlines():
        if line.lstrip().startswith("--"):
            continue
        statements[-1] += f"{line}\n"
        if line.endswith(";"):
            statements.append("")
    return tuple(part.strip() for part in statements if part.strip())


def statement(
    name: str,
    record: IndexRecord | None = None,
    *,
    schema: str = "",
    distributed: bool = False,
    **parts: sql.Composable,
) -> sql.Composed | bytes:
    """Return a statement of queries.sql, filled with the tables of an index and `parts`.

    `distributed` chooses the parts of a statement that inserts rows into a distributed schema.
    Without a record, the registry is that of `schema`, "" for the daemon's own. Raises `Refused`
    for a statement that writes into the schema of another daemon.
    """
    if parts:
        return compose(named_statements()[name], record, **parts)
    if record is None:
        return _compose_cached(name, schema, distributed)
    index = (record.slug, record.number, record.dimension)
    return _compose_cached(name, record.schema, distributed, *index)


def compose(text: str, record: IndexRecord | None = None, **parts: sql.Composable) -> sql.Composed:
    """Fill the braces of `text`; a literal brace is doubled. Raises as `statement` does.

    `parts` may replace tables.
    """
    # The texts are the project's own files. All other values enter as an Identifier or a Literal.
    if record is None:
        return sql.SQL(text).format(**{**_registry(""), **parts})
    _check_owner(text, record.schema)
    names = _tables(record.schema, record.slug, record.number, record.dimension)
    return sql.SQL(text).format(**{**names, **parts})


@lru_cache(maxsize=4096)
def _compose_cached(name: str, schema: str, distributed: bool, *index: Any) -> bytes:
    """Compose a statement once for each index.

    Composing and quoting cost as much as a small query, and psycopg caches its work by equal bytes.
    """
    text = named_statements()[name]
    _check_owner(text, schema)
    names = _tables(schema, *index) | _inserts(distributed, *index) if index else _registry(schema)
    return sql.SQL(text).format(**names).as_bytes()


@lru_cache(maxsize=256)
def _inserts(distributed: bool, *index: Any) -> dict[str, sql.Composable]:
    """Return the parts of statements that insert rows."""
    names = _tables("", *index)
    names = {
        **names,
        "retain_deleted": sql.SQL(named_statements()["retain_deleted"]).format(**names),
    }
    return {part: sql.SQL(text).format(**names) for part, text in INSERT_PARTS[distributed].items()}


def _check_owner(text: str, schema: str) -> None:
    """Raise `Refused` for a statement that writes into the schema of another daemon."""
    if schema and is_write(text):
        raise Refused(
            f"the index is of the daemon of schema {schema}, and is only read here",
            "change it there",
        )


# The tables of an index in any version, and those of a registry.
_INDEX_TABLES = ("files", "chunks", "parses", "retained_chunks", "spares", "words")
_REGISTRY_TABLES = ("publications", "precise_uses", "indexes", "registry")


def table_names(record: IndexRecord | None = None) -> list[str]:
    """Return the names of the tables of an index, without their schema; None: those of the registry."""
    if record is None:
        return [f"cocosearch_{name}" for name in _REGISTRY_TABLES]
    tables = _table_names(record.slug)
    return [tables[name] for name in _INDEX_TABLES]


@cache
def _registry(schema: str) -> Mapping[str, sql.Composable]:
    """Return the tables of a registry, by the names that statements use."""
    return {name: _table(schema, f"cocosearch_{name}") for name in _REGISTRY_TABLES}


def _table(schema: str, name: str) -> sql.Identifier:
    return sql.Identifier(schema, name) if schema else sql.Identifier(name)


def _table_names(slug: str) -> dict[str, str]:
    return {
        "chunks": f"codeindex_{slug}__{slug}_chunks",
        "files": f"codeindex_{slug}__{slug}_files",
        "retained_chunks": f"cocosearch_retained_chunks_{slug}",
        "parses": f"cocosearch_parse_results_{slug}",
        "words": f"cocosearch_words_{slug}",
        "spares": f"codeindex_{slug}__{slug}_spares",  # retained chunks, in earlier versions
    }


@lru_cache(maxsize=256)
def _tables(schema: str, slug: str, number: int, dimension: int) -> dict[str, sql.Composable]:
    short = f"codeindex_{number}"
    names = {
        **_table_names(slug),
        # Slugs would make names of keys and indexes longer than 63 bytes, so they use the number.
        "chunks_key": f"{short}_chunks_key",
        "chunks_language": f"{short}_chunks_language",
        "chunks_symbol": f"{short}_chunks_symbol",
        "chunks_kinds": f"{short}_chunks_kinds",
        "chunks_vector": f"{short}_chunks_vector",
        "files_key": f"{short}_files_key",
        "retained_chunks_key": f"{short}_retained_chunks_key",
        "parses_key": f"{short}_parses_key",
        "words_key": f"{short}_words_key",
        "words_text": f"{short}_words_text",
        # Names that only earlier migrations use.
        "chunks_text": f"{short}_chunks_text",
        "spares_key": f"{short}_spares_key",
    }
    quoted: dict[str, sql.Composable] = {key: _table(schema, name) for key, name in names.items()}
    # The same names as texts, for to_regclass, which reads quotes as SQL does.
    texts = {
        f"{key}_name": sql.Literal(_table(schema, name).as_string()) for key, name in names.items()
    }
    parts = quoted | texts | {"dimension": sql.Literal(dimension), "number": sql.Literal(number)}
    parts |= _registry(schema)
    for name in SHARED:  # in this order: a part may contain earlier ones
        parts[name] = sql.SQL(named_statements()[name]).format(**parts)
    return parts
