"""The freshness of a root that follows its disk, and why its index may be behind. Pure.

Other modules find what keeps a root from following its disk: `availability`, `scan`, `watched_root`.
"""

from collections.abc import Iterable, Sequence

from cocosearchd.exclusion import embedder_error
from cocosearchd.freshness import MAX_PENDING, Freshness, StaleReason, stale_reason
from cocosearchd.model import Clock
from cocosearchd.watching.root_status import FailedPath


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


def synced_freshness(
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
