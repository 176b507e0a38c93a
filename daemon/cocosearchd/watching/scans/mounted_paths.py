"""Mounted files and directories below a root. Events do not announce all their changes (Linux).

An event names the path through which a file was written. A file that is mounted alone (`docker -v
x.py:/app/x.py`) is written through its other path, outside of the root. A directory announces a new
mode of a directory in it, but not of a file system that is mounted there. Each question therefore
compares the stamps of these paths.
"""

import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass

from cocosearchd.forms.path_forms import path_bytes, path_text
from cocosearchd.model import RACY_NS
from cocosearchd.runtime.files.nofollow import status_of
from cocosearchd.watching.dirty_records import FileStamp, file_stamp
from cocosearchd.watching.hints.mounts import exact_below


@dataclass(frozen=True, slots=True)
class MountedPath:
    """A mount point, and its stamp, which was read at `read_ns`.

    `ctime_ns` is 0 where the ctime says nothing: of a directory, or of a path that is not there.
    """

    path: str
    is_directory: bool
    stamp: FileStamp
    ctime_ns: int
    read_ns: int


def find_mounted(root: bytes) -> list[MountedPath]:
    """Return the mounted paths below a root, without those that only scans know. Blocking."""
    return [_stamp_path(root, path) for path in exact_below(root)]


def _stamp_path(root: bytes, path: bytes) -> MountedPath:
    read_ns = time.time_ns()
    try:
        status = status_of(os.path.join(root, path))
    except OSError as error:  # for example in an unreadable directory, which may become readable
        return MountedPath(path_text(path), False, error.errno, 0, read_ns)
    if stat.S_ISDIR(status.st_mode):
        permissions = (status.st_mode, status.st_uid, status.st_gid)
        return MountedPath(path_text(path), True, permissions, 0, read_ns)
    return MountedPath(path_text(path), False, file_stamp(status), status.st_ctime_ns, read_ns)


class MountedPaths:
    """The stamps of the mounted paths of a root, as of its last scan and all checks since."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._mounted: dict[str, MountedPath] = {}

    def replace(self, mounted: Iterable[MountedPath]) -> None:
        """Record what was mounted when a scan of the root began."""
        self._mounted = {entry.path: entry for entry in mounted}

    def __len__(self) -> int:
        return len(self._mounted)

    def changed(self) -> list[MountedPath]:
        """Return the paths that may have changed, with their present stamps. Blocking."""
        entries = [
            (old, _stamp_path(self._root, path_bytes(old.path)))
            for old in list(self._mounted.values())
        ]
        return [new for old, new in entries if _may_differ(old, new)]

    def record(self, mounted: Iterable[MountedPath]) -> list[MountedPath]:
        """Record a result of `changed`. Return the paths that no other result has reported."""
        unrecorded = list[MountedPath]()
        for new in mounted:  # several checks may run at a time
            old = self._mounted.get(new.path)
            if old is not None and _may_differ(old, new):
                self._mounted[new.path] = new
                unrecorded.append(new)
        return unrecorded


def _may_differ(old: MountedPath, new: MountedPath) -> bool:
    """Return whether the file may have changed between two readings of its stamp.

    A change that leaves the stamp comes at the time of the ctime. If the clock was set back, that
    time may lie ahead of both readings, and the second reading may have the earlier time.
    """
    first_ns, last_ns = sorted((old.read_ns, new.read_ns))
    may_be_unnoticed = first_ns - RACY_NS <= old.ctime_ns <= last_ns + RACY_NS
    return may_be_unnoticed or new.stamp != old.stamp
