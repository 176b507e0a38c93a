"""The numbers of the chunks of a file: they ascend with the places, and a chunk that moves keeps its own. Pure."""

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Mapping, Sequence, Set
from typing import TypeVar

# Between neighbours: in one spot chunks can come between others 32 times, each time in half of the room of before.
STEP = 1 << 32
Content = TypeVar("Content", bound=Hashable)


def assigned(old: Mapping[int, Content], wanted: Sequence[Content]) -> tuple[list[int], Set[int]]:
    """The ordinals of the chunks of a file, by place, and which of them are of rows that stay as they are.

    `old` are the rows that are there, ascending. A row stays if its content is wanted, and stands as before among the
    others that stay. Where there is no room for what is new, all are numbered anew and none stays.
    """
    ordinals = list(old)
    rows = [None if row is None else ordinals[row] for row in _matched(list(old.values()), wanted)]
    numbers, new = list[int](), 0
    for ordinal in rows:
        if ordinal is None:
            new += 1
        else:
            numbers += [*_between(numbers[-1] if numbers else None, ordinal, new), ordinal]
            new = 0
    numbers += _between(numbers[-1] if numbers else None, None, new)
    if len(numbers) < len(wanted):
        return [STEP * place for place in range(len(wanted))], frozenset()
    return numbers, frozenset(ordinal for ordinal in rows if ordinal is not None)


def _between(low: int | None, high: int | None, count: int) -> Sequence[int]:
    """So many new ordinals, far from each other and from their neighbours; none if there is no room for all."""
    if low is None:
        low = -STEP if high is None else high - STEP * (count + 1)
    if high is None:
        high = low + STEP * (count + 1)
    step = (high - low) // (count + 1)
    return range(low + step, high, step)[:count] if step else ()


def _matched(old: Sequence[Content], wanted: Sequence[Content]) -> list[int | None]:
    """Of each chunk that is wanted the row that it can keep; these ascend."""
    shorter, head, tail = min(len(old), len(wanted)), 0, 0
    while head < shorter and old[head] == wanted[head]:
        head += 1
    while tail < shorter - head and old[-1 - tail] == wanted[-1 - tail]:
        tail += 1
    middle = _matched_apart(old[head : len(old) - tail], wanted[head : len(wanted) - tail], head)
    return [*range(head), *middle, *range(len(old) - tail, len(old))]


def _matched_apart(old: Sequence[Content], wanted: Sequence[Content], first: int) -> list[int | None]:
    """As `_matched`, of rows from the number `first` on, by content wherever they are."""
    loose = dict[Content, deque[int]]()
    for row, content in enumerate(old, first):
        loose.setdefault(content, deque()).append(row)
    pairs = [(place, loose[content].popleft()) for place, content in enumerate(wanted) if loose.get(content)]
    rows = dict(_ascending(pairs)) if pairs else {}
    return [rows.get(place) for place in range(len(wanted))]


def _ascending(pairs: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """As many of the pairs as can be, in their order, so that their second values ascend."""
    lowest, ends, before = list[int](), list[int](), list[int]()  # of the chains of each length: last value, its pair
    for number, (_, value) in enumerate(pairs):
        length = bisect_left(lowest, value)
        before.append(ends[length - 1] if length else -1)
        lowest[length : length + 1], ends[length : length + 1] = [value], [number]
    chain, number = list[tuple[int, int]](), ends[-1] if ends else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]
