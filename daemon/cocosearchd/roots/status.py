"""What a root says of itself, for people and for progress."""

from dataclasses import dataclass

from cocosearchd.model import Clock


@dataclass(frozen=True, slots=True)
class FailedPath:
    """A file that could not be indexed yet. `retry_in_s` is None when it waits for a change of the file."""

    path: str
    error: str
    tries: int
    retry_in_s: float | None


@dataclass(frozen=True, slots=True)
class RootStatus:
    """Of one moment. `state`: cold, scanning, indexing, live, git_batch, lost, root_missing, degraded or failed.

    `pending` counts what will be applied soon; failed files wait for their retry and are not in it. `done` of `total`
    files in scope are not pending; `total` is None before the first scan. `skipped` is (reason, files), of the last
    scan. `watcher` names the backend and why it is not a better one. `unreadable` are some of the directories (with a
    `/`) and files that may not be read: what was indexed of a directory stays, and no answer shows it as current.
    """

    state: str
    done: int
    total: int | None
    pending: int
    failed: tuple[FailedPath, ...]
    skipped: tuple[tuple[str, int], ...]
    watcher: str
    reason: str | None
    clock: Clock
    unreadable: tuple[str, ...] = ()
