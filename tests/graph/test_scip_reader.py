"""SCIP indexes are read from bytes that are written here by hand, and from hostile ones."""

import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.errors import InvalidInput
from cocosearchd.graph.scip import scip_reader
from cocosearchd.graph.scip.scip_reader import (
    DEFINITION,
    UTF8,
    ScipDocument,
    ScipMetadata,
    ScipOccurrence,
    read_index,
)
from tests.graph.scip_encoder import document, head, message, number, occurrence, varint


def read_documents(data: bytes) -> Iterator[ScipDocument]:
    """Yield the documents of an index."""
    return (part for part in read_index(BytesIO(data)) if isinstance(part, ScipDocument))


def test_documents_have_occurrences_and_documentation() -> None:
    symbol = message(3, message(1, "a b c `m`/f().") + message(3, "def f()") + message(3, "more"))
    document = (
        message(1, "src/größe.py")
        + occurrence(3, 4, 300, symbol="a b c `m`/f().", roles=DEFINITION)
        + occurrence(3, 4, 5, 2, symbol="local 1")
        + symbol
        + number(6, 1)
    )
    data = message(1, message(2, "tool")) + message(2, document)
    (result,) = read_documents(data)
    assert result.path == "src/größe.py"
    assert result.occurrences == (
        ScipOccurrence(4, 5, 301, "a b c `m`/f().", DEFINITION),
        ScipOccurrence(4, 5, 3, "local 1", 0),
    )
    assert result.documentation == {"a b c `m`/f().": "def f()"}


def test_ranges_may_be_written_one_number_at_a_time() -> None:
    numbers = number(1, 0) + number(1, 2) + number(1, 7)
    data = message(2, message(1, "a") + message(2, numbers + message(2, "x")))
    assert next(read_documents(data)).occurrences == (ScipOccurrence(1, 3, 8, "x", 0),)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(message(2, message(1, "a"))[:-1], id="ends within a message"),
        pytest.param(b"\x80" * 20, id="a number without an end"),
        pytest.param(b"#!/usr/bin/env python\n", id="another file"),
        pytest.param(message(2, message(2, message(2, "x"))), id="an occurrence without a range"),
        pytest.param(message(2, message(2, message(1, b"\x01"))), id="half a range"),
        pytest.param(varint(2 << 3 | 2) + varint(1 << 40), id="a document of a terabyte"),
    ],
)
def test_other_bytes_are_refused_with_what_to_do(data: bytes) -> None:
    with pytest.raises(InvalidInput) as refusal:
        list(read_documents(data))
    assert "again" in str(refusal.value.hint) or "Exclude" in str(refusal.value.hint)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(InvalidInput):
        assert all(document.path is not None for document in read_documents(data))


def test_the_head_the_text_and_the_unit_of_columns_are_read() -> None:
    data = head("file:///srv/a") + document(
        "a.py", "x", [("x", "s")], message(5, "x"), number(6, UTF8)
    )
    metadata, result = read_index(BytesIO(data))
    assert metadata == ScipMetadata("file:///srv/a")
    assert isinstance(result, scip_reader.ScipDocument)
    assert (result.text, result.encoding) == ("x", UTF8)


def test_a_document_with_too_many_occurrences_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scip_reader, "MAX_OCCURRENCES", 2)
    assert len(next(read_documents(document("a", "x x", [("x", "s")] * 2))).occurrences) == 2
    with pytest.raises(InvalidInput, match="more than 2 occurrences"):
        next(read_documents(document("a", "x x x", [("x", "s")] * 3)))


def test_a_range_of_millions_of_numbers_takes_little_memory() -> None:
    data = message(2, message(1, "a") + message(2, message(1, b"\x01" * 2_000_000)))
    tracemalloc.start()
    with pytest.raises(InvalidInput, match="without a range"):
        list(read_documents(data))
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 3 * len(data)


def test_described_symbols_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scip_reader, "MAX_OCCURRENCES", 10)
    symbols = b"".join(message(3, message(1, f"symbol {number}")) for number in range(11))
    with pytest.raises(InvalidInput, match="described symbols"):
        list(read_documents(message(2, message(1, "a") + symbols)))
