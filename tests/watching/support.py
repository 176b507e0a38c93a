"""Support for tests of roots: an index in memory, a walker that shares no code, random changes."""

import asyncio
import contextlib
import errno
import hashlib
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import anyio

from cocosearchd.config.settings import IndexingSettings, WatchingSettings
from cocosearchd.forms.path_forms import path_bytes
from cocosearchd.model import FileRecord, Fingerprint
from cocosearchd.watching.dirty_records import DirtyBatch
from cocosearchd.watching.scans.root_group import RootGroup
from cocosearchd.watching.watched_root import WatchedRoot

BACKENDS = (
    ["inotify", "watchfiles", "polling"] if sys.platform == "linux" else ["watchfiles", "polling"]
)
GIT = (
    "-c",
    "user.name=Test",
    "-c",
    "user.email=test@example.invalid",
    "-c",
    "init.defaultBranch=main",
)
QUICK = WatchingSettings(debounce_ms=50, retry_base_s=0.05, poll_s=0.1)


def digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


class MemoryIndex:
    """Follows a root as the indexing child does: one read for each path, between two `fstat`.

    An index in PostgreSQL behind CocoIndex would test those; here the question is what a root hands
    out.
    """

    def __init__(self, root: bytes) -> None:
        self.root = root
        self.files: dict[str, FileRecord] = {}
        self.batches: list[DirtyBatch] = []
        self.failing: dict[str, str] = {}  # path -> error
        self.harmful = set[str]()  # of those that fail, the ones to be set aside
        self.damaged: tuple[str, ...] = ()
        self.delay_s = 0.0
        self.paused = asyncio.Event()
        self.paused.set()

    async def file_records(self, under: str = "") -> Sequence[FileRecord]:
        await asyncio.sleep(0)
        return [
            r
            for p, r in sorted(self.files.items())
            if not under or p == under or p.startswith(under + "/")
        ]

    async def damaged_files(self) -> Sequence[str]:
        return self.damaged

    async def devices(self) -> frozenset[int]:
        await asyncio.sleep(0)
        return frozenset(
            record.fingerprint.device for record in self.files.values() if record.fingerprint
        )

    async def follow(self, live: WatchedRoot, limit: int = 16) -> None:
        while True:
            await self.paused.wait()
            batch = await live.next_batch(limit)
            await asyncio.sleep(self.delay_s)
            self.batches.append(batch)
            failed = {p: self.failing[p] for p in [*batch.paths, *batch.gone] if p in self.failing}
            for path in batch.paths:
                if path not in failed and not self.read(path):
                    failed[path] = "changes while it is read"
            for path in batch.gone:
                self.files.pop(path, None)
            live.settle(batch, failed)
            for path in self.harmful & failed.keys():
                live.set_aside(path, failed[path])

    def read(self, path: str) -> bool:
        """Read a path into the index, or remove it if it is gone; return whether it could be read
        in one piece.
        """
        full_path = os.path.join(self.root, path_bytes(path))
        try:
            handle = os.open(full_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                self.files.pop(path, None)
                return True
            return False
        try:
            status = os.fstat(handle)
            file_fingerprint = Fingerprint.from_status(status)
            data = os.read(handle, status.st_size + 1)
            if (
                Fingerprint.from_status(os.fstat(handle)) != file_fingerprint
                or len(data) != status.st_size
            ):
                return False
        finally:
            os.close(handle)
        self.files[path] = FileRecord(path, digest(data), file_fingerprint, 1, 1, "text")
        return True

    def contents(self) -> dict[bytes, bytes]:
        return {path_bytes(path): record.content_hash for path, record in self.files.items()}


def on_disk(root: bytes, *, suffixes: tuple[bytes, ...] = (b".py",)) -> dict[bytes, bytes]:
    """Every regular file of a kind and the hash of its content, by a walk that shares nothing with
    the product.
    """
    digests = {}
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if name != b".git"]
        for name in files:
            path = os.path.join(directory, name)
            if name.endswith(suffixes) and not os.path.islink(path):
                with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                    digests[os.path.relpath(path, root)] = digest(file.read())
    return digests


@contextlib.asynccontextmanager
async def following(
    root: Path,
    sync_dir: Path,
    backend: str = "inotify",
    watching: WatchingSettings = QUICK,
    indexing: IndexingSettings | None = None,
    index: MemoryIndex | None = None,
    kind: type[WatchedRoot] = WatchedRoot,
    group: RootGroup | None = None,
) -> AsyncIterator[tuple[WatchedRoot, MemoryIndex]]:
    """A running root with an index that follows it."""
    raw = os.fsencode(root)
    index = index or MemoryIndex(raw)
    settings = replace(watching, backend=backend)  # type: ignore[arg-type]
    live = kind(raw, index, indexing or IndexingSettings(), settings, sync_dir, group=group)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live.run)
        tasks.start_soon(index.follow, live)
        try:
            yield live, index
        finally:
            tasks.cancel_scope.cancel()


