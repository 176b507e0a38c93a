"""Files as they are on disk now, compared with what the index has seen. Synchronous, for threads;
`VerifiedFiles.within` is one.

What is given out is only ever content whose hash the caller names. No symbolic link is followed, in
any part of a path, the root's included: nothing outside of a root is ever read.
"""

import asyncio
import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from time import time_ns
from typing import TypeVar

import anyio
import numpy as np
from numpy.typing import NDArray

from cocosearchd.config.settings import LARGEST_FILE_BYTES
from cocosearchd.model import decode_path
from cocosearchd.runtime.files.nofollow import open_absolute, status_of

MAX_TEXTS = 128
MAX_TEXT_BYTES = 32 << 20  # CocoSearch keeps 128 files; the bytes are our own bound
MAX_READ_RECORDS = 4096
# Equal fingerprints prove equal content only when the last change lies this far before the read:
# the clock of some file systems has steps of two seconds.
SETTLED_NS = 2_000_000_000
READ_S = 5.0  # a file system that answers at all has read the files of an answer by then
# under way at once in one root: it may turn out to be silent, and then they hold as many threads
MAX_PARALLEL_READS = 4
_NEWLINE = 10
Result = TypeVar("Result")

_Fingerprint = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class FileContents:
    """The content of a file. `starts` holds the byte offset of each line; `memory` is for results
    derived from it.
    """

    content_hash: bytes
    data: bytes
    starts: NDArray[np.int64]
    memory: dict[object, tuple[str, str]] = field(default_factory=dict, compare=False)

    @property
    def line_count(self) -> int:
        """Lines; one that is not ended counts."""
        return len(self.starts)

    def lines(self, first: int, last: int) -> list[str]:
        """Lines `first` to `last`, inclusive, from 1, without their ends; outside of the file there
        are none.
        """
        first = max(1, first)
        last = min(last, len(self.starts))
        if first > last:
            return []
        end = int(self.starts[last]) if last < len(self.starts) else len(self.data)
        block = self.data[self.starts[first - 1] : end].decode("utf-8", "replace")
        return [line.removesuffix("\r") for line in block.removesuffix("\n").split("\n")]


@dataclass(frozen=True, slots=True)
class _ReadRecord:
    print: _Fingerprint
    content_hash: bytes
    settled: bool


def make_contents(data: bytes) -> FileContents:
    """Bytes as the content of a file."""
    return FileContents(hash_content(data), data, _line_starts(data))


def hash_content(data: bytes) -> bytes:
    """As `model.FileRecord.content_hash`."""
    return hashlib.blake2b(data, digest_size=16).digest()


