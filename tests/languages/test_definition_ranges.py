"""The innermost definitions around lines: one pass equals a lookup of each line."""

import struct
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.languages.definition_ranges import innermost_start, innermost_starts

RANGE = st.tuples(st.integers(0, 40), st.integers(1, 40), st.integers(1, 12), st.integers(1, 12))


@given(st.lists(RANGE, max_size=12), st.sets(st.integers(0, 26)))
def test_many_lines_are_found_like_single_ones(
    ranges: list[tuple[int, int, int, int]], lines: set[int]
) -> None:
    packed = b"".join(
        struct.pack("<4I", first, first + size, line, line + length)
        for first, size, line, length in ranges
    )
    single = {line: innermost_start(packed, line) for line in lines}
    expected = {line: start for line, start in single.items() if start is not None}
    assert innermost_starts(packed, lines) == expected


def test_thousands_of_lines_and_definitions_cost_little() -> None:
    packed = b"".join(
        struct.pack("<4I", 10 * number, 10 * number + 9, 2 * number + 1, 2 * number + 2)
        for number in range(20_000)
    )
    began = process_time()
    starts = innermost_starts(packed, range(1, 40_001))
    assert process_time() - began < 2.0
    assert starts[39_999] == starts[40_000] == 39_999
