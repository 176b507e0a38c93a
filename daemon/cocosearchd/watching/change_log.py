"""A bounded log of applied paths, for clients that ask for the changes since a clock."""

import uuid
from collections.abc import Iterable
from itertools import count

from cocosearchd.model import Clock

MAX_PATHS = 50_000  # about 10 MB; after a larger checkout a client has to read everything again


class ChangeLog:
    """The paths applied last, each with the number of the root's counter when it was applied.

    Numbers count on through the epochs of one run; another run of the daemon has other epochs.
    """

    def __init__(self, limit: int = MAX_PATHS) -> None:
        self._limit = limit
        self._run_id = uuid.uuid4().hex[:12]
        self._epochs = count(1)
        self.epoch = ""  # the current one
        self._numbers: dict[str, int] = {}  # oldest first
        self._dropped_to = 0  # paths applied up to this number may be missing

    def begin_epoch(self) -> None:
        """Begin the next epoch."""
        self.epoch = f"{self._run_id}.{next(self._epochs)}"

    def record(self, number: int, paths: Iterable[str]) -> None:
        """Record applied paths. Numbers only grow."""
        for path in paths:
            self._numbers.pop(path, None)
            self._numbers[path] = number
        while len(self._numbers) > self._limit:
            self._dropped_to = self._numbers.pop(next(iter(self._numbers)))

    def since(self, clock: Clock) -> tuple[str, ...] | None:
        """Return the paths that were applied or left the index after a clock, oldest first.

        The answer may have further paths, but lacks none. None if every path may have changed: the
        clock is of another run, or too old.
        """
        same_run = clock.epoch.rpartition(".")[0] == self._run_id
        if not same_run or clock.seq < self._dropped_to:
            return None
        paths = list[str]()
        for path in reversed(self._numbers):
            if self._numbers[path] <= clock.seq:
                break
            paths.append(path)
        return tuple(reversed(paths))