class VerifiedFiles:
    """Verified reads with a memory. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: OrderedDict[tuple[bytes, str], _ReadRecord] = OrderedDict()
        self._texts: OrderedDict[bytes, FileContents] = OrderedDict()
        self._bytes = 0
        self._silent = set[bytes]()  # roots that a look waits for, past its time
        self._free = dict[bytes, asyncio.Semaphore]()

    async def run_bounded(
        self, root: bytes, look: Callable[[], Result], within_s: float = READ_S
    ) -> Result | None:
        """What a look at files of `root` finds, in a thread; None if the file system does not
        answer in time.

        While it does not, no other look begins there: each would hold a thread, of which all roots
        have a number. Nor before that is known do more than `MAX_PARALLEL_READS`, however many ask
        and give up.
        """
        if root in self._silent:
            return None
        free = self._free.setdefault(root, asyncio.Semaphore(MAX_PARALLEL_READS))
        looking = None
        with anyio.move_on_after(within_s):
            await free.acquire()
            looking = asyncio.ensure_future(asyncio.to_thread(look))
            looking.add_done_callback(lambda _: free.release())
            return await asyncio.shield(looking)
        if looking is not None:
            self._silent.add(root)
            looking.add_done_callback(lambda _: self._silent.discard(root))
        return None

    def forget(self, root: bytes) -> None:
        """Let go of what was read of a root; texts that other roots share are read again."""
        with self._lock:
            gone = [key for key in self._seen if key[0] == root]
            for text in [self._texts.pop(self._seen[key].content_hash, None) for key in gone]:
                self._bytes -= 0 if text is None else len(text.data)
            for key in gone:
                del self._seen[key]
        self._free.pop(root, None)

    def verified(self, root: bytes, path: str, expected: bytes) -> FileContents | None:
        """The file's content if its hash is `expected`, else None: changed, gone, unreadable or
        outside of the root.

        A file that is as it was costs one `stat`.
        """
        # Another hash than the expected proves nothing: a store through a mapping may leave the
        # times as they were.
        if self._known(root, path) == expected:
            with self._lock:
                if text := self._texts.get(expected):
                    self._texts.move_to_end(expected)
                    return text
        return self._read(root, path, expected)

    def unchanged(self, root: bytes, path: str, expected: bytes) -> bool:
        """Whether a file is known to have the hash `expected` still. Costs one `stat`; False proves
        nothing.
        """
        return self._known(root, path) == expected

    def _known(self, root: bytes, path: str) -> bytes | None:
        """The hash of a file that is as it was when it was read, None if that is not certain."""
        try:
            found = status_of(_absolute_path(root, path))
        except (OSError, ValueError):
            return None
        seen = self._seen.get((root, path))
        return (
            seen.content_hash
            if seen is not None and seen.settled and seen.print == _fingerprint(found)
            else None
        )

    def _read(self, root: bytes, path: str, expected: bytes) -> FileContents | None:
        begin = time_ns()
        read = _read_regular(_absolute_path(root, path))
        if read is None:
            return None
        found, data = read
        text = make_contents(data)
        self._remember((root, path), found, text, begin)
        return text if text.content_hash == expected else None

    def _remember(
        self, key: tuple[bytes, str], found: os.stat_result, text: FileContents, begin: int
    ) -> None:
        settled = max(found.st_mtime_ns, found.st_ctime_ns) + SETTLED_NS < begin
        with self._lock:
            self._seen[key] = _ReadRecord(_fingerprint(found), text.content_hash, settled)
            self._seen.move_to_end(key)
            if len(self._seen) > MAX_READ_RECORDS:
                self._seen.popitem(last=False)
            if text.content_hash not in self._texts:
                self._texts[text.content_hash] = text
                self._bytes += len(text.data)
            while len(self._texts) > MAX_TEXTS or (
                self._bytes > MAX_TEXT_BYTES and len(self._texts) > 1
            ):
                self._bytes -= len(self._texts.popitem(last=False)[1].data)


def _absolute_path(root: bytes, path: str) -> bytes:
    return root.rstrip(b"/") + b"/" + decode_path(path)


def _read_regular(place: bytes) -> tuple[os.stat_result, bytes] | None:
    """A regular file and what it was when its reading had ended, or None; never waits for a pipe.

    None also for one that is too large to have been indexed: what was a page of text may be a dump
    of the disk by now.
    """
    try:
        fd = open_absolute(place, os.O_RDONLY)
    except (OSError, ValueError):  # a NUL
        return None
    before = os.fstat(fd)
    if not stat.S_ISREG(before.st_mode) or before.st_size > LARGEST_FILE_BYTES:
        os.close(fd)
        return None
    with os.fdopen(fd, "rb") as file:
        try:
            data = file.read(LARGEST_FILE_BYTES)
        except OSError:
            return None
        return (before, data) if _fingerprint(before) == _fingerprint(os.fstat(fd)) else None


def _fingerprint(found: os.stat_result) -> _Fingerprint:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _line_starts(data: bytes) -> NDArray[np.int64]:
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1
    starts = np.concatenate([np.zeros(1, np.int64), ends])
    return starts[starts < len(data)]
