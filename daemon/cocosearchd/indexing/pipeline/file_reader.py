"""One read of a file: the bytes that are hashed are the bytes that are indexed.

A path that a hint or a scan named may by now be anything: gone, a symbolic link to elsewhere, a
pipe, still being written. Each part of the path is opened without following links, so nothing
outside of the root is ever read.
"""

import errno
import hashlib
import os
import re
import stat
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cocosearchd.model import RACY_NS, READ_YOUNG, Fingerprint, SkipReason, decode_path
from cocosearchd.runtime.files.nofollow import LOOKUP, open_absolute, open_below, status_below

# a file that grows through three reads is a log being written: the source feeds it again, later
ATTEMPTS = 3
_KEY_LINE = re.compile(rb"^-----(BEGIN|END) ([A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """What was read of a file.

    `skip` is set when the bytes were not read at all; `data` is then empty and `content_hash`
    stands for `skip` and for what `lstat` said. `force` is 0, or a number never used before: a file
    is then processed although nothing about it changed.
    """

    path: str
    content_hash: bytes  # blake2b, 16 bytes
    fingerprint: Fingerprint
    data: bytes
    force: int = 0
    skip: SkipReason | None = None


@dataclass(frozen=True, slots=True)
class MissingFile:
    """There is no regular file at the path."""

    path: str


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """The file is there and could not be read; worth another try later."""

    path: str
    error: str


Reading = SourceFile | MissingFile | UnreadFile


def read_files(root: bytes, paths: Iterable[str], limit: int, force: int = 0) -> Iterator[Reading]:
    """Read each path below `root`, in their order; blocking. Files over `limit` bytes are not
    opened beyond `fstat`.

    Never raises for what a file or a root is: a root that cannot be opened makes every path
    `UnreadFile`, because a root that vanished keeps its rows.
    """
    try:
        folder = open_absolute(root, LOOKUP)
    except OSError as error:
        yield from (
            UnreadFile(path, f"the root cannot be opened: {error.strerror}") for path in paths
        )
        return
    try:
        yield from (_read(folder, path, limit, force) for path in paths)
    finally:
        os.close(folder)


def is_secret(data: bytes) -> bool:
    """Whether the content is key material: private key blocks make up more than half of it.

    A source file that quotes a key in a test stays searchable.
    """
    if b"PRIVATE KEY" not in data:
        return False
    return 2 * sum(map(len, _keys(data.replace(b"\r\n", b"\n")))) > len(data)


def _keys(data: bytes) -> Iterator[bytes]:
    """The private key blocks of a content: each from a first line to the next last line of its
    kind. One pass.

    As one pattern it would take the square of a content in which many begin and none ends.
    """
    lines = list(_KEY_LINE.finditer(data))
    ends = defaultdict[bytes, deque[int]](deque)
    for line in lines:
        if line[1] == b"END":
            ends[line[2]].append(line.end())
    after = 0  # the block before
    for line in lines:
        last = ends[line[2]]
        while last and last[0] <= line.start():
            last.popleft()
        if line[1] == b"BEGIN" and last and line.start() >= after:
            after = last[0]
            yield data[line.start() : after]


def _read(folder: int, path: str, limit: int, force: int) -> Reading:
    try:
        return _read_in(folder, decode_path(path), path, limit, force)
    except (FileNotFoundError, NotADirectoryError):
        return MissingFile(path)
    except OSError as error:
        # ELOOP: a part of the path is a symbolic link. ENXIO: a socket, or a device without a
        # driver.
        gone = error.errno in {errno.ELOOP, errno.ENXIO}
        return MissingFile(path) if gone else UnreadFile(path, error.strerror or str(error))


def _read_in(folder: int, raw: bytes, path: str, limit: int, force: int) -> Reading:
    try:
        handle = open_below(folder, raw, os.O_RDONLY)
    except PermissionError:
        return _closed(status_below(folder, raw), path, force)
    try:
        return _read_open(handle, path, limit, force)
    finally:
        os.close(handle)


def _closed(status: os.stat_result, path: str, force: int) -> Reading:
    """A file that its owner keeps from us is left out, as a large one is. It is no failure: waiting
    mends nothing.
    """
    if not stat.S_ISREG(status.st_mode):
        return MissingFile(path)
    seen = fingerprint(status)
    return SourceFile(path, _hash(f"unreadable {seen!r}".encode()), seen, b"", force, "unreadable")


def _read_open(handle: int, path: str, limit: int, force: int) -> Reading:
    for _ in range(ATTEMPTS):
        began = time.time_ns()
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            return MissingFile(path)
        seen = fingerprint(before)
        if before.st_size > limit:
            return SourceFile(path, _hash(repr(seen).encode()), seen, b"", force, "too_large")
        data = os.pread(handle, before.st_size + 1, 0)
        if len(data) == before.st_size and fingerprint(os.fstat(handle)) == seen:
            return SourceFile(path, _hash(data), _as_read(seen, began), data, force)
    return UnreadFile(path, "it changes while it is read")


def _as_read(seen: Fingerprint, began_ns: int) -> Fingerprint:
    """What is to be stored: another change may look the same if the last one was shortly before the
    reading began.
    """
    return (
        seen._replace(mode=seen.mode | READ_YOUNG) if seen.ctime_ns >= began_ns - RACY_NS else seen
    )


def fingerprint(status: os.stat_result) -> Fingerprint:
    """The parts of a `stat` that tell one state of a file from another."""
    return Fingerprint(
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_mode,
    )


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
