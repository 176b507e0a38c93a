"""The root of a followed index: it is on another host, and known only by its rows and its owner."""

import anyio

from cocosearchd.errors import CocoSearchError
from cocosearchd.freshness import Freshness, StaleReason, stale_reason
from cocosearchd.indexes.following.followed_rows import FollowedRows
from cocosearchd.indexes.following.index_owner import IndexOwner
from cocosearchd.model import Clock, Commit
from cocosearchd.watching.change_log import ChangeLog
from cocosearchd.watching.root_status import RootState, RootStatus

OWNER_RETRY_S = 0.05  # between questions to an owner that is behind its disk


class OwnerExclusions:
    """Answers why files are not in a followed index: only its owner knows its rules."""

    def __init__(self, owner: IndexOwner) -> None:
        self._owner = owner

    async def reason(self, path: str) -> str:  # noqa: ARG002 - the shape of `ExclusionReport`
        """Say who knows why a file is not in the index."""
        return f"only {self._owner.description} knows why"

    async def rule(self, path: str) -> None:
        """Name no rule: the rules are not known here."""

    async def left_out_files(self) -> None:
        """Count nothing: the rules are not known here."""


class FollowedRoot:
    """Freshness and status of a followed index, in place of a `WatchedRoot`.

    `changes` has the paths applied last.
    """

    def __init__(self, owner: IndexOwner, rows: FollowedRows) -> None:
        self.owner = owner
        self.rows = rows
        self.exclusions = OwnerExclusions(owner)
        self.changes = ChangeLog()
        self.changes.begin_epoch()
        self._seq = 0
        self.memory = ""  # a text with the estimated memory of the rows
        self.is_read = False  # all rows are in memory
        self.precise_uses = (0, 0)  # their state at the last check
        self.trouble: str | None = None  # why the owner cannot be followed properly

    def record_commit(self, commit: Commit) -> None:
        """Record the paths of an applied commit."""
        self._seq += 1
        self.changes.record(self._seq, commit.paths)

    def clock(self) -> Clock:
        """Return the clock of the index: it counts applied commits."""
        return Clock(self.changes.epoch, self._seq)

    def mark_possibly_changed(self, paths: object) -> None:
        """Ignore files that an answer has seen changed: no file is read here."""

    async def sync(self, timeout_s: float) -> Freshness:
        """Ask the owner, and apply all its commits; the answer is fresh only if the owner says so."""
        stale = self.owner.silence()
        with anyio.move_on_after(timeout_s):
            while True:
                reason = await self._compare()
                if reason is None:
                    return Freshness(self.clock())
                stale = reason
                if reason.code == "index_unavailable" or not self.owner.is_running:
                    break
                await anyio.sleep(OWNER_RETRY_S)
        return Freshness(self.clock(), stale)

    async def _compare(self) -> StaleReason | None:
        """Return why the rows may differ from the disk at the time of the call; None if they do not."""
        try:
            publication = await self.owner.ask()
            if publication is None:
                return self.owner.silence()
            if publication.stale_code is not None:
                return self.owner.behind(publication)
            if await self.rows.catch_up() < publication.generation:
                return stale_reason("rows_unread", owner=self.owner.description)
        except CocoSearchError as error:
            return stale_reason("index_unavailable", error=error.message)
        return None

    def freshness(self) -> Freshness:
        """Say without waiting how old the rows may be: the answer is never fresh."""
        return Freshness(self.clock(), self.owner.not_asked())

    def status(self) -> RootStatus:
        """Return the status at this moment, from memory."""
        count = self.rows.file_count
        state: RootState = "live" if self.is_read else "cold"
        return RootStatus(
            state="degraded" if self.trouble else state,
            done=count if self.is_read else 0,
            total=count,
            pending=0,
            failed=(),
            watcher=f"follows {self.owner.description}, with {self.memory or 'no'} of memory",
            reason=self.trouble,
            clock=self.clock(),
        )
