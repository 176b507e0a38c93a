"""Reads files on disk and verifies them against the indexed content hash. Synchronous, for threads.

`VerifiedFiles.run_bounded` runs such reads in a thread. A read returns only content with the hash
that the caller expects. No symbolic link is followed in any part of a path, including the path of
the root. Therefore nothing outside of a root is ever read.
"""

import asyncio
import os
import stat
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from time import time_ns
from typing import TypeVar

import anyio
import numpy as np
from numpy.typing import NDArray

from cocosearchd.config.settings import LARGEST_FILE_BYTES
from cocosearchd.forms.path_forms import path_bytes
from cocosearchd.model import hash_content
from cocosearchd.runtime.files.nofollow import open_absolute, status_of

MAX_TEXTS = 128
MAX_TEXT_BYTES = 32 << 20  # CocoSearch caches 128 files too; the limit in bytes is our own
MAX_READ_RECORDS = 4096
# Equal fingerprints prove equal content only if the last change is at least this long before the
# read: the timestamps of some file systems have a resolution of two seconds.
SETTLED_NS = 2_000_000_000
READ_S = 5.0  # a responsive file system reads the files of an answer in less
# Reads that run at once in one root: each blocks a thread if the file system is unresponsive.
MAX_PARALLEL_READS = 4
_NEWLINE = 10
Result = TypeVar("Result")

_Fingerprint = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class FileContents:
    """The content of a file. `context_cache` caches results derived from the content."""

    content_hash: bytes
    data: bytes
    context_cache: dict[object, tuple[str, str]] = field(default_factory=dict, compare=False)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The byte offset of each line, found at the first use: many files are read for their hash."""
        return _line_starts(self.data)

    @property
    def line_count(self) -> int:
        """The number of lines, including an unfinished last one."""
        return len(self.starts)

    def lines(self, first: int, last: int) -> list[str]:
        """Return lines `first` to `last`, inclusive, from 1, without line ends.

        Lines outside of the file are left out.
        """
        first = max(1, first)
        if first > last:
            return []
        last = min(last, len(self.starts))
        if first > last:
            return []
        end = int(self.starts[last]) if last < len(self.starts) else len(self.data)
        block = self.data[self.starts[first - 1] : end].decode("utf-8", "replace")
        lines = block.removesuffix("\n").split("\n")
        return [line.removesuffix("\r") for line in lines] if "\r" in block else lines


@dataclass(frozen=True, slots=True)
class _ReadRecord:
    fingerprint: _Fingerprint
    content_hash: bytes
    settled: bool


def make_contents(data: bytes) -> FileContents:
    """Make the contents of a file from its bytes."""
    return FileContents(hash_content(data), data)


class VerifiedFiles:
    """Verified reads of files, with a cache. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._records: OrderedDict[tuple[bytes, str], _ReadRecord] = OrderedDict()
        self._texts: OrderedDict[bytes, FileContents] = OrderedDict()
        self._bytes = 0
        self._unresponsive = set[bytes]()  # roots with a read that exceeded its time and still runs
        self._slots = dict[bytes, asyncio.Semaphore]()

    async def run_bounded(
        self, root: bytes, read: Callable[[], Result], timeout_s: float = READ_S
    ) -> Result | None:
        """Run a read of files of `root` in a thread; return None if it takes longer than
        `timeout_s`.

        After a timeout, no other read starts in the root until the late read returns: each read
        would block one of the few threads. Until the first timeout, at most `MAX_PARALLEL_READS`
        run at once, even when callers give up.
        """
        if root in self._unresponsive:
            return None
        slots = self._slots.setdefault(root, asyncio.Semaphore(MAX_PARALLEL_READS))
        task = None
        with anyio.move_on_after(timeout_s):
            await slots.acquire()
            task = asyncio.get_running_loop().run_in_executor(None, read)
            task.add_done_callback(lambda _: slots.release())
            return await asyncio.shield(task)
        if task is not None:
            self._unresponsive.add(root)
            task.add_done_callback(lambda _: self._unresponsive.discard(root))
        return None

    def forget(self, root: bytes) -> None:
        """Drop cached reads of a root. Texts that other roots share are read again."""
        with self._lock:
            keys = [key for key in self._records if key[0] == root]
            for text in [self._texts.pop(self._records[key].content_hash, None) for key in keys]:
                self._bytes -= 0 if text is None else len(text.data)
            for key in keys:
                del self._records[key]
        self._slots.pop(root, None)

    def verified(self, root: bytes, path: str, expected: bytes) -> FileContents | None:
        """Return the file's content if its hash is `expected`, else None.

        The result is also None for a file that cannot be read, is gone or lies outside of the root.
        An unchanged file costs one `stat`.
        """
        # A recorded hash that differs from the expected one proves nothing: a write through a
        # memory mapping may leave the times of a file unchanged.
        text = self._texts.get(expected)
        if text is None or self._recorded_hash(root, path) != expected:
            return self._read(root, path, expected)
        with self._lock:
            if expected in self._texts:
                self._texts.move_to_end(expected)
        return text

    def unchanged(self, root: bytes, path: str, expected: bytes) -> bool:
        """Return True if a file certainly still has the hash `expected`.

        Costs one `stat`; False proves nothing.
        """
        return self._recorded_hash(root, path) == expected

    def _recorded_hash(self, root: bytes, path: str) -> bytes | None:
        """Return the hash of a file that is unchanged since its last read.

        Return None if the file may have changed.
        """
        record = self._records.get((root, path))
        if record is None or not record.settled:
            return None
        try:
            status = status_of(_absolute_path(root, path))
        except (OSError, ValueError):
            return None
        return record.content_hash if record.fingerprint == _fingerprint(status) else None

    def _read(self, root: bytes, path: str, expected: bytes) -> FileContents | None:
        read_began_ns = time_ns()
        read = _read_regular(_absolute_path(root, path))
        if read is None:
            return None
        status, data = read
        text = make_contents(data)
        self._remember((root, path), status, text, read_began_ns)
        return text if text.content_hash == expected else None

    def _remember(
        self, key: tuple[bytes, str], status: os.stat_result, text: FileContents, read_began_ns: int
    ) -> None:
        settled = max(status.st_mtime_ns, status.st_ctime_ns) + SETTLED_NS < read_began_ns
        with self._lock:
            self._records[key] = _ReadRecord(_fingerprint(status), text.content_hash, settled)
            self._records.move_to_end(key)
            if len(self._records) > MAX_READ_RECORDS:
                self._records.popitem(last=False)
            if text.content_hash not in self._texts:
                self._texts[text.content_hash] = text
                self._bytes += len(text.data)
            while len(self._texts) > MAX_TEXTS or (
                self._bytes > MAX_TEXT_BYTES and len(self._texts) > 1
            ):
                self._bytes -= len(self._texts.popitem(last=False)[1].data)


