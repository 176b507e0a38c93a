"""A bounded log of applied paths, for clients that ask for the changes since a clock."""

from collections.abc import Iterable

MAX_PATHS = 50_000  # about 10 MB; a checkout of more is a reason to look at everything


class ChangeLog:
    """The paths applied last, each with the number of the root's counter when it was applied."""

    def __init__(self, limit: int = MAX_PATHS) -> None:
        self._limit = limit
        self._numbers: dict[str, int] = {}  # oldest first
        self._dropped_to = 0  # paths applied up to this number may be missing

    def record(self, number: int, paths: Iterable[str]) -> None:
        """Record applied paths. Numbers only grow."""
        for path in paths:
            self._numbers.pop(path, None)
            self._numbers[path] = number
        while len(self._numbers) > self._limit:
            self._dropped_to = self._numbers.pop(next(iter(self._numbers)))

    def since(self, number: int) -> tuple[str, ...] | None:
        """Return every path applied after this number, oldest first.

        None if the log does not go back that far: the client must look at everything.
        """
        if number < self._dropped_to:
            return None
        paths = list[str]()
        for path in reversed(self._numbers):
            if self._numbers[path] <= number:
                break
            paths.append(path)
        return tuple(reversed(paths))
