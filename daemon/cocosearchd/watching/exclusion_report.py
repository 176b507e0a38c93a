"""Reports why files of a watched root are not in its index."""

import asyncio
import time
import weakref
from collections.abc import Callable

from cocosearchd.exclusion import find_exclusion
from cocosearchd.forms.path_forms import path_bytes
from cocosearchd.watching.dirty_set import FailedPaths
from cocosearchd.watching.ignore.left_out_files import LeftOutFiles, count_left_out
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.ignore.unindexed_files import why_absent, why_left_out
from cocosearchd.watching.root_status import FailedPath
from cocosearchd.watching.root_threads import RootThreads
from cocosearchd.watching.scans.scan_coordinator import ScanCoordinator


class ExclusionReport:
    """Answers for one watched root. Paths are relative to the root."""

    def __init__(
        self,
        coordinator: ScanCoordinator,
        failures: FailedPaths,
        threads: RootThreads,
        lag_reason: Callable[[], str | None],
    ) -> None:
        """`lag_reason` says why the index may be behind the disk."""
        self._coordinator = coordinator
        self._failures = failures
        self._threads = threads
        self._lag_reason = lag_reason
        self._counting: asyncio.Future[LeftOutFiles | None] | None = None
        self._counted: tuple[weakref.ref[RootScope], LeftOutFiles] | None = None

    async def reason(self, path: str) -> str:
        """Say why a file is not in the index."""
        error = self._failures.error(path)
        if error is not None:
            return f"{find_exclusion('failed').cause}: {error}"
        scope = self._coordinator.scope
        if scope is None:
            return self._lag_reason() or "the root has not been looked at yet"
        indexing = self._coordinator.indexing
        reason = await self._threads.run(why_absent, scope, indexing, path_bytes(path))
        return reason or f"it is to be indexed, and not yet: {self._lag_reason()}"

    async def left_out_files(self) -> LeftOutFiles | None:
        """Count the files that the rules leave out; None if the rules are not known now.

        One count runs at a time, to its end, and its result holds until the next scope: callers
        that give up do not pile up threads.
        """
        scope = self._coordinator.scope
        if scope is None:
            return None
        if self._counted is not None and self._counted[0]() is scope:
            return self._counted[1]
        if self._counting is None or self._counting.done():
            self._counting = asyncio.ensure_future(self._count_left_out(scope))
        return await asyncio.shield(self._counting)

    async def _count_left_out(self, scope: RootScope) -> LeftOutFiles | None:
        try:
            left_out = await self._threads.run(count_left_out, scope, self._coordinator.indexing)
        except OSError:  # an ignore file cannot be read now: the status of the root says so
            return None
        self._counted = (weakref.ref(scope), left_out)
        return left_out

    def failed(self) -> tuple[FailedPath, ...]:
        """Return every file that could not be indexed yet, by path.

        The list has no bound; the status of a root names only some of these files.
        """
        return self._failures.listed(time.monotonic())

    async def rule(self, path: str) -> str | None:
        """Return the rule that leaves out files of this path, saved or not.

        None if there is no such rule, or if it is not known.
        """
        scope = self._coordinator.scope
        if scope is None:
            return None
        indexing = self._coordinator.indexing
        return await self._threads.run(why_left_out, scope, indexing, path_bytes(path))
