"""Matching lines, their columns, and the lines around them."""

import re

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.errors import InvalidInput
from cocosearchd.search.grep.line_matching import MAX_LINE, LineMatcher
from cocosearchd.search.grep.line_pattern import MAX_PATTERN, LinePattern, check_pattern
from cocosearchd.search.grep.matching_lines import LineOptions, MatchingLine

ALL = LineOptions(max_lines=1000)
TEXT = b"import os\n\ndef load(path):\n    return open(path)\n\nload('a')\n"


def numbers(pattern: LinePattern, content: bytes) -> list[int]:
    return [line.number for line in LineMatcher(pattern).find(content, ALL).lines]


def test_a_line_counts_once_and_has_the_column_of_its_first_match() -> None:
    matches = LineMatcher(LinePattern("path")).find(b"x\n  path, path\n\xc3\xa9 path", ALL)
    assert matches.count == 2
    assert [(line.number, line.column, line.text) for line in matches.lines] == [
        (2, 3, "  path, path"),
        (3, 3, "é path"),
    ]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("^$", [2, 5]),
        (r"\)$", [4, 6]),
        ("^load", [6]),
        (r"^\s*return", [4]),
        ("a|zzz|x*", [1, 2, 3, 4, 5, 6]),
        ("[^a]open", [4]),
        (r"load\s+return", []),
        ("LOAD", []),
        ("(?i)LOAD", [3, 6]),
    ],
)
def test_patterns_match_within_one_line(pattern: str, expected: list[int]) -> None:
    assert numbers(LinePattern(pattern), TEXT) == expected


def test_options_of_a_pattern() -> None:
    assert numbers(LinePattern("PATH", ignore_case=True), TEXT) == [3, 4]
    assert numbers(LinePattern("(path)", fixed=True), TEXT) == [3, 4]
    assert numbers(LinePattern("pat|oa", whole_words=True), TEXT) == []
    assert numbers(LinePattern("path|pat", whole_words=True), TEXT) == [3, 4]
    assert numbers(LinePattern("caf", whole_words=True), "café\ncaf é".encode()) == [2]


def test_the_column_of_a_whole_word_is_that_of_the_word() -> None:
    (line,) = LineMatcher(LinePattern("(a)b", whole_words=True)).find(b"xab ab", ALL).lines
    assert line.column == 5


def test_a_byte_order_mark_and_carriage_returns_are_no_part_of_a_line() -> None:
    (line,) = LineMatcher(LinePattern("^one")).find(b"\xef\xbb\xbfone\r\ntwo\r\n", ALL).lines
    assert (line.number, line.column, line.text) == (1, 1, "one")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("e$", [1]),
        ("^$", [2]),
        (r"\s$", [3]),
        ("[$.]", []),
        (r"\r$", [1, 2, 3]),
        (r"o\x0d?$", [4]),
        (r"\Aone$", [1]),
        (r"(\\r|e)$", [1]),
        (r"(\\x0d|e)$", [1]),
        (r"(\\\r|o)$", [4]),
    ],
)
def test_the_end_of_a_line_is_before_its_carriage_return(pattern: str, expected: list[int]) -> None:
    matcher = LineMatcher(LinePattern(pattern))
    content = b"one\r\n\r\nthree \r\ntwo"
    matches = matcher.find(content, ALL)
    assert [line.number for line in matches.lines] == expected
    assert matches.count == matcher.count(content, ALL) == len(expected)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_with_context_are_the_whole_answer(limit: int) -> None:
    content = b"".join(b"%d\n" % number for number in range(1, 21))
    matcher = LineMatcher(LinePattern("^(2|6|7|12|20)$"))
    matches = matcher.find(content, LineOptions(100, context=3))
    lines = list[MatchingLine]()
    while len(lines) < matches.count:
        after_line = lines[-1].number if lines else 0
        lines += matcher.find(content, LineOptions(limit, context=3), after_line).lines
    assert tuple(lines) == matches.lines


