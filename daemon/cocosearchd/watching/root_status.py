"""The status of a root, for people and for progress reports."""

from dataclasses import dataclass
from typing import Literal

from cocosearchd.model import Clock

MAX_LISTED_PATHS = 20  # unreadable paths
MAX_LISTED_FAILURES = 200


@dataclass(frozen=True, slots=True)
class FailedPath:
    """A file that could not be indexed yet. `retry_in_s` is None if it waits for a change."""

    path: str
    error: str
    tries: int
    retry_in_s: float | None


# The states of a root. A "live" root follows its disk. A "degraded" one does so by polling, or only
# in part. A "lost" one is about to be scanned again.
RootState = Literal[
    "cold",
    "scanning",
    "indexing",
    "live",
    "git_batch",
    "lost",
    "root_missing",
    "degraded",
    "failed",
]


@dataclass(frozen=True, slots=True)
class RootStatus:
    """The status of a root at one moment.

    `pending` counts the paths that will be applied soon. Failed files wait for their retry and are
    not pending: `failed` are at most `MAX_LISTED_FAILURES` of `failed_count`. `done` of `total` files in
    scope are not pending; `total` is None before the first scan. `watcher` names the backend and
    why it is not a better one. `unreadable` are some of the directories (with a `/`) and files that
    may not be read: the indexed files of a directory stay, and no answer shows them as current.
    """

    state: RootState
    done: int
    total: int | None
    pending: int
    failed: tuple[FailedPath, ...]
    watcher: str
    reason: str | None
    clock: Clock
    unreadable: tuple[str, ...] = ()
    failed_count: int = 0


def live_state(*, forced: bool, git: bool, bulk: bool, degraded: bool) -> RootState:
    """Return the state to show for a root that follows its disk."""
    if forced:
        return "scanning"  # every file is about to be read again
    if git:
        return "git_batch"
    if bulk:
        return "indexing"
    return "degraded" if degraded else "live"
