"""The shown matches of a grep are known once its first batches reach the limits."""

import pytest

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.search.grep.file_selection import GrepFilter, SelectedFile
from cocosearchd.search.grep.grep_messages import SearchedFile
from cocosearchd.search.grep.grep_search import FirstBatches, GrepQuery
from cocosearchd.search.grep.line_pattern import LinePattern
from cocosearchd.search.grep.matching_lines import LineMatches, MatchingLine

BATCH = [
    (
        SelectedFile(path, "python"),
        SearchedFile(0, LineMatches(5, tuple(MatchingLine(n, 1, "x") for n in range(1, 4)))),
    )
    for path in ("a.py", "b.py")
]  # two files with three returned lines each


def first_batches(*, max_lines: int, max_files: int) -> FirstBatches:
    return FirstBatches(
        GrepQuery(LinePattern("x"), GrepFilter(Filter()), max_lines, max_files, 1000)
    )


@pytest.mark.parametrize(
    ("max_lines", "max_files", "batch_count"),
    [(1, 9, 1), (6, 9, 1), (7, 9, 2), (0, 2, 1), (0, 3, 2), (9, 2, 1), (0, 0, 0), (0, 9, None)],
)
def test_the_batches_that_reach_the_limits_are_complete_once(
    max_lines: int, max_files: int, batch_count: int | None
) -> None:
    batches = first_batches(max_lines=max_lines, max_files=max_files)
    answers = [batches.become_complete(dict.fromkeys(range(count), BATCH)) for count in range(4)]
    assert answers == [count == batch_count for count in range(4)]


def test_a_later_batch_waits_for_those_before_it() -> None:
    batches = first_batches(max_lines=6, max_files=9)
    assert not batches.become_complete({1: BATCH, 2: BATCH})
    assert not batches.become_complete({0: [], 2: BATCH})
    assert batches.become_complete({0: [], 1: BATCH, 2: BATCH})
    assert not batches.become_complete({0: [], 1: BATCH, 2: BATCH})
