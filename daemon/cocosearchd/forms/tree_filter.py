"""A test of paths: at or below some directories. Pure."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import AnyStr, Generic


class TreeFilter(Generic[AnyStr]):
    """A set of directory trees. The time of a test of a path hardly grows with their number.

    Paths are relative; an empty one is the root.
    """

    def __init__(self, trees: Iterable[AnyStr], slash: AnyStr) -> None:
        """`slash` is the separator, of the type of the paths."""
        self._slash: AnyStr = slash
        self._tops: list[AnyStr] = []  # in order, none below another
        for top in sorted(tree + slash if tree else tree for tree in trees):
            if not self._tops or not top.startswith(self._tops[-1]):
                self._tops.append(top)

    def covers(self, path: AnyStr) -> bool:
        """Return whether a path is one of the trees, or lies in one."""
        entry = path + self._slash
        # In sorted order, only the last tree that is not greater than the path can cover it.
        index = bisect_right(self._tops, entry)
        return index > 0 and entry.startswith(self._tops[index - 1])
