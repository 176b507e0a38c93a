"""The status of a root, for people and for progress reports."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from cocosearchd.exclusion import embedder_error
from cocosearchd.freshness import MAX_PENDING, Freshness, StaleReason, stale_reason
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


def lag_reason(
    pending: int, failed: Sequence[FailedPath], failing: int, *, git: bool, scanning: bool
) -> StaleReason:
    """Say why the index of a root that follows its disk may be behind it.

    `failed` are some of `failing` files.
    """
    if git:
        return stale_reason("git_working")
    if scanning:
        return stale_reason("scanning")
    if pending:
        changes = "1 change is" if pending == 1 else f"{pending} changes are"
        return stale_reason("changes_pending", changes=changes)
    return _failure_reason(failed, failing) if failed else stale_reason("not_compared")


def _failure_reason(failed: Sequence[FailedPath], failing: int) -> StaleReason:
    first = failed[0]
    error = embedder_error(first.error)
    if error is not None:
        files = "1 file waits" if failing == 1 else f"{failing} files wait"
        return stale_reason("embedder_away", files=files, path=first.path, error=error)
    return stale_reason("files_failed", count=failing, path=first.path, error=first.error)


def in_sync(
    clock: Clock,
    failed: Sequence[FailedPath],
    failing: int,
    unknown: Iterable[str],
    reason: StaleReason | None,
) -> Freshness:
    """Return the freshness once every change has been applied or has failed.

    `failed` are some of `failing` files, at most `MAX_PENDING`. `unknown` are the directories with
    unknown contents or rules, and `reason` says why.
    """
    if failed:
        paths = tuple(file.path for file in failed)
        return Freshness(clock, _failure_reason(failed, failing), paths)
    if reason is not None:
        directories = tuple(f"{directory or '.'}/" for directory in unknown)
        return Freshness(clock, reason, directories[:MAX_PENDING])
    return Freshness(clock)
