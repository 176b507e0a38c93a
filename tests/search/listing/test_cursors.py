"""Forged cursors of clients are refused in one sentence."""

import base64
import json
from collections.abc import Callable

import pytest

from cocosearchd.api.verbs import grep, references
from cocosearchd.errors import InvalidInput
from cocosearchd.forms.path_forms import path_text
from cocosearchd.graph.questions.reference_pages import ReferenceLocation
from cocosearchd.search.answers import file_listing
from cocosearchd.search.listing.cursors import (
    MAX_CURSOR,
    MAX_GENERATION,
    PageStart,
    read_cursor,
    read_page_start,
    write_page_start,
)
from cocosearchd.search.listing.list_cursor import decode_cursor
from cocosearchd.store.lineage import LINEAGE

TWO_TEXTS = ((str,), (str,))
FORGED = (
    "[" * 200_000,
    "x" * 1_000_000,
    json.dumps(["a", "\ud800"]),
    json.dumps(["a", "b\0c"]),
    json.dumps(["a" * MAX_CURSOR, "b"]),
    json.dumps(["a", 1e300]),
    json.dumps(["a", -1]),
    '{"a": 1}',
    "[NaN, Infinity]",
    "[1, 2, 3, 4, 5, 6, 7, 8, 9]",
    "[1, 2, 3, 4, 5, 6, 7, 8]",
    "[1, 2, 3, 4, 5, 6, 7]",
    "null",
    "",
)


def read_list(cursor: str) -> object:
    return decode_cursor(base64.urlsafe_b64encode(cursor.encode(errors="replace")).decode())


@pytest.mark.parametrize("cursor", FORGED, ids=range(len(FORGED)))
@pytest.mark.parametrize(
    "read",
    [
        lambda cursor: read_cursor(cursor, TWO_TEXTS),
        file_listing._read_cursor,
        grep._read_cursor,
        references._read_location,
        lambda cursor: read_page_start(cursor or "x", 9),
        read_list,
        decode_cursor,
    ],
    ids=["any", "files", "grep", "references", "offset", "symbols", "text of symbols"],
)
def test_a_forged_cursor_is_refused(read: Callable[[str], object], cursor: str) -> None:
    with pytest.raises(InvalidInput, match="is not a cursor") as refusal:
        read(cursor)
    assert len(refusal.value.message) < 400


def test_a_path_of_any_bytes_is_a_value_of_a_cursor() -> None:
    path = path_text(b"\xff" * 4096)
    assert read_cursor(json.dumps(["index", path]), TWO_TEXTS) == ["index", path]
    assert read_page_start(None, 9) == read_page_start("", 9) == PageStart()
    assert read_page_start("9", 9) == PageStart(9)


def test_a_page_after_a_change_says_that_entries_may_have_moved() -> None:
    start = read_page_start(write_page_start(9, 70), 9)
    assert start == PageStart(9, 70)
    assert start.shift_notes(70) == ()
    assert "missing or repeated" in start.shift_notes(71)[0]
    assert PageStart(9).shift_notes(71) == ()
    with pytest.raises(InvalidInput):
        read_page_start(write_page_start(10, 70), 9)


def test_a_generation_after_a_loss_of_commits_is_read() -> None:
    generation = 3 * LINEAGE + 7
    assert read_page_start(write_page_start(9, generation), 9) == PageStart(9, generation)
    grep_cursor = json.dumps(["index", "a.py", 1, generation])
    assert grep._read_cursor(grep_cursor).generation == generation
    location = ReferenceLocation(False, "a.py", 1, 2, "call", "certain")
    cursor = references._write_location(location, generation)
    assert references._read_location(cursor).generation == generation


@pytest.mark.parametrize("generation", [-1, True, None, 1.5, "7", MAX_GENERATION + 1])
def test_a_forged_generation_is_refused(generation: object) -> None:
    with pytest.raises(InvalidInput):
        read_page_start(json.dumps([9, generation]), 9)
