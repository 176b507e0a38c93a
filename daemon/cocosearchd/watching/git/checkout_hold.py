"""Holds batches for a short time while git rewrites the work tree: a checkout becomes one batch.

The hold only looks for files that exist while git works. The final state of the index never depends
on it. A rebase that waits for a person leaves its directory behind: such a directory counts only
just after a change of the index or of HEAD.
"""

import os
import time
from collections.abc import Iterable, Sequence

import anyio

from cocosearchd.watching.git.stamps import own_status
from cocosearchd.watching.root_threads import RootThreads

CAP_S = 2.0  # after this time batches pass, whatever git does
PASS_S = 0.25  # batches then pass for this time
QUIET_S = 0.05  # git writes the index last, and hints of the files may still be on their way
HOLD_POLL_S = 0.01
# An older lock was left over, or `git commit -a` waits for its message.
LOCK_S = 10.0
_LOCKS = (b"index.lock", b"HEAD.lock")
_OPERATIONS = (b"rebase-merge", b"rebase-apply", b"MERGE_HEAD", b"CHERRY_PICK_HEAD", b"REVERT_HEAD")
_TOUCHED = (b"index", b"HEAD", b"logs/HEAD")
_TOUCHED_S = 0.1
# Checked for each batch. One checkout of a person does not touch more repositories in one root.
MAX_REPOSITORIES = 32


class CheckoutHold:
    """The hold of one root."""

    def __init__(self) -> None:
        self._held_since: float | None = None
        self._busy_at = 0.0
        self._pass_until = 0.0
        self.waiting = False  # whether a batch waits

    async def wait(
        self, git_dirs: Sequence[bytes], threads: RootThreads | None = None, *, local: bool = True
    ) -> None:
        """Wait until a batch may pass.

        A root that is not `local` may hang, so it is checked in one of `threads`.
        """
        threads = threads or RootThreads()
        try:
            while True:
                working = any_busy(git_dirs) if local else await threads.run(any_busy, git_dirs)
                pause = self.wait_s(working, time.monotonic())
                if pause <= 0:
                    return
                self.waiting = True
                await anyio.sleep(pause)
        finally:
            self.waiting = False

    def wait_s(self, working: bool, now: float) -> float:
        """Return how long to wait until the next check of git; 0 lets a batch pass.

        `working`: git is at work. `now` is of a monotonic clock, in seconds.
        """
        if now < self._pass_until:
            return 0.0
        if working:
            self._busy_at = now
            self._held_since = self._held_since or now
        elif self._held_since is None or now - self._busy_at >= QUIET_S:
            self._held_since = None
            return 0.0
        if now - self._held_since >= CAP_S:
            self._held_since = None
            self._pass_until = now + PASS_S
            return 0.0
        return HOLD_POLL_S


def any_busy(git_dirs: Sequence[bytes]) -> bool:
    """Return whether git is working in one of these git directories."""
    return any(is_git_working(git_dir) for git_dir in git_dirs[:MAX_REPOSITORIES])


def is_git_working(git_dir: bytes) -> bool:
    """Return whether git is working in this git directory."""
    if _modified(git_dir, _LOCKS, LOCK_S):
        return True
    working = any(os.path.lexists(os.path.join(git_dir, name)) for name in _OPERATIONS)
    return working and _modified(git_dir, _TOUCHED, _TOUCHED_S)


def _modified(git_dir: bytes, names: Iterable[bytes], within_s: float) -> bool:
    """Return whether one of the files was modified within `within_s` seconds.

    A time in the future was left by a clock that was set back.
    """
    current = time.time()
    return any(
        abs(current - _modified_at(os.path.join(git_dir, name))) < within_s for name in names
    )


def _modified_at(path: bytes) -> float:
    try:
        return own_status(path).st_mtime
    except OSError:
        return 0.0
