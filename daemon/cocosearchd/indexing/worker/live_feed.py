"""The batches of the reconciler as CocoIndex sees them: changes of a live map.

CocoIndex never walks and never watches: it is told each file that changed, by path. So this is a
map that can only be watched. It cannot be iterated on purpose: iterating means "this is all there
is", and everything else would be deleted.
"""

import asyncio
import contextlib
import contextvars
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import cocoindex as coco

from cocosearchd.indexing.pipeline.file_reader import SourceFile

LONG_BYTES = 300
Subscriber = coco.LiveMapSubscriber[coco.StableKey, SourceFile]


@dataclass(slots=True)
class _PathLock:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0  # who holds the lock or waits for it


class RootFeed:
    """A CocoIndex `LiveMapFeed` from path to file. Batches overlap; one path is never in flight
    twice.
    """

    def __init__(self) -> None:
        self._subscribed: asyncio.Future[tuple[Subscriber, contextvars.Context]] = asyncio.Future()
        self._stopped = asyncio.Event()
        self._turns: dict[str, _PathLock] = {}

    async def watch(self, subscriber: Subscriber) -> None:
        """Called by CocoIndex, once; returns after `stop`."""
        # CocoIndex finds the component it works for in the context of the task: changes run in
        # copies of this one.
        self._subscribed.set_result((subscriber, contextvars.copy_context()))
        await subscriber.mark_ready()
        await self._stopped.wait()

    def stop(self) -> None:
        """End the live run. What is in flight must have been awaited before."""
        self._stopped.set()

    @contextlib.asynccontextmanager
    async def hold_paths(self, paths: Iterable[str]) -> AsyncIterator[None]:
        """Hold the paths, from before they are read until what was read is known to be stored."""
        # In one order everywhere, so that two batches cannot wait for each other.
        turns = [(path, self._turns.setdefault(path, _PathLock())) for path in sorted(set(paths))]
        for _, turn in turns:
            turn.users += 1
        locked = 0
        try:
            for _, turn in turns:
                await turn.lock.acquire()
                locked += 1
            yield
        finally:
            for number, (path, turn) in enumerate(turns):
                if number < locked:
                    turn.lock.release()
                turn.users -= 1
                if not turn.users:
                    del self._turns[path]

    async def apply(
        self, sources: Iterable[SourceFile], gone: Iterable[str], ended: Callable[[str], object]
    ) -> dict[str, BaseException]:
        """Returns when every file is committed, or was known already, and what is remembered of
        `gone` is deleted.

        What went wrong, by path. `ended` is called with each path when it has ended, however that
        was.
        """
        subscriber, context = await asyncio.shield(self._subscribed)
        changes = [(one.path, _changed(subscriber, path_key(one.path), one)) for one in sources]
        changes += [(path, _deleted(subscriber, path_key(path))) for path in gone]
        tasks = list[asyncio.Task[None]]()
        for path, change in changes:
            tasks.append(task := asyncio.create_task(change, context=context.copy()))
            task.add_done_callback(partial(_tell, ended, path))
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return {
            path: one for (path, _), one in zip(changes, outcomes, strict=True) if one is not None
        }


async def _changed(subscriber: Subscriber, key: coco.StableKey, source: SourceFile) -> None:
    await (await subscriber.update(key, source)).ready()


async def _deleted(subscriber: Subscriber, key: coco.StableKey) -> None:
    await (await subscriber.delete(key)).ready()


def _tell(ended: Callable[[str], object], path: str, _: asyncio.Task[None]) -> None:
    ended(path)


def path_key(path: str) -> coco.StableKey:
    """The path as CocoIndex's store can hold it: in LMDB, a key has at most 511 bytes, and there is
    more in it.
    """
    raw = path.encode()
    return path if len(raw) <= LONG_BYTES else hashlib.blake2b(raw, digest_size=32).digest()
