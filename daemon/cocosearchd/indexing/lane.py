"""What the updater knows of one index: where its batches come from and how many of its files are under way."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import anyio

from cocosearchd.model import IndexRecord

# Bulk work goes in batches that are worth a transaction each, and always leaves room for what a person saves meanwhile:
# that is asked for apart, has a window of its own and overtakes in the child. More edits than fit it are a burst, not a
# person, and are taken with the bulk.
BULK_FILES, BULK_BATCHES = 32, 2
EDIT_FILES, EDITS_UNDER_WAY = 4, 8


def most_under_way(inflight: int) -> int:
    """How many files the child may have been handed at once, where bulk work is to take `inflight`.

    Whoever works on fewer makes edits wait for bulk work after all.
    """
    return inflight + BULK_FILES + EDITS_UNDER_WAY + EDIT_FILES


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

    async def next_batch(self, limit: int = 64, *, edits: bool = False) -> B:
        """Wait for something to do, at most `limit` paths: what a person waits for first, then the rest.

        With `edits`, for what a person waits for alone.
        """

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


class Window:
    """How many files may be under way at once; the last batch may pass it."""

    def __init__(self, files: int) -> None:
        self._files, self._under_way = files, 0
        self._room = asyncio.Event()
        self._room.set()

    async def room(self) -> None:
        """Returns when another batch may begin."""
        await self._room.wait()

    def count(self, files: int) -> None:
        """So many more are under way, or less."""
        self._under_way += files
        if self._under_way < self._files:
            self._room.set()
        else:
            self._room.clear()


class Lane:
    """One index on its way through the updater."""

    def __init__(self, record: IndexRecord, source: BatchSource[Any], inflight: int) -> None:
        """`inflight`: how many files the child has in work at once; what a kill may lose."""
        self.record, self.source = record, source
        self.scope: anyio.CancelScope | None = None  # of its tasks, while they run
        self._bulk_files = max(1, min(BULK_FILES, inflight // BULK_BATCHES))
        self._bulk, self._edits = Window(self._bulk_files * BULK_BATCHES), Window(EDITS_UNDER_WAY)

    async def next_batch(self, *, edits: bool) -> Any:
        """The next batch, as soon as there is room for one: not pulling leaves the choice to the source."""
        await self._window(edits=edits).room()
        if edits:
            return await self.source.next_batch(EDIT_FILES, edits=True)
        return await self.source.next_batch(self._bulk_files)

    def count(self, batch: Batch, sign: int, *, edits: bool) -> None:
        """The batch is under way (1), or no more (-1)."""
        self._window(edits=edits).count(sign * (len(batch.paths) + len(batch.gone)))

    def _window(self, *, edits: bool) -> Window:
        return self._edits if edits else self._bulk
