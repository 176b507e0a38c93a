"""What the updater knows of one index: where its batches come from and how many of its files are under way."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import anyio

from cocosearchd.model import IndexRecord

# A save that comes during a first indexing waits for one batch to end, and shares the machine with the rest of them.
# Measured (benchmarks.indexing): batches of 4 with 8 files under way halve that wait against 8 with 16, for 5 % of CPU.
BATCH_FILES = 4
SHARE = 3  # of the files that CocoIndex works on at once, a third is given away before anything urgent is known


class Batch(Protocol):
    """Paths that may differ from the index. `gone` ones are not looked at: they have left the scope."""

    @property
    def paths(self) -> tuple[str, ...]: ...

    @property
    def gone(self) -> tuple[str, ...]: ...

    @property
    def force(self) -> bool:
        """Process the paths even if nothing about them changed."""


B = TypeVar("B", bound=Batch)


class BatchSource(Protocol[B]):
    """Where an index's batches come from; it remembers what is dirty until it is told how that went."""

    async def next_batch(self, limit: int = 64) -> B:
        """Wait for something to do: what a person waits for first, then the rest, at most `limit` paths."""

    def settle(self, batch: B, failed: Mapping[str, str]) -> None:
        """The batch is committed and its hook has run, except for `failed` (path -> why): to be tried again later."""

    def quarantine(self, path: str, error: str) -> None:
        """The path must not be given again until the file changes."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a batch, as it is sent."""

    paths: tuple[str, ...]
    gone: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Every path, in the order of halving."""
        return self.paths + self.gone

    def halves(self) -> tuple[Self, Self]:
        """Two pieces of almost the same size; for two paths and more."""
        middle = len(self.all) // 2
        first, second = set(self.all[:middle]), set(self.all[middle:])
        return self._only(first), self._only(second)

    def _only(self, kept: set[str]) -> Self:
        return type(self)(tuple(p for p in self.paths if p in kept), tuple(p for p in self.gone if p in kept))


class Lane:
    """One index on its way through the updater."""

    def __init__(self, record: IndexRecord, source: BatchSource[Any], inflight: int) -> None:
        self.record, self.source = record, source
        self.scope: anyio.CancelScope | None = None  # of its tasks, while they run
        self._window = max(1, inflight // SHARE)
        self._under_way = 0
        self._room = asyncio.Event()
        self._room.set()

    async def next_batch(self) -> Any:
        """The next batch, as soon as there is room for one: not pulling leaves the choice to the source."""
        await self._room.wait()
        return await self.source.next_batch(BATCH_FILES)

    def began(self, batch: Batch) -> None:
        """The batch counts until `ended`."""
        self._count(len(batch.paths) + len(batch.gone))

    def ended(self, batch: Batch) -> None:
        """Makes room."""
        self._count(-len(batch.paths) - len(batch.gone))

    def _count(self, files: int) -> None:
        self._under_way += files
        if self._under_way < self._window:
            self._room.set()
        else:
            self._room.clear()
