"""Definitions of changed lines."""

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.graph.code_files import WHOLE_FILE
from cocosearchd.graph.questions.changed_symbols import Hunk, changed_symbols, shift_hunks
from tests.graph.memory_files import code_file, symbol

# 1 import / 2-9 class A: 3-4 m, 6-7 n / 11-12 def f / 13-14 def g
FILE = code_file(
    "a.py",
    [
        symbol("A", (2, 9), kind="class"),
        symbol("m", (3, 4), "A"),
        symbol("n", (6, 7), "A"),
        symbol("f", (11, 12)),
        symbol("g", (13, 14)),
    ],
)


@pytest.mark.parametrize(
    ("start", "count", "positions"),
    [
        (1, 1, (WHOLE_FILE,)),
        (2, 1, (0,)),
        (4, 1, (1,)),
        (5, 1, (0,)),
        (4, 3, (0, 1, 2)),
        (10, 2, (WHOLE_FILE, 3)),
        (12, 2, (3, 4)),
        (1, 20, (WHOLE_FILE, 0, 1, 2, 3, 4)),
        (15, 9, (WHOLE_FILE,)),
        (3, 0, (1,)),  # a line is gone between two lines of m
        (4, 0, (0,)),  # after m, in the class
        (12, 0, (WHOLE_FILE,)),  # between two functions: neither has changed
        (9, 0, (WHOLE_FILE,)),
        (0, 0, (WHOLE_FILE,)),
        (99, 0, (WHOLE_FILE,)),
    ],
)
def test_the_innermost_definition_of_a_line_has_changed(
    start: int, count: int, positions: tuple[int, ...]
) -> None:
    assert changed_symbols(FILE, [Hunk(1, 1, start, count)]) == positions


def test_a_file_without_definitions_has_changed_as_a_whole() -> None:
    assert changed_symbols(code_file("a.txt"), [Hunk(1, 1, 5, 2)]) == (WHOLE_FILE,)


def hunks_of(first: str, second: str) -> list[Hunk]:
    """Return the hunks between two texts with one character a line."""
    codes = difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    return [
        Hunk(i1 + (i2 > i1), i2 - i1, j1 + (j2 > j1), j2 - j1)
        for tag, i1, i2, j1, j2 in codes
        if tag != "equal"
    ]


def test_lines_are_found_again_in_a_later_text() -> None:
    hunks = hunks_of("abc", "abXc")
    assert shift_hunks(hunks, hunks_of("abXc", "12abXc")) == (Hunk(2, 0, 5, 1),)
    assert shift_hunks(hunks, hunks_of("abXc", "bXc")) == (Hunk(2, 0, 2, 1),)
    assert shift_hunks(hunks, hunks_of("abXc", "abYYc")) == (Hunk(2, 0, 3, 2),)


_TEXT = st.text("abcd", max_size=12)


@given(_TEXT, _TEXT, _TEXT)
def test_a_line_that_stays_keeps_its_character(first: str, second: str, third: str) -> None:
    later = hunks_of(second, third)
    changed = {
        line for hunk in later for line in range(hunk.old_start, hunk.old_start + hunk.old_count)
    }
    for number, character in enumerate(second, 1):
        [shifted] = shift_hunks([Hunk(1, 1, number, 1)], later)
        if number not in changed:
            assert third[shifted.new_start - 1] == character
            assert shifted.new_count == 1


def test_10_000_gaps_in_10_000_definitions_are_looked_up_quickly() -> None:
    file = code_file("a.py", [symbol(f"f{i}", (2 * i + 1, 2 * i + 2)) for i in range(10_000)])
    gaps = [Hunk(1, 1, 2 * i + 1, 0) for i in range(10_000)]
    assert changed_symbols(file, gaps) == tuple(range(10_000))
