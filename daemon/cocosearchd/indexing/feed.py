"""The batches of the reconciler as CocoIndex sees them: changes of a live map.

CocoIndex never walks and never watches: it is told each file that changed, by path. So this is a map that can only be
watched. It cannot be iterated on purpose: iterating means "this is all there is", and everything else would be deleted.
"""

import asyncio
import contextlib
import contextvars
import hashlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

import cocoindex as coco

from cocosearchd.indexing.read import SourceFile

LONG_BYTES = 300
Subscriber = coco.LiveMapSubscriber[coco.StableKey, SourceFile]


@dataclass(slots=True)
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0  # who holds the lock or waits for it


class RootFeed:
    """A CocoIndex `LiveMapFeed` from path to file. Batches overlap; one path is never in flight twice."""

    def __init__(self) -> None:
        self._subscribed: asyncio.Future[tuple[Subscriber, contextvars.Context]] = asyncio.Future()
        self._stopped = asyncio.Event()
        self._turns: dict[str, _Turn] = {}

    async def watch(self, subscriber: Subscriber) -> None:
        """Called by CocoIndex, once; returns after `stop`."""
        # CocoIndex finds the component it works for in the context of the task: `_apply` runs in a copy of this one.
        self._subscribed.set_result((subscriber, contextvars.copy_context()))
        await subscriber.mark_ready()
        await self._stopped.wait()

    def stop(self) -> None:
        """End the live run. What is in flight must have been awaited before."""
        self._stopped.set()

    @contextlib.asynccontextmanager
    async def turn(self, paths: Iterable[str]) -> AsyncIterator[None]:
        """Hold the paths, from before they are read until what was read is known to be stored."""
        async with contextlib.AsyncExitStack() as held:
            for path in sorted(set(paths)):  # in one order everywhere, so that two batches cannot wait for each other
                await held.enter_async_context(self._one(path))
            yield

    async def put(self, source: SourceFile) -> None:
        """Returns when the file is committed, or was known already. Raises what indexing it or storing it raised."""
        await self._apply(source.path, source)

    async def delete(self, path: str) -> None:
        """Returns when the rows of the path are gone, if CocoIndex remembers any. Raises what deleting them raised."""
        await self._apply(path, None)

    async def _apply(self, path: str, source: SourceFile | None) -> None:
        subscriber, context = await asyncio.shield(self._subscribed)

        async def change() -> None:
            key = key_of(path)
            handle = await (subscriber.delete(key) if source is None else subscriber.update(key, source))
            await handle.ready()

        await asyncio.create_task(change(), context=context.copy())

    @contextlib.asynccontextmanager
    async def _one(self, path: str) -> AsyncIterator[None]:
        turn = self._turns.setdefault(path, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[path]


def key_of(path: str) -> coco.StableKey:
    """The path as CocoIndex's store can hold it: in LMDB, a key has at most 511 bytes, and there is more in it."""
    raw = path.encode()
    return path if len(raw) <= LONG_BYTES else hashlib.blake2b(raw, digest_size=32).digest()
