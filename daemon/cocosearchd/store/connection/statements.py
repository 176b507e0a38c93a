"""Loads the SQL files and fills in table names: the only place where an identifier becomes SQL."""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from psycopg import sql

from cocosearchd.model import IndexRecord

STORE = Path(__file__).parents[1]
# Parts of statements, named in queries.sql like statements.
SHARED = ("columns", "live", "place", "place_in_file", "requested")
_NAMED = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


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


def statement(
    name: str, record: IndexRecord | None = None, **parts: sql.Composable
) -> sql.Composed | bytes:
    """Return a statement of queries.sql, filled with the tables of an index and `parts`."""
    if parts:
        return compose(named_statements()[name], record, **parts)
    return _compose_cached(
        name, *((record.slug, record.number, record.dimension) if record else ())
    )


def compose(text: str, record: IndexRecord | None = None, **parts: sql.Composable) -> sql.Composed:
    """Fill the braces of `text`; a literal brace is doubled."""
    # The texts are the project's own files: all else enters as an Identifier or a Literal.
    names = _tables(record.slug, record.number, record.dimension) if record else {}
    return sql.SQL(text).format(**names, **parts)


@lru_cache(maxsize=4096)
def _compose_cached(name: str, *index: Any) -> bytes:
    """Compose a statement once for each index.

    Composing and quoting cost as much as a small query, and psycopg caches its work by equal bytes.
    """
    names = _tables(*index) if index else {}
    return sql.SQL(named_statements()[name]).format(**names).as_bytes()


@lru_cache(maxsize=256)
def _tables(slug: str, number: int, dimension: int) -> Mapping[str, sql.Composable]:
    short = f"codeindex_{number}"
    names = {
        "chunks": f"codeindex_{slug}__{slug}_chunks",
        "files": f"codeindex_{slug}__{slug}_files",
        "retained_chunks": f"cocosearch_retained_chunks_{slug}",
        "parses": f"cocosearch_parse_results_{slug}",
        "words": f"cocosearch_words_{slug}",
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
        "spares": f"codeindex_{slug}__{slug}_spares",
        "spares_key": f"{short}_spares_key",
    }
    quoted: dict[str, sql.Composable] = {key: sql.Identifier(name) for key, name in names.items()}
    # The same names as texts, for to_regclass, which reads quotes as SQL does.
    texts = {f"{key}_name": sql.Literal(f'"{name}"') for key, name in names.items()}
    parts = quoted | texts | {"dimension": sql.Literal(dimension), "number": sql.Literal(number)}
    return parts | {name: sql.SQL(named_statements()[name]).format(**parts) for name in SHARED}
