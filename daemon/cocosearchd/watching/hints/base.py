"""The interface of a hints backend, and the hints it sends.

Hints only say where to look. They may be late, repeated, in any order, and too many. An `exact`
backend never omits one without sending `HintsLost` or naming the directory in `unwatched`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

# The part of a save that a hint tells of: a write, the close of a file that was written, or another
# change of the name in its directory. It says when to look, never what has changed.
SavePart = Literal["write", "close", "entry"]


@dataclass(frozen=True, slots=True)
class DirtyHint:
    """A possible change of one file. `path` is relative to the root."""

    path: bytes
    part: SavePart = "entry"


@dataclass(frozen=True, slots=True)
class DirtyTreeHint:
    """A possible change of a directory or former directory and all below it. b"" is the root."""

    path: bytes


@dataclass(frozen=True, slots=True)
class HintsLost:
    """The end of a backend: events were lost, or the root is another directory now."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cookie:
    """A new file in the sync directory; hints of all earlier changes have been sent before."""

    name: bytes


Hint = DirtyHint | DirtyTreeHint | HintsLost | Cookie
Sink = Callable[[Sequence[Hint]], object]  # called from a thread of the backend; must not block


class HintsUnavailable(Exception):
    """Raised by a backend that cannot be used for this root. The message says why, for people."""


class Hints(Protocol):
    """The source of hints of one root.

    Call `start` once and `close` once; `watch` and `unwatched` from any thread in between.
    """

    @property
    def name(self) -> str: ...

    @property
    def exact(self) -> bool:
        """True if a cookie proves that all earlier changes outside of `unwatched` were reported."""

    @property
    def trouble(self) -> str | None:
        """The reason why the backend misses changes, and what to do; None if it does not."""

    def start(self, sink: Sink) -> None:
        """Start to report changes in watched directories. Raises `HintsUnavailable`."""

    def watch(self, directory: bytes) -> None:
        """Watch a directory (relative to the root) that is about to be listed.

        Never raises, may be repeated.
        """

    def unwatched(self) -> tuple[bytes, ...]:
        """Return the directories without reports at and below them; the caller must scan them."""

    def batches_sent(self) -> int | None:
        """Return the number of calls of the sink, if they reported all changes before this call.

        Changes in the directories of `unwatched` do not count. None if the backend does not know:
        then a cookie tells.
        """

    def close(self) -> None:
        """End the threads of the backend. May be repeated."""
