"""What was applied when, for those who ask what they have missed. Bounded: whoever asks too late
must look at all.
"""

from collections.abc import Iterable

MAX_PATHS = 50_000  # about 10 MB; a checkout of more is a reason to look at everything


class ChangeLog:
    """The paths applied last, each with a number of the root's counter, taken when it was
    applied.
    """

    def __init__(self, limit: int = MAX_PATHS) -> None:
        self._limit = limit
        self._at: dict[str, int] = {}  # oldest first
        self._forgotten = 0  # what was applied up to this number may be missing

    def applied(self, number: int, paths: Iterable[str]) -> None:
        """Numbers only grow."""
        for path in paths:
            self._at.pop(path, None)
            self._at[path] = number
        while len(self._at) > self._limit:
            self._forgotten = self._at.pop(next(iter(self._at)))

    def since(self, number: int) -> tuple[str, ...] | None:
        """Every path that was applied after this number, oldest first; None if that is not known
        any more.
        """
        if number < self._forgotten:
            return None
        found = list[str]()
        for path in reversed(self._at):
            if self._at[path] <= number:
                break
            found.append(path)
        return tuple(reversed(found))
