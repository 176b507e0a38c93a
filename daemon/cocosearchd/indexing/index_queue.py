"""What the updater knows of one index: where its batches come from and how many of its files are
under way.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import anyio

from cocosearchd.model import IndexRecord

# Bulk work always leaves room for what a person saves meanwhile: that is asked for apart, has a
# window of its own and overtakes in the child. More edits than fit it are a burst, not a person,
# and are taken with the bulk. Measured: a file of a switch of branches costs a fifth less in
# batches of 128 than of 32, and no less in larger ones.
BULK_FILES, BULK_BATCHES = 128, 2
# Nothing of a batch is found before all of it is done, so with a slow embedder batches are small.
FIRST_FILES, MIN_FILES = 32, 4
QUICK_S, SLOW_S = 1.0, 2.0
EDIT_FILES, EDITS_IN_FLIGHT = 4, 8


def max_files_in_flight(inflight: int) -> int:
    """How many files the child may have been handed at once, where bulk work is to take `inflight`.

    Whoever works on fewer makes edits wait for bulk work after all.
    """
    return inflight + BULK_FILES + EDITS_IN_FLIGHT + EDIT_FILES


class FileBatch(Protocol):
    """Paths that may differ from the index. `gone` ones are not looked at: they have left the
    scope.
    """

    @property
    def paths(self) -> tuple[str, ...]: ...

    @property
    def gone(self) -> tuple[str, ...]: ...

    @property
    def force(self) -> bool:
        """Process the paths even if nothing about them changed."""


B = TypeVar("B", bound=FileBatch)


class BatchSource(Protocol[B]):
    """Where an index's batches come from; it remembers what is dirty until it is told how that
    went.
    """

    async def next_batch(self, limit: int = 64, *, edits: bool = False) -> B:
        """Wait for something to do, at most `limit` paths: what a person waits for first, then the
        rest.

        With `edits`, for what a person waits for alone.
        """

    def settle(self, batch: B, failed: Mapping[str, str]) -> None:
        """The batch is committed and its hook has run, except for `failed` (path -> why): to be
        tried again later.
        """

    def quarantine(self, path: str, error: str) -> None:
        """The path, which has just been settled as failed, must not be given again until the file
        changes.
        """


@dataclass(frozen=True, slots=True)
class BatchPart:
    """A part of a batch, as it is sent."""

    paths: tuple[str, ...]
    gone: tuple[str, ...]

    @property
    def all_paths(self) -> tuple[str, ...]:
        """Every path, in the order of halving."""
        return self.paths + self.gone

    def split(self) -> tuple[Self, Self]:
        """Two pieces of almost the same size; for two paths and more."""
        middle = len(self.all_paths) // 2
        first, second = set(self.all_paths[:middle]), set(self.all_paths[middle:])
        return self._only(first), self._only(second)

    def _only(self, kept: set[str]) -> Self:
        return type(self)(
            tuple(p for p in self.paths if p in kept), tuple(p for p in self.gone if p in kept)
        )


class InFlightLimit:
    """How many files may be under way at once; the last batch may pass it."""

    def __init__(self, files: int) -> None:
        self._files, self._under_way = files, 0
        self._room = asyncio.Event()
        self._room.set()

    async def wait_room(self) -> None:
        """Returns when another batch may begin."""
        await self._room.wait()

    def resize(self, files: int) -> None:
        """From now on, so many."""
        self._files = files
        self.add(0)

    def add(self, files: int) -> None:
        """So many more are under way, or less."""
        self._under_way += files
        if self._under_way < self._files:
            self._room.set()
        else:
            self._room.clear()


class AdaptiveBatchSize:
    """How many files a bulk batch has: as many as are done in one to two seconds."""

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        self.files = min(FIRST_FILES, self._most)

    def record(self, files: int, seconds: float) -> None:
        """A batch has ended; one that was not full says nothing of larger ones."""
        if seconds > SLOW_S:
            # Not half of what it is by now: others that began with this one were as slow, and have
            # been counted.
            self.files = min(self.files, max(min(MIN_FILES, self._most), files // 2))
        elif seconds < QUICK_S and files >= self.files:
            self.files = min(self._most, self.files * 2)


class IndexQueue:
    """One index on its way through the updater."""

    def __init__(
        self,
        record: IndexRecord,
        source: BatchSource[Any],
        inflight: int,
        extra_unsettled: int,
        report: Callable[[str | None], None] | None = None,
    ) -> None:
        """`inflight`: how many files the child has in work at once; what a kill may lose.

        `back`: how many bulk batches may have come back from it beside those, and not be found yet.
        `report`: who shows what fails, as for `supervise`.
        """
        self.record, self.source, self.report = record, source, report
        self.scope: anyio.CancelScope | None = None  # of its tasks, while they run
        self._pace = AdaptiveBatchSize(min(BULK_FILES, inflight // BULK_BATCHES))
        self._in_child, self._unsettled, self._edits = (
            InFlightLimit(0),
            InFlightLimit(0),
            InFlightLimit(EDITS_IN_FLIGHT),
        )
        self._extra_unsettled = extra_unsettled
        self._resize()

    async def next_batch(self, *, edits: bool) -> Any:
        """The next batch, as soon as there is room for one: not pulling leaves the choice to the
        source.
        """
        if edits:
            await self._edits.wait_room()
            return await self.source.next_batch(EDIT_FILES, edits=True)
        await self._unsettled.wait_room()
        await self._in_child.wait_room()  # only who asks here fills either of them
        return await self.source.next_batch(self._pace.files)

    def begin(self, batch: FileBatch, *, edits: bool) -> None:
        """The batch is under way; `answered` and `settled` must follow."""
        for window in (self._edits,) if edits else (self._in_child, self._unsettled):
            window.add(_files(batch))

    def mark_answered(self, batch: FileBatch, seconds: float, *, edits: bool) -> None:
        """The child has done the batch, or will not; it took so long. The next bulk batches are
        larger or smaller.
        """
        if not edits:
            self._pace.record(_files(batch), seconds)
            self._in_child.add(-_files(batch))
            self._resize()

    def mark_settled(self, batch: FileBatch, *, edits: bool) -> None:
        """The batch is under way no more."""
        (self._edits if edits else self._unsettled).add(-_files(batch))

    def _resize(self) -> None:
        self._in_child.resize(self._pace.files * BULK_BATCHES)
        self._unsettled.resize(self._pace.files * (BULK_BATCHES + self._extra_unsettled))


def _files(batch: FileBatch) -> int:
    return len(batch.paths) + len(batch.gone)
