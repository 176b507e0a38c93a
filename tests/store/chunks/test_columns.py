"""The columns of a row of a chunk have the same names and order everywhere."""

import re
from pathlib import Path

from cocosearchd.store.chunks.rows import COPY_TYPES

STORE = Path(__file__).resolve().parents[3] / "daemon" / "cocosearchd" / "store"
# Columns that only rows have which are older than the packed texts.
OLDER = {
    *("content_text", "block_type", "hierarchy", "symbol_type", "symbol_name", "symbol_signature"),
    *("definitions", "header"),
}
SHORT = {"integer": "int4", "bigint": "int8"}  # names of types in the schema -> of the driver


def copied_columns() -> list[str]:
    """Return the columns of the statement copy_chunks, in its order."""
    text = (STORE / "queries.sql").read_text("utf-8").partition("-- name: copy_chunks\n")[2]
    columns = re.search(r"copy {chunks} \(([^)]+)\)", text)
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
    assert [types[name] for name in copied_columns()] == list(COPY_TYPES)
    assert types.keys() == set(copied_columns()) | OLDER
