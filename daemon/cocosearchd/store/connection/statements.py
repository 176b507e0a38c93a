"""Loads the SQL files and puts table names into them: the only place where an identifier becomes
SQL.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from psycopg import sql

from cocosearchd.model import IndexRecord

STORE = Path(__file__).parents[1]
# parts of statements, named as these are
SHARED = ("columns", "live", "place", "place_in_file", "asked")
_NAMED = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def named_statements() -> Mapping[str, str]:
    """Every statement of queries.sql by its name."""
    _, *parts = _NAMED.split((STORE / "queries.sql").read_text("utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))


@cache
def migrations(family: str) -> tuple[str, ...]:
    """The texts of `migrations/<family>_NNNN.sql`, the first one being version 1."""
    files = sorted((STORE / "migrations").glob(f"{family}_[0-9][0-9][0-9][0-9].sql"))
    assert [int(path.stem[-4:]) for path in files] == list(range(1, len(files) + 1)), (
        "a migration is missing"
    )
    return tuple(path.read_text("utf-8") for path in files)


def statement(
    name: str, record: IndexRecord | None = None, **parts: sql.Composable
) -> sql.Composed | bytes:
    """A statement of queries.sql, with the tables of an index and other `parts` in the place of its
    braces.
    """
    if parts:
        return compose(named_statements()[name], record, **parts)
    return _ready(name, *((record.slug, record.number, record.dimension) if record else ()))


def compose(text: str, record: IndexRecord | None = None, **parts: sql.Composable) -> sql.Composed:
    """`text` with its braces filled; a brace that is meant stands doubled."""
    # The texts are our own files: nothing from outside ever enters them but as an Identifier or a
    # Literal.
    names = _tables(record.slug, record.number, record.dimension) if record else {}
    return sql.SQL(text).format(**names, **parts)


@lru_cache(maxsize=4096)
def _ready(name: str, *index: Any) -> bytes:
    """Composing and quoting costs as much as a small query, and psycopg remembers what it made of
    equal bytes.
    """
    names = _tables(*index) if index else {}
    return sql.SQL(named_statements()[name]).format(**names).as_bytes()


@lru_cache(maxsize=256)
def _tables(slug: str, number: int, dimension: int) -> Mapping[str, sql.Composable]:
    short = f"codeindex_{number}"
    names = {
        "chunks": f"codeindex_{slug}__{slug}_chunks",
        "files": f"codeindex_{slug}__{slug}_files",
        "spares": f"codeindex_{slug}__{slug}_spares",
        "parses": f"cocosearch_parse_results_{slug}",
        # Names of keys and indexes would pass 63 bytes, so they are made of the registry's number.
        "chunks_key": f"{short}_chunks_key",
        "chunks_text": f"{short}_chunks_text",
        "chunks_language": f"{short}_chunks_language",
        "chunks_symbol": f"{short}_chunks_symbol",
        "chunks_kinds": f"{short}_chunks_kinds",
        "chunks_vector": f"{short}_chunks_vector",
        "files_key": f"{short}_files_key",
        "spares_key": f"{short}_spares_key",
        "parses_key": f"{short}_parses_key",
    }
    quoted: dict[str, sql.Composable] = {key: sql.Identifier(name) for key, name in names.items()}
    # The same names as texts, for to_regclass, which reads quotes as SQL does.
    texts = {f"{key}_name": sql.Literal(f'"{name}"') for key, name in names.items()}
    known = quoted | texts | {"dimension": sql.Literal(dimension), "number": sql.Literal(number)}
    return known | {name: sql.SQL(named_statements()[name]).format(**known) for name in SHARED}