def _absolute_path(root: bytes, path: str) -> bytes:
    return root.rstrip(b"/") + b"/" + path_bytes(path)


def _read_regular(path: bytes) -> tuple[os.stat_result, bytes] | None:
    """Read a regular file and its status; return None if that fails. Never waits for a pipe.

    The result is also None for a file that changed during the read, and for a file that is too
    large to be indexed: since indexing, a small text may have grown to a dump of gigabytes.
    """
    try:
        fd = open_absolute(path, os.O_RDONLY)
    except (OSError, ValueError):  # ValueError: a NUL byte in the path
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE_BYTES:
            return None
        # `read` takes memory for all that it may return. Some file systems state a smaller size.
        data = os.read(fd, status.st_size + 1)
        while len(data) != status.st_size and (
            block := os.read(fd, LARGEST_FILE_BYTES + 1 - len(data))
        ):
            data += block
        return (status, data) if _fingerprint(status) == _fingerprint(os.fstat(fd)) else None
    except OSError:
        return None
    finally:
        os.close(fd)


def _fingerprint(status: os.stat_result) -> _Fingerprint:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _line_starts(data: bytes) -> NDArray[np.int64]:
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE)
    starts = np.zeros(len(ends) + 1, np.int64)
    np.add(ends, 1, out=starts[1:])
    has_text = int(starts[-1]) < len(data)  # after the last line end
    return starts if has_text else starts[:-1]
