"""Stamps of the files that shape git's rules: they differ if the files may have changed.

The author of a repository chooses the targets of its links: a path behind a link may hang, or
change all the time. A stamp of a file of a repository therefore follows no link.
"""

import contextlib
import os
import time
from collections.abc import Iterable
from typing import NamedTuple

from cocosearchd.model import RACY_NS
from cocosearchd.runtime.files.nofollow import LOOKUP, open_absolute
from cocosearchd.runtime.files.regular_files import resolve_inside

Stamp = tuple[int, int, int, int]  # inode, size, mtime and ctime
Signature = tuple[Stamp | None, ...]
_UNSETTLED: Stamp = (0, 0, 0, 0)  # no file has the inode 0


class StampedFile(NamedTuple):
    """A file whose stamp counts; `is_own`: a repository names it, so no link is followed."""

    path: bytes
    is_own: bool

    def stamp(self) -> Stamp | None:
        """Return its stamp; None if it is missing."""
        return own_stamp(self.path) if self.is_own else stamp(self.path)

    def settled_stamp(self) -> Stamp | None:
        """Return its stamp; if the file has just changed, a stamp that no file ever has.

        The clock of a file system advances in steps: the next change may have the same times.
        """
        settled = self.stamp()
        if settled is not None and settled[-1] > time.time_ns() - RACY_NS:
            return _UNSETTLED
        return settled


def stamp(path: bytes) -> Stamp | None:
    """Return a stamp of a file of the user, behind links as well; None for a missing file.

    The mtime of a written file may be set back (`touch -r`, `rsync -t`), its ctime may not.
    """
    try:
        return stamp_of(os.stat(path))
    except OSError:
        return None


def own_stamp(path: bytes) -> Stamp | None:
    """Return a stamp of a file of a repository; None if it is missing or behind a link.

    A link gets a stamp of its own, not that of its target.
    """
    try:
        return stamp_of(own_status(path))
    except OSError:
        return None


def own_status(path: bytes) -> os.stat_result:
    """Return the status of a file of a repository without following it. Raises `OSError`."""
    with OwnStatuses() as statuses:
        return statuses.read(path)


def read_signature(files: Iterable[StampedFile]) -> Signature:
    """Return the stamps of files. Files of one directory should be neighbours: `OwnStatuses`."""
    with OwnStatuses() as statuses:
        return tuple(
            statuses.read_stamp(file.path) if file.is_own else stamp(file.path) for file in files
        )


class OwnStatuses:
    """Reads statuses of files of a repository, without following links.

    The directory of the last file stays open: the next file in it takes 1 µs instead of 8.
    """

    def __init__(self) -> None:
        self._directory: bytes | None = None
        self._handle: int | None = None

    def __enter__(self) -> "OwnStatuses":
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def read(self, path: bytes) -> os.stat_result:
        """Return the status of a file. Raises `OSError`, also for one behind a link."""
        directory, _, name = path.rpartition(b"/")
        if directory != self._directory or self._handle is None:
            self._close()
            self._handle = open_absolute(directory or b"/", LOOKUP)
            self._directory = directory
        return os.lstat(name, dir_fd=self._handle)

    def read_stamp(self, path: bytes) -> Stamp | None:
        """Return the stamp of a file, like `own_stamp`."""
        try:
            return stamp_of(self.read(path))
        except OSError:
            return None

    def _close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def own_files(file: bytes, directories: Iterable[bytes]) -> tuple[StampedFile, ...]:
    """Return the files to stamp for a file of a repository, if it is in one of the directories.

    These are the file, which may be a link, and the target of the link. Blocking: resolves links.
    """
    tops = tuple(directory.rstrip(b"/") + b"/" for directory in directories)
    path = os.path.normpath(file)
    paths = [path] if path.startswith(tops) else []
    with contextlib.suppress(OSError):  # its reader reports why it is not used
        paths.append(resolve_inside(path, directories))
    return tuple(StampedFile(path, is_own=True) for path in dict.fromkeys(paths))


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file with this status."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
