"""Shared parts of the roots of a daemon: instances of inotify, and the pace of their checks at rest."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cocosearchd.watching.hints.inotify_instances import InotifyInstances
from cocosearchd.watching.hints.mapped_files import MappedFiles
from cocosearchd.watching.ignore.outside_stamps import OutsideStamps

# Up to this number, roots at rest are checked at the usual pace; twice as many are checked half as
# often. Each question makes the checks itself, so the pace costs no freshness.
PACED_ROOTS = 10
# Roots are checked at the same moment, one after the other: they share what they read above them.
STAMPS_S = 0.2


class RootGroup:
    """The shared parts of the roots of one daemon. All methods belong to one event loop."""

    def __init__(
        self, instances: InotifyInstances | None = None, mapped: MappedFiles | None = None
    ) -> None:
        """`mapped` lists mapped files for questions; None: nobody does."""
        self._mapped = mapped
        self.instances = InotifyInstances() if instances is None else instances
        self._running = 0
        self._stamps = OutsideStamps()
        self._stamps_at = -math.inf

    @contextmanager
    def member(self) -> Iterator[None]:
        """Count a root while it runs."""
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    def rest_s(self, period_s: float) -> float:
        """Return the seconds between two checks of a root at rest; `period_s` with few roots."""
        return period_s * max(1, math.ceil(self._running / PACED_ROOTS))

    def has_recent_mappings(self) -> bool:
        """Record a question. Return whether mapped files were listed recently enough for it."""
        return self._mapped is None or self._mapped.note_question()

    async def list_mapped(self) -> None:
        """List mapped files for a question, if the last listing is too old."""
        if self._mapped is not None:
            await self._mapped.refresh()

    def recent_stamps(self) -> OutsideStamps:
        """Return stamps above the roots, none read more than `STAMPS_S` ago."""
        moment_s = time.monotonic()
        if moment_s - self._stamps_at > STAMPS_S:
            self._stamps = OutsideStamps()
            self._stamps_at = moment_s
        return self._stamps
