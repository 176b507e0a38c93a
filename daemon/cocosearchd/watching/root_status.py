"""What a root says of itself, for people and for progress."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cocosearchd.exclusion import EXCLUSIONS
from cocosearchd.model import Clock, Freshness

SHOWN = 20  # paths that are named where there may be many
FAILED_SHOWN = 200


@dataclass(frozen=True, slots=True)
class FailedPath:
    """A file that could not be indexed yet. `retry_in_s` is None when it waits for a change of the
    file.
    """

    path: str
    error: str
    tries: int
    retry_in_s: float | None


@dataclass(frozen=True, slots=True)
class RootStatus:
    """Of one moment. `state`: cold, scanning, indexing, live, git_batch, lost, root_missing,
    degraded or failed.

    `pending` counts what will be applied soon; failed files wait for their retry and are not in it:
    `failed` are at most `FAILED_SHOWN` of `failed_count`. `done` of `total` files in scope are not
    pending; `total` is None before the first scan. `watcher` names the backend and why it is not a
    better one. `unreadable` are some of the directories (with a `/`) and files that may not be
    read: what was indexed of a directory stays, and no answer shows it as current.
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


def live_state(forced: bool, git: bool, bulk: bool, degraded: bool) -> str:
    """What a root that follows its disk is shown as."""
    if forced:
        return "scanning"  # every file is about to be read again
    if git:
        return "git_batch"
    if bulk:
        return "indexing"
    return "degraded" if degraded else "live"


def lagging(
    pending: int, failed: Sequence[FailedPath], failing: int, *, git: bool, scanning: bool
) -> str:
    """Why a root that follows its disk is not known to be as it is; `failed` are some of `failing`
    files.
    """
    if git:
        return "git is working"
    if scanning:
        return "the root is being scanned"
    if pending:
        return f"{'1 change is' if pending == 1 else f'{pending} changes are'} not applied yet"
    return _failures(failed, failing) if failed else "not compared with the disk"


def _failures(failed: Sequence[FailedPath], failing: int) -> str:
    away = EXCLUSIONS["embedder_away"].cause
    if failed[0].error.startswith(away):
        files = "1 file waits" if failing == 1 else f"{failing} files wait"
        return f"{files} for the embedder, the first is {failed[0].path}: {failed[0].error.removeprefix(f'{away}: ')}"
    return (
        f"files could not be indexed: {failing}, the first is {failed[0].path}: {failed[0].error}"
    )


def in_sync(
    clock: Clock,
    failed: Sequence[FailedPath],
    failing: int,
    unknown: Iterable[str],
    why: str | None,
) -> Freshness:
    """What is known once every change has been applied or set aside.

    `failed` are some of `failing` files, at most `MAX_WARNINGS`; `unknown` are directories, `why` is of
    them.
    """
    if failed:
        return Freshness(
            False, clock, _failures(failed, failing), tuple(file.path for file in failed)
        )
    if why is not None:
        return Freshness(
            False, clock, why, tuple(f"{directory or '.'}/" for directory in unknown)[:SHOWN]
        )
    return Freshness(True, clock)
