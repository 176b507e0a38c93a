"""The port of a hints backend: what it says, and what can be asked of it.

Hints only say where to look. They may be late, repeated, in any order, and too many; an `exact`
backend never leaves one out without saying `HintsLost` or naming the directory in `blind`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DirtyHint:
    """Something about one file. `path` is relative to the root."""

    path: bytes


@dataclass(frozen=True, slots=True)
class DirtyTreeHint:
    """Something about a directory and all below it, or about what was one. b"" is the root."""

    path: bytes


@dataclass(frozen=True, slots=True)
class HintsLost:
    """Events were lost, or the root is another directory now: this backend is of no use any
    more.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Cookie:
    """A file of this name was made in the sync directory; all that changed before has been said
    before.
    """

    name: bytes


Hint = DirtyHint | DirtyTreeHint | HintsLost | Cookie
Sink = Callable[[Sequence[Hint]], object]  # called from a thread of the backend; must not block


class HintsUnavailable(Exception):
    """A backend that cannot be used for this root. The message says why, for people."""


class Hints(Protocol):
    """One root's source of hints. `start` once, `close` once; `watch` and `blind` from any thread
    in between.
    """

    @property
    def name(self) -> str: ...

    @property
    def exact(self) -> bool:
        """Whether a cookie proves that all earlier changes outside of `blind` have been said."""

    @property
    def trouble(self) -> str | None:
        """Why it sees less than it should, and what to do."""

    def start(self, sink: Sink) -> None:
        """Raises `HintsUnavailable`. What changes after this in watched directories will be
        said.
        """

    def watch(self, directory: bytes) -> None:
        """About to list this directory (relative to the root): watch it first. Never raises, may be
        repeated.
        """

    def blind(self) -> tuple[bytes, ...]:
        """Directories below which nothing will be said; the caller must scan them."""

    def close(self) -> None:
        """Ends the threads of the backend. May be repeated."""
