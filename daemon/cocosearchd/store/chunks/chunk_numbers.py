"""Assigns chunk numbers in a file: they ascend by position, and a moved chunk keeps its number.

Pure.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Mapping, Sequence, Set
from itertools import pairwise
from typing import TypeVar

# The gap between neighbours. Each insertion at one spot halves the gap, so 32 insertions fit.
STEP = 1 << 32
Content = TypeVar("Content", bound=Hashable)


def assign_numbers(
    old: Mapping[int, Content], contents: Sequence[Content], reserved: Set[int] = frozenset()
) -> tuple[list[int], Set[int]]:
    """Return the chunk number of each position, and the set of numbers whose rows stay.

    `old` maps the numbers of the stored rows, ascending, to their contents; `contents` are those
    of the file now, by position. A row stays if its content still occurs and its order among the
    other staying rows is unchanged. New chunks avoid the `reserved` numbers as long as there is
    room beside them. If new chunks do not fit at all, every chunk gets a new number and no row stays.
    """
    numbers = list(old)
    matches = _match_rows(list(old.values()), contents)
    stored = [None if row is None else numbers[row] for row in matches]
    staying = frozenset(number for number in stored if number is not None)
    for barred in (sorted(reserved - staying), []):
        assigned = _fill_gaps(stored, barred)
        if len(assigned) == len(contents):
            return assigned, staying
    return [STEP * position for position in range(len(contents))], frozenset()


def _fill_gaps(stored: Sequence[int | None], barred: Sequence[int]) -> list[int]:
    """Number every position that has no number in `stored`.

    The result is shorter if there is no room.
    """
    numbers = list[int]()
    missing = 0
    for number in stored:
        if number is None:
            missing += 1
        else:
            previous = numbers[-1] if numbers else None
            numbers += [*_numbers_between(previous, number, missing, barred), number]
            missing = 0
    numbers += _numbers_between(numbers[-1] if numbers else None, None, missing, barred)
    return numbers


def _numbers_between(
    low: int | None, high: int | None, count: int, barred: Sequence[int]
) -> Sequence[int]:
    """Return `count` new numbers, far from each other and from their neighbours.

    The result is empty if there is no room.

    The `barred` numbers, ascending, count as neighbours as well. Within the file the widest gap is
    used, at an end of the file the first gap that is wide enough.
    """
    if not count:
        return ()
    first = 0 if low is None else bisect_left(barred, low)
    last = len(barred) if high is None else bisect_left(barred, high)
    neighbours = [
        *([] if low is None else [low]),
        *barred[first:last],
        *([] if high is None else [high]),
    ]
    if low is None or high is None:
        room = STEP * (count + 1)
        low, high = _gap_at_end(neighbours, room, front=low is None, back=high is None)
    else:
        low, high = max(pairwise(neighbours), key=lambda gap: gap[1] - gap[0])
    step = (high - low) // (count + 1)
    return range(low + step, high, step)[:count] if step else ()


def _gap_at_end(
    neighbours: Sequence[int], room: int, *, front: bool, back: bool
) -> tuple[int, int]:
    """Find a gap of `room` between the neighbours, or beside them.

    Gaps are reused, so that endless edits do not exhaust the key space.
    """
    if not neighbours:
        return -STEP, room - STEP
    for low, high in pairwise(neighbours):
        if high - low >= room:
            return low, high
    if front and (not back or neighbours[0] >= room):
        return neighbours[0] - room, neighbours[0]
    return neighbours[-1], neighbours[-1] + room


def _match_rows(old: Sequence[Content], contents: Sequence[Content]) -> list[int | None]:
    """Match each position to the old row that it can keep, or None; the rows ascend."""
    shorter = min(len(old), len(contents))
    head = tail = 0
    while head < shorter and old[head] == contents[head]:
        head += 1
    while tail < shorter - head and old[-1 - tail] == contents[-1 - tail]:
        tail += 1
    middle = _match_by_content(
        old[head : len(old) - tail], contents[head : len(contents) - tail], head
    )
    return [*range(head), *middle, *range(len(old) - tail, len(old))]


def _match_by_content(
    old: Sequence[Content], contents: Sequence[Content], first_row: int
) -> list[int | None]:
    """Match rows by content alone; `old` are the rows from `first_row` on."""
    unmatched = dict[Content, deque[int]]()
    for row, content in enumerate(old, first_row):
        unmatched.setdefault(content, deque()).append(row)
    pairs = [
        (position, unmatched[content].popleft())
        for position, content in enumerate(contents)
        if unmatched.get(content)
    ]
    rows = dict(_longest_ascending(pairs)) if pairs else {}
    return [rows.get(position) for position in range(len(contents))]


def _longest_ascending(pairs: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Return the longest subsequence of the pairs whose second values ascend."""
    # The best chain of each length: its last value, and the index of its last pair.
    lowest = list[int]()
    ends = list[int]()
    predecessors = list[int]()
    for number, (_, value) in enumerate(pairs):
        length = bisect_left(lowest, value)
        predecessors.append(ends[length - 1] if length else -1)
        lowest[length : length + 1] = [value]
        ends[length : length + 1] = [number]
    chain = list[tuple[int, int]]()
    number = ends[-1] if ends else -1
    while number >= 0:
        chain.append(pairs[number])
        number = predecessors[number]
    return chain[::-1]
