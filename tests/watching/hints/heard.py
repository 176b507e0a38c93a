"""Records the hints of a backend, and watches directories like a scan: for tests of backends."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from cocosearchd.watching.hints.base import (
    DirtyHint,
    DirtyTreeHint,
    Hint,
    Hints,
    HintsLost,
)


def dirty_files(hints: Sequence[Hint]) -> set[bytes]:
    """Return the files that hints name, whatever part of a save they tell of."""
    return {hint.path for hint in hints if isinstance(hint, DirtyHint)}


class Heard:
    """Everything that a backend said. `wait` returns when it has said enough."""

    def __init__(self) -> None:
        self.hints: list[Hint] = []
        self.batches = 0  # calls that have ended
        self._news = threading.Condition()
        self.stopped = threading.Event()  # while set, the thread of the backend gets no further
        self.stopped.set()
        self.blocked = threading.Event()  # the thread waits for `stopped`

    def __call__(self, hints: Sequence[Hint]) -> None:
        if not self.stopped.is_set():
            self.blocked.set()
        self.stopped.wait()
        with self._news:
            self.hints += hints
            self.batches += 1
            self._news.notify_all()

    def wait(self, enough: Callable[[list[Hint]], bool], timeout_s: float = 60.0) -> None:
        with self._news:
            assert self._news.wait_for(lambda: enough(self.hints), timeout_s), self.hints[-50:]

    def covers(self, path: bytes) -> bool:
        """Return whether a scan of the named directories would read this path."""
        trees = [hint.path for hint in self.hints if isinstance(hint, DirtyTreeHint)]
        return path in dirty_files(self.hints) or any(
            path == t or path.startswith(t + b"/") or not t for t in trees
        )

    def losses(self) -> list[str]:
        return [hint.reason for hint in self.hints if isinstance(hint, HintsLost)]


def watch_all(hints: Hints, root: Path) -> None:
    """Watch every directory, like a scan."""
    for directory, _, _ in os.walk(os.fsencode(root)):
        relative = os.path.relpath(directory, os.fsencode(root))
        hints.watch(b"" if relative == b"." else relative)
