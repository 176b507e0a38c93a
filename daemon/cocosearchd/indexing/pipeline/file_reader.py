"""Reads a file once: the hashed bytes are the indexed bytes.

The path of a hint or a scan may have changed since: the file may be deleted, a symbolic link, a
pipe or incomplete. Each part of the path is opened without following links, so nothing outside of the
root is ever read.
"""

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cocosearchd.forms.path_forms import path_bytes
from cocosearchd.model import RACY_NS, READ_YOUNG, Fingerprint, SkipReason, hash_content
from cocosearchd.runtime.files.nofollow import LOOKUP, open_absolute, open_below, status_below

# A file that grows during three reads is a log in use: the source offers it again later.
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as read.

    `skip` is set when the bytes were not read: `data` is then empty, and `content_hash` is a hash
    of `skip` and the `lstat` values. `force` is 0, or a new unique number to process a file although
    nothing about it changed.
    """

    path: str
    content_hash: bytes  # blake2b, 16 bytes
    fingerprint: Fingerprint
    data: bytes
    force: int = 0
    skip: SkipReason | None = None


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A path without a regular file."""

    path: str


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that exists and could not be read. A later try may succeed."""

    path: str
    error: str


Reading = SourceFile | MissingFile | UnreadFile


def read_files(root: bytes, paths: Iterable[str], limit: int, force: int = 0) -> Iterator[Reading]:
    """Read each path below `root`, in order; blocking. Files over `limit` bytes are not read.

    It never raises for the state of a file or root. If the root cannot be opened, every path is an
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


def _read(folder: int, path: str, limit: int, force: int) -> Reading:
    try:
        return _read_in(folder, path_bytes(path), path, limit, force)
    except (FileNotFoundError, NotADirectoryError):
        return MissingFile(path)
    except OSError as error:
        # ELOOP: a part of the path is a symbolic link. ENXIO: a socket or a device without driver.
        gone = error.errno in {errno.ELOOP, errno.ENXIO}
        return MissingFile(path) if gone else UnreadFile(path, error.strerror or str(error))


def _read_in(folder: int, raw: bytes, path: str, limit: int, force: int) -> Reading:
    try:
        handle = open_below(folder, raw, os.O_RDONLY)
    except PermissionError:
        return _skip_unreadable(status_below(folder, raw), path, force)
    try:
        return _read_open(handle, path, limit, force)
    finally:
        os.close(handle)


def _skip_unreadable(status: os.stat_result, path: str, force: int) -> Reading:
    """Skip a file without read permission. This is no failure, because a later try does not help."""
    if not stat.S_ISREG(status.st_mode):
        return MissingFile(path)
    file_fingerprint = Fingerprint.from_status(status)
    return SourceFile(
        path,
        hash_content(f"unreadable {file_fingerprint!r}".encode()),
        file_fingerprint,
        b"",
        force,
        "unreadable",
    )


def _read_open(handle: int, path: str, limit: int, force: int) -> Reading:
    for _ in range(ATTEMPTS):
        began_ns = time.time_ns()
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return MissingFile(path)
        file_fingerprint = Fingerprint.from_status(status)
        if status.st_size > limit:
            return SourceFile(
                path,
                hash_content(repr(file_fingerprint).encode()),
                file_fingerprint,
                b"",
                force,
                "too_large",
            )
        data = os.pread(handle, status.st_size + 1, 0)
        if (
            len(data) == status.st_size
            and Fingerprint.from_status(os.fstat(handle)) == file_fingerprint
        ):
            return SourceFile(
                path, hash_content(data), _mark_young(file_fingerprint, began_ns), data, force
            )
    return UnreadFile(path, "it changes while it is read")


def _mark_young(file_fingerprint: Fingerprint, began_ns: int) -> Fingerprint:
    """Return the fingerprint to store, with `READ_YOUNG` if the file changed just before the read.

    A second change in that time could leave the fingerprint the same.
    """
    return (
        file_fingerprint._replace(mode=file_fingerprint.mode | READ_YOUNG)
        if file_fingerprint.ctime_ns >= began_ns - RACY_NS
        else file_fingerprint
    )
