"""Feeds changed files to CocoIndex as changes of a live map.

CocoIndex never walks and never watches a root: it gets each changed file by path. This map can
therefore only be watched. It cannot be iterated, on purpose: CocoIndex would take the result of an
iteration for all files, and delete the others.
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
    users: int = 0  # tasks that hold the lock or wait for it


class RootFeed:
    """A CocoIndex `LiveMapFeed` from path to file.

    Batches overlap, but no path is in flight twice.
    """

    def __init__(self) -> None:
        self._subscribed: asyncio.Future[tuple[Subscriber, contextvars.Context]] = asyncio.Future()
        self._stopped = asyncio.Event()
        self._locks: dict[str, _PathLock] = {}

    async def watch(self, subscriber: Subscriber) -> None:
        """Serve CocoIndex, which calls this once, until `stop`."""
        # CocoIndex finds its component in the context of the task: changes run in copies of this
        # context.
        self._subscribed.set_result((subscriber, contextvars.copy_context()))
        await subscriber.mark_ready()
        await self._stopped.wait()

    def stop(self) -> None:
        """End the live run. All changes in flight must have been awaited before."""
        self._stopped.set()

    @contextlib.asynccontextmanager
    async def hold_paths(self, paths: Iterable[str]) -> AsyncIterator[None]:
        """Lock the paths; hold the locks from before the read until the content is stored."""
        # All callers lock in the same order, so two batches cannot wait for each other.
        locks = [(path, self._locks.setdefault(path, _PathLock())) for path in sorted(set(paths))]
        for _, path_lock in locks:
            path_lock.users += 1
        locked = 0
        try:
            for _, path_lock in locks:
                await path_lock.lock.acquire()
                locked += 1
            yield
        finally:
            for number, (path, path_lock) in enumerate(locks):
                if number < locked:
                    path_lock.lock.release()
                path_lock.users -= 1
                if not path_lock.users:
                    del self._locks[path]

    async def apply(
        self, sources: Iterable[SourceFile], gone: Iterable[str], on_end: Callable[[str], object]
    ) -> dict[str, BaseException]:
        """Process files and deletions. Wait until each is committed or known to be unchanged.

        Return the errors by path. `on_end` is called with each path after its change, with or
        without an error.
        """
        subscriber, context = await asyncio.shield(self._subscribed)
        changes = [
            (source.path, _update_file(subscriber, path_key(source.path), source))
            for source in sources
        ]
        changes += [(path, _delete_file(subscriber, path_key(path))) for path in gone]
        tasks = list[asyncio.Task[None]]()
        for path, change in changes:
            tasks.append(task := asyncio.create_task(change, context=context.copy()))
            task.add_done_callback(partial(_report_end, on_end, path))
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return {
            path: error
            for (path, _), error in zip(changes, outcomes, strict=True)
            if error is not None
        }


async def _update_file(subscriber: Subscriber, key: coco.StableKey, source: SourceFile) -> None:
    await (await subscriber.update(key, source)).ready()


async def _delete_file(subscriber: Subscriber, key: coco.StableKey) -> None:
    await (await subscriber.delete(key)).ready()


def _report_end(on_end: Callable[[str], object], path: str, _: asyncio.Task[None]) -> None:
    on_end(path)


def path_key(path: str) -> coco.StableKey:
    """Return the key of a path in CocoIndex's store: a long path becomes its digest.

    An LMDB key has at most 511 bytes, and CocoIndex adds to it.
    """
    raw = path.encode()
    return path if len(raw) <= LONG_BYTES else hashlib.blake2b(raw, digest_size=32).digest()