async def in_sync(live: WatchedRoot, timeout_s: float = 60.0) -> None:
    """Sync until it says fresh; each time it says so counts."""
    end = time.monotonic() + timeout_s
    while not (answer := await live.sync(max(end - time.monotonic(), 0.0))).fresh:
        assert answer.reason
        assert time.monotonic() < end, answer
        await anyio.sleep(0.01)


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *GIT, *arguments],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


class Mutator:
    """Random operations on a tree, as seen in `watching` work: seeded, names from a small pool so
    that they collide.
    """

    NAMES: tuple[bytes, ...] = (
        b"a.py",
        b"b.py",
        b"c.py",
        b"d\xff.py",
        b"new\nline.py",
        b"back\\slash.py",
        b"\xc3\xa9.py",
        b"skip.bin",
    )
    FOLDERS = (b"x", b"y", b"z", b"odd\xfe", b"w w")

    def __init__(self, root: bytes, seed: int, *, replace_root: bool = True) -> None:
        self.root, self.rng, self.replace_root = root, random.Random(seed), replace_root
        self.outside = root + b".outside"
        os.makedirs(self.outside, exist_ok=True)
        self.operations = [
            *[self.write] * 6,
            *[self.atomic_save] * 3,
            self.same_size,
            self.append,
            self.delete,
            self.delete,
            self.make_folder,
            self.make_folder,
            self.nested,
            self.remove_tree,
            self.move,
            self.move,
            self.move_out,
            self.move_in,
            self.symlink,
            self.burst,
        ]

    def step(self) -> None:
        with contextlib.suppress(OSError, shutil.Error):
            if self.replace_root and self.rng.random() < 0.004:
                self.replaced_root()
            else:
                self.rng.choice(self.operations)()

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def folder(self, top: bytes | None = None) -> bytes:
        directory = self.root if top is None else top
        while self.rng.random() < 0.7:
            below = [e.path for e in os.scandir(directory) if e.is_dir(follow_symlinks=False)]
            if not below:
                break
            directory = self.rng.choice(sorted(below))
        return directory

    def file(self) -> bytes:
        return os.path.join(self.folder(), self.rng.choice(self.NAMES))

    def content(self) -> bytes:
        return b"x = %d\n" % self.rng.randrange(10**6) * self.rng.randrange(1, 5)

    def put(self, path: bytes, data: bytes, flags: int = os.O_TRUNC) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | flags)
        os.write(handle, data)
        os.close(handle)

    def write(self) -> None:
        self.put(self.file(), self.content())

    def append(self) -> None:
        self.put(self.file(), b"y = 1\n", os.O_APPEND)

    def atomic_save(self) -> None:
        path = self.file()
        self.put(path + b".tmp", self.content())
        os.rename(path + b".tmp", path)

    def same_size(self) -> None:
        path = self.file()
        status = os.stat(path)
        self.put(path, b"z" * status.st_size)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def delete(self) -> None:
        os.unlink(self.file())

    def make_folder(self) -> None:
        os.mkdir(os.path.join(self.folder(), self.rng.choice(self.FOLDERS)))

    def nested(self) -> None:
        directory = os.path.join(self.folder(), *(self.rng.choice(self.FOLDERS) for _ in range(3)))
        os.makedirs(directory)
        for name in self.NAMES[:3]:
            self.put(os.path.join(directory, name), self.content())

    def remove_tree(self) -> None:
        directory = self.folder()
        if directory != self.root:
            shutil.rmtree(directory)

    def move(self) -> None:
        what = self.folder() if self.rng.random() < 0.6 else self.file()
        if what != self.root:
            names = self.NAMES if os.path.isfile(what) else self.FOLDERS
            os.rename(what, os.path.join(self.folder(), self.rng.choice(names)))

    def move_out(self) -> None:
        what = self.folder()
        if what != self.root:
            os.rename(what, os.path.join(self.outside, b"%d" % self.rng.randrange(5)))

    def move_in(self) -> None:
        choices = sorted(os.listdir(self.outside))
        os.rename(
            os.path.join(self.outside, self.rng.choice(choices))
            if choices
            else self.outside + b"/none",
            os.path.join(self.folder(), self.rng.choice(self.FOLDERS)),
        )

    def symlink(self) -> None:
        os.symlink(self.rng.choice([self.folder(), self.file(), b"nowhere.py"]), self.file())

    def burst(self) -> None:
        directory = self.folder()
        for _ in range(30):
            self.put(os.path.join(directory, self.rng.choice(self.NAMES)), self.content())

    def replaced_root(self) -> None:
        if self.rng.random() < 0.5:
            os.rename(self.root, self.outside + b"/root%d" % self.rng.randrange(10**6))
        else:
            shutil.rmtree(self.root)
        os.mkdir(self.root)
        self.put(self.root + b"/again.py", self.content())
