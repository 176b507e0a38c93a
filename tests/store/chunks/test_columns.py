"""The columns of a row of a chunk have the same names and order everywhere."""

import re
from pathlib import Path

import pytest

from cocosearchd.store.chunks.rows import CHUNK_COLUMNS, COPY_TYPES

STORE = Path(__file__).resolve().parents[3] / "daemon" / "cocosearchd" / "store"
# Columns that only rows have which are older than the packed texts.
OLDER = {
    *("content_text", "block_type", "hierarchy", "symbol_type", "symbol_name", "symbol_signature"),
    *("definitions", "header"),
}
SHORT = {"integer": "int4", "bigint": "int8"}  # names of types in the schema -> of the driver


def columns_of(name: str) -> list[str]:
    """Return the columns that a statement writes, in its order."""
    text = (STORE / "queries.sql").read_text("utf-8").partition(f"-- name: {name}\n")[2]
    columns = re.search(r"{chunks} \(([^)]+)\)", text)
    assert columns is not None
    return [name.strip() for name in columns[1].split(",")]


def schema_types() -> dict[str, str]:
    """Return the types of the columns that are written, by name."""
    text = (STORE / "schema" / "index.sql").read_text("utf-8")
    table = text.partition("create table {chunks} (")[2].partition("\n);")[0]
    columns = re.findall(r"^    (\w+) ([\w\[\]]+)(.*)$", table, re.MULTILINE)
    return {
        name: SHORT.get(kind, kind)
        for name, kind, rest in columns
        if name != "constraint" and "generated" not in rest
    }


def test_rows_are_copied_with_the_types_of_the_schema() -> None:
    types = schema_types()
    assert [types[name] for name in columns_of("copy_chunks")] == list(COPY_TYPES)
    assert types.keys() == set(columns_of("copy_chunks")) | OLDER


@pytest.mark.parametrize("name", ["copy_chunks", "insert_chunk", "insert_chunks"])
def test_each_way_to_write_rows_names_the_same_columns(name: str) -> None:
    assert columns_of(name) == list(CHUNK_COLUMNS)
