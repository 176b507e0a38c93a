"""The numbers of the chunks of a file: they ascend with the places, and a chunk that moves keeps
its own. Pure.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Mapping, Sequence, Set
from itertools import pairwise
from typing import TypeVar

# Between neighbours: in one spot chunks can come between others 32 times, each time in half of the
# room of before.
STEP = 1 << 32
Content = TypeVar("Content", bound=Hashable)


def assign_numbers(
    old: Mapping[int, Content], wanted: Sequence[Content], taken: Set[int] = frozenset()
) -> tuple[list[int], Set[int]]:
    """The ordinals of the chunks of a file, by place, and which of them are of rows that stay as
    they are.

    `old` are the rows that are there, ascending. A row stays if its content is wanted, and stands
    as before among the others that stay. New chunks take none of the ordinals that are `taken` as
    long as there is room beside them. Where there is no room at all for what is new, all are
    numbered anew and none stays.
    """
    ordinals = list(old)
    rows = [None if row is None else ordinals[row] for row in _matched(list(old.values()), wanted)]
    kept = frozenset(ordinal for ordinal in rows if ordinal is not None)
    for barred in (sorted(taken - kept), []):
        numbers = _numbered(rows, barred)
        if len(numbers) == len(wanted):
            return numbers, kept
    return [STEP * place for place in range(len(wanted))], frozenset()


def _numbered(rows: Sequence[int | None], barred: Sequence[int]) -> list[int]:
    """An ordinal for each place, where there is room for all: `rows` says which have one
    already.
    """
    numbers, new = list[int](), 0
    for ordinal in rows:
        if ordinal is None:
            new += 1
        else:
            numbers += [*_between(numbers[-1] if numbers else None, ordinal, new, barred), ordinal]
            new = 0
    numbers += _between(numbers[-1] if numbers else None, None, new, barred)
    return numbers


def _between(low: int | None, high: int | None, count: int, barred: Sequence[int]) -> Sequence[int]:
    """So many new ordinals, far from each other and from their neighbours; none if there is no room
    for all.

    Those that are `barred`, ascending, are neighbours as well: the widest gap between them is
    taken, or at an end of the file the first one that is wide enough.
    """
    if not count:
        return ()
    first = 0 if low is None else bisect_left(barred, low)
    within = barred[first : len(barred) if high is None else bisect_left(barred, high)]
    known = [*([] if low is None else [low]), *within, *([] if high is None else [high])]
    if low is None or high is None:
        low, high = _beyond(known, STEP * (count + 1), front=low is None, back=high is None)
    else:
        low, high = max(pairwise(known), key=lambda gap: gap[1] - gap[0])
    step = (high - low) // (count + 1)
    return range(low + step, high, step)[:count] if step else ()


def _beyond(known: Sequence[int], room: int, *, front: bool, back: bool) -> tuple[int, int]:
    """So much room between ordinals or beside them: who changes for ever shall not count up for
    ever.
    """
    if not known:
        return -STEP, room - STEP
    for low, high in pairwise(known):
        if high - low >= room:
            return low, high
    if front and (not back or known[0] >= room):
        return known[0] - room, known[0]
    return known[-1], known[-1] + room


def _matched(old: Sequence[Content], wanted: Sequence[Content]) -> list[int | None]:
    """Of each chunk that is wanted the row that it can keep; these ascend."""
    shorter, head, tail = min(len(old), len(wanted)), 0, 0
    while head < shorter and old[head] == wanted[head]:
        head += 1
    while tail < shorter - head and old[-1 - tail] == wanted[-1 - tail]:
        tail += 1
    middle = _matched_apart(old[head : len(old) - tail], wanted[head : len(wanted) - tail], head)
    return [*range(head), *middle, *range(len(old) - tail, len(old))]


def _matched_apart(
    old: Sequence[Content], wanted: Sequence[Content], first: int
) -> list[int | None]:
    """As `_matched`, of rows from the number `first` on, by content wherever they are."""
    loose = dict[Content, deque[int]]()
    for row, content in enumerate(old, first):
        loose.setdefault(content, deque()).append(row)
    pairs = [
        (place, loose[content].popleft())
        for place, content in enumerate(wanted)
        if loose.get(content)
    ]
    rows = dict(_ascending(pairs)) if pairs else {}
    return [rows.get(place) for place in range(len(wanted))]


def _ascending(pairs: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """As many of the pairs as can be, in their order, so that their second values ascend."""
    # of the chains of each length: last value, its pair
    lowest, ends, before = list[int](), list[int](), list[int]()
    for number, (_, value) in enumerate(pairs):
        length = bisect_left(lowest, value)
        before.append(ends[length - 1] if length else -1)
        lowest[length : length + 1], ends[length : length + 1] = [value], [number]
    chain, number = list[tuple[int, int]](), ends[-1] if ends else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]