def test_context_shows_no_line_twice() -> None:
    content = b"".join(b"%d\n" % number for number in range(1, 21))
    options = LineOptions(max_lines=10, context=3)
    lines = LineMatcher(LinePattern("^(2|6|7|20)$")).find(content, options).lines
    assert [(line.lines_before, line.text, line.lines_after) for line in lines] == [
        (("1",), "2", ("3", "4", "5")),
        ((), "6", ()),
        ((), "7", ("8", "9", "10")),
        (("17", "18", "19"), "20", ()),
    ]


@pytest.mark.parametrize("pattern", ["a+", "a", "a.", "(a|b)"])
@pytest.mark.parametrize("fixed", [False, True])
def test_the_count_is_the_same_however_many_lines_are_returned(pattern: str, fixed: bool) -> None:
    content = b"\na a\nb\n\na+ a. (a|b)\r\n\xff a\nba\naa (a|b)(a|b)\na+\nlast a"
    matcher = LineMatcher(LinePattern(pattern, fixed))
    for after_line in (0, 1, 5, 9, 50):
        lines = matcher.find(content, LineOptions(100), after_line).lines
        for limit in range(len(lines) + 2):
            matches = matcher.find(content, LineOptions(limit), after_line)
            assert (matches.count, matches.lines) == (len(lines), lines[:limit])
            first = matcher.find(content, LineOptions(limit, first_only=True), after_line)
            assert (first.count, first.lines) == (min(1, len(lines)), lines[: min(1, limit)])


def test_all_lines_are_counted_and_the_first_are_returned() -> None:
    matches = LineMatcher(LinePattern("a")).find(b"a\n" * 50, LineOptions(max_lines=2))
    assert (matches.count, len(matches.lines)) == (50, 2)
    first_only = LineOptions(max_lines=0, first_only=True)
    assert LineMatcher(LinePattern("a")).find(b"a\n" * 50, first_only).count == 1
    later = LineMatcher(LinePattern("a")).find(b"a\n" * 50, LineOptions(max_lines=2), 47)
    assert (later.count, [line.number for line in later.lines]) == (3, [48, 49])


def test_a_long_line_is_cut_around_its_match() -> None:
    content = b"x" * 100_000 + b"needle" + b"y" * 100_000
    (line,) = LineMatcher(LinePattern("needle")).find(content, ALL).lines
    assert line.column == 100_001
    assert "needle" in line.text
    assert len(line.text) == MAX_LINE + 2


@pytest.mark.parametrize(
    "pattern", ["", "a\nb", r"a\nb", r"a\\\nb", r"a\Cb", "x" * (MAX_PATTERN + 1)]
)
def test_patterns_that_match_no_line_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput):
        check_pattern(LinePattern(pattern))


@pytest.mark.parametrize("pattern", [r"a\\nb", r"a\\Cb", "x" * MAX_PATTERN])
def test_other_patterns_are_accepted(pattern: str) -> None:
    check_pattern(LinePattern(pattern))


@pytest.mark.parametrize(
    "pattern", ["(", "a)(b", r"(a)\1", "(?=a)", "a{1001}", r"(\pL\pN){900}", "[z-a]"]
)
def test_what_is_no_expression_raises(pattern: str) -> None:
    with pytest.raises(re2.error):
        LineMatcher(LinePattern(pattern))


PIECES = st.sampled_from([*"ab \\.*+?|()[]^$-_\t", "é", "ab", "\r", "\n", "\n\n"])


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=40), st.lists(st.sampled_from([*"ab .*|^$?_", "é"]), min_size=1))
def test_lines_are_those_that_match_alone(pieces: list[str], symbols: list[str]) -> None:
    """Python's `re`, line by line, is the reference for expressions that mean the same to both."""
    pattern = "".join(symbols)
    content = "".join(pieces)
    try:
        expression = re.compile(pattern)
        matcher = LineMatcher(LinePattern(pattern))
    except (re.error, re2.error):
        return
    lines = content.split("\n")[: -1 if content.endswith("\n") else None]
    expected = [n for n, line in enumerate(lines, 1) if expression.search(line) and content]
    matches = matcher.find(content.encode(), ALL)
    assert [line.number for line in matches.lines] == expected
    assert matches.count == len(expected)
