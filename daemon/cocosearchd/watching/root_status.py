"""The status of a root, for people and for progress reports."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cocosearchd.exclusion import EXCLUSIONS
from cocosearchd.model import Clock, Freshness

MAX_LISTED_PATHS = 20  # paths that are named where there may be many
MAX_LISTED_FAILURES = 200


@dataclass(frozen=True, slots=True)
class FailedPath:
    """A file that could not be indexed yet. `retry_in_s` is None if only a change of it helps."""

    path: str
    error: str
    tries: int
    retry_in_s: float | None


@dataclass(frozen=True, slots=True)
class RootStatus:
    """The status of a root at one moment.

    `state`: cold, scanning, indexing, live, git_batch, lost, root_missing, degraded or failed.
    `pending` counts the paths that will be applied soon. Failed files wait for their retry and are
    not pending: `failed` are at most `MAX_LISTED_FAILURES` of `failed_count`. `done` of `total` files in
    scope are not pending; `total` is None before the first scan. `watcher` names the backend and
    why it is not a better one. `unreadable` are some of the directories (with a `/`) and files that
    may not be read: what was indexed of a directory stays, and no answer shows it as current.
    """

    state: str
    done: int
    total: int | None
    pending: int
    failed: tuple[FailedPath, ...]
    watcher: str
    reason: str | None
    clock: Clock
    unreadable: tuple[str, ...] = ()
    failed_count: int = 0


def live_state(*, forced: bool, git: bool, bulk: bool, degraded: bool) -> str:
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
) -> str:
    """Say why the index of a root that follows its disk may be behind it.

    `failed` are some of `failing` files.
    """
    if git:
        return "git is working"
    if scanning:
        return "the root is being scanned"
    if pending:
        return f"{'1 change is' if pending == 1 else f'{pending} changes are'} not applied yet"
    return _failure_reason(failed, failing) if failed else "not compared with the disk"


def _failure_reason(failed: Sequence[FailedPath], failing: int) -> str:
    first = failed[0]
    away = EXCLUSIONS["embedder_away"].cause
    if first.error.startswith(away):
        files = "1 file waits" if failing == 1 else f"{failing} files wait"
        error = first.error.removeprefix(f"{away}: ")
        return f"{files} for the embedder, the first is {first.path}: {error}"
    return f"files could not be indexed: {failing}, the first is {first.path}: {first.error}"


def in_sync(
    clock: Clock,
    failed: Sequence[FailedPath],
    failing: int,
    unknown: Iterable[str],
    reason: str | None,
) -> Freshness:
    """Return the freshness once every change has been applied or has failed.

    `failed` are some of `failing` files, at most `MAX_LISTED_PATHS`. `unknown` are directories, and `reason`
    says why they are unknown.
    """
    if failed:
        return Freshness(
            False, clock, _failure_reason(failed, failing), tuple(file.path for file in failed)
        )
    if reason is not None:
        directories = tuple(f"{directory or '.'}/" for directory in unknown)
        return Freshness(False, clock, reason, directories[:MAX_LISTED_PATHS])
    return Freshness(True, clock)
