"""Queue of one index in the updater: its batch source, batch sizes and in-flight limits."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import anyio

from cocosearchd.model import IndexRecord

# Bulk work always leaves room for saved files: these are pulled separately, have an in-flight limit
# of their own and go first in the indexer process. Edits beyond that limit do not come from a person,
# and become bulk work. Measured: a file of a switch of branches costs a fifth less in batches of 128
# than in batches of 32; larger batches save nothing more.
BULK_FILES, BULK_BATCHES = 128, 2
# A batch becomes searchable only when all of it is done, so a slow embedder gets small batches.
FIRST_FILES, MIN_FILES = 32, 4
QUICK_S, SLOW_S = 1.0, 2.0
EDIT_FILES, EDITS_IN_FLIGHT = 4, 8


def max_files_in_flight(inflight: int) -> int:
    """Return the most files in flight in the indexer process, with `inflight` for bulk work.

    A lower limit there would make edits wait for bulk work.
    """
    return inflight + BULK_FILES + EDITS_IN_FLIGHT + EDIT_FILES


class FileBatch(Protocol):
    """Paths that may differ from the index. `gone` paths have left the scope and are not read."""

    @property
    def paths(self) -> tuple[str, ...]: ...

    @property
    def gone(self) -> tuple[str, ...]: ...

    @property
    def force(self) -> bool:
        """True to process the paths even if nothing about them changed."""


B = TypeVar("B", bound=FileBatch)


class BatchSource(Protocol[B]):
    """Source of the batches of an index. It remembers dirty paths until `settle` reports them."""

    async def next_batch(self, limit: int = 64, *, edits: bool = False) -> B:
        """Wait for a batch of at most `limit` paths: edits first, then the rest.

        With `edits`, the batch has only paths that a person waits for.
        """

    def settle(self, batch: B, failed: Mapping[str, str]) -> None:
        """Mark a batch as committed, with its hook done.

        The paths of `failed` (path -> reason) are exceptions: the source offers them again later.
        """

    def set_aside(self, path: str, error: str) -> None:
        """Withhold a path, which was just settled as failed, until the file changes."""


@dataclass(frozen=True, slots=True)
class BatchPart:
    """A part of a batch, as sent to the indexer process."""

    paths: tuple[str, ...]
    gone: tuple[str, ...]

    @property
    def all_paths(self) -> tuple[str, ...]:
        """All paths, in the order of `split`."""
        return self.paths + self.gone

    def split(self) -> tuple[Self, Self]:
        """Return two parts of almost the same size. It needs at least two paths."""
        middle = len(self.all_paths) // 2
        first = self._select(set(self.all_paths[:middle]))
        return first, self._select(set(self.all_paths[middle:]))

    def _select(self, selection: set[str]) -> Self:
        return type(self)(
            tuple(path for path in self.paths if path in selection),
            tuple(path for path in self.gone if path in selection),
        )


class InFlightLimit:
    """Limit of files in flight. The last batch may exceed it."""

    def __init__(self, files: int) -> None:
        self._files = files
        self._in_flight = 0
        self._room = asyncio.Event()
        self._room.set()

    async def wait_room(self) -> None:
        """Wait until another batch may begin."""
        await self._room.wait()

    def resize(self, files: int) -> None:
        """Set the limit to `files`."""
        self._files = files
        self.add(0)

    def add(self, files: int) -> None:
        """Add `files` (may be negative) to the in-flight count."""
        self._in_flight += files
        if self._in_flight < self._files:
            self._room.set()
        else:
            self._room.clear()


class AdaptiveBatchSize:
    """Size of a bulk batch: as many files as take one to two seconds."""

    def __init__(self, maximum: int) -> None:
        self._maximum = max(1, maximum)
        self.files = min(FIRST_FILES, self._maximum)

    def record(self, files: int, seconds: float) -> None:
        """Adapt the size to the time of a batch. A quick batch must be full to count."""
        if seconds > SLOW_S:
            # Half of the batch, not of the current size: other batches that began with this one were
            # as slow, and have reduced the size already.
            self.files = min(self.files, max(min(MIN_FILES, self._maximum), files // 2))
        elif seconds < QUICK_S and files >= self.files:
            self.files = min(self._maximum, self.files * 2)


class IndexQueue:
    """The batches of one index on their way through the updater."""

    def __init__(
        self,
        record: IndexRecord,
        source: BatchSource[Any],
        inflight: int,
        extra_unsettled: int,
        on_failure: Callable[[str | None], None] | None = None,
    ) -> None:
        """`inflight`: the most bulk files that the indexer process works on; a kill loses this work.

        `extra_unsettled`: the number of further, answered bulk batches that may wait to be searchable.
        `on_failure` receives errors, as for `supervise`.
        """
        self.record = record
        self.source = source
        self.on_failure = on_failure
        self.scope: anyio.CancelScope | None = None  # of its tasks, while they run
        self._batch_size = AdaptiveBatchSize(min(BULK_FILES, inflight // BULK_BATCHES))
        self._in_indexer = InFlightLimit(0)
        self._unsettled = InFlightLimit(0)
        self._edits = InFlightLimit(EDITS_IN_FLIGHT)
        self._extra_unsettled = extra_unsettled
        self._resize()

    async def next_batch(self, *, edits: bool) -> Any:
        """Return the next batch as soon as a limit allows one.

        Because the batch is pulled late, the source can still choose its paths.
        """
        if edits:
            await self._edits.wait_room()
            return await self.source.next_batch(EDIT_FILES, edits=True)
        await self._unsettled.wait_room()
        await self._in_indexer.wait_room()  # only the caller of this method fills both limits
        return await self.source.next_batch(self._batch_size.files)

    def begin(self, batch: FileBatch, *, edits: bool) -> None:
        """Count a batch as in flight; `mark_answered` and `mark_settled` must follow."""
        for limit in (self._edits,) if edits else (self._in_indexer, self._unsettled):
            limit.add(_count_files(batch))

    def mark_answered(self, batch: FileBatch, seconds: float, *, edits: bool) -> None:
        """Record that the indexer process has processed a batch, or given it up, after `seconds`.

        The time of a bulk batch adapts the size of the next ones.
        """
        if not edits:
            self._batch_size.record(_count_files(batch), seconds)
            self._in_indexer.add(-_count_files(batch))
            self._resize()

    def mark_settled(self, batch: FileBatch, *, edits: bool) -> None:
        """Remove the batch from the in-flight count."""
        (self._edits if edits else self._unsettled).add(-_count_files(batch))

    def _resize(self) -> None:
        self._in_indexer.resize(self._batch_size.files * BULK_BATCHES)
        self._unsettled.resize(self._batch_size.files * (BULK_BATCHES + self._extra_unsettled))


def _count_files(batch: FileBatch) -> int:
    return len(batch.paths) + len(batch.gone)
