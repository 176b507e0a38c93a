"""Hard links: files with several names, of which an event names only the written one.

A write through a name outside of the root or of the scope makes no event, so each question checks
the files that have such a name. Adding such a name to a file makes no event either: the next scan
notices it, or the first answer that shows the file and finds it changed.
"""

import math
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from cocosearchd.forms.path_forms import path_bytes

# Files that a tick checks. A question checks all of them, at a third of the CPU time of a scan that
# would notice as much.
MAX_CHECKED = 5_000
# Names of one file that are compared one by one: each path of a batch of 128 may have as many. A
# scan compares the names of a file with more. Package managers link a file into some dozen projects.
MAX_NAMES = 100
# Names of a file that each question checks. A change shows at every name, but one of them may be
# unreadable.
MAX_CHECKED_NAMES = 4


Inode = tuple[int, int]  # device, inode
Stamp = tuple[int, int, int]  # size, mtime_ns, ctime_ns
Suspect = tuple[str, Stamp]  # a path, and its stamp


class LinkedName(NamedTuple):
    """A name of a file that has several, as `lstat` saw it."""

    path: str
    inode: Inode
    stamp: Stamp
    names: int


def linked_name(path: str, status: os.stat_result) -> LinkedName | None:
    """Return the record of a name; None for a file with one name."""
    if status.st_nlink < 2:
        return None
    return LinkedName(path, (status.st_dev, status.st_ino), _stamp(status), status.st_nlink)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def changed_suspects(root: bytes, suspects: Iterable[Suspect]) -> list[Suspect]:
    """Return the suspects whose stamp has changed, with the new stamps. Blocking."""
    changed = list[Suspect]()
    for path, old in suspects:
        with suppress(OSError):  # an event announces that a name went
            new = _stamp(os.lstat(os.path.join(root, path_bytes(path))))
            if new != old:
                changed.append((path, new))
    return changed


@dataclass(slots=True)
class _LinkedFile:
    """The names of a file, each with the stamp that it had when it was recorded.

    `current` counts the names that have the `newest` stamp. A scan compares the other names from the
    change `scanned_since` on; infinity if no scan does.
    """

    newest: Stamp
    name_count: int
    stamps: dict[str, Stamp] = field(default_factory=dict)
    current: int = 0
    scanned_since: float = math.inf
    reported: bool = False  # all names were returned by `remove`, without a new record since

    def record(self, link: LinkedName) -> None:
        """Record the stamp of a name."""
        if link.stamp != self.newest:
            self.newest = link.stamp
            self.current = 0
            self.scanned_since = math.inf
        if self.current == 0 or self.stamps.get(link.path) != link.stamp:
            self.current += 1
        self.stamps[link.path] = link.stamp
        self.name_count = link.names
        self.reported = False

    def remove(self, path: str) -> None:
        """Forget a name."""
        if self.stamps.pop(path) == self.newest and self.current:
            self.current -= 1

    @property
    def has_many_names(self) -> bool:
        """True if a scan has to compare the names."""
        return len(self.stamps) > MAX_NAMES

    def other_names(self, link: LinkedName) -> frozenset[str]:
        """Return the names whose stamp differs from that of a name."""
        return frozenset(
            path for path, stamp in self.stamps.items() if path != link.path and stamp != link.stamp
        )

    def needs_scan(self, since: int) -> bool:
        """Return whether a scan must compare the names since a change, and record that it will."""
        if self.current >= len(self.stamps) or self.scanned_since <= since:
            return False
        self.scanned_since = since
        return True


class HardLinks:
    """The files with several names that scans and comparisons have met, and the stamp of each name.

    `elsewhere` are the files with a name that has not been met.
    """

    def __init__(self) -> None:
        self._files: dict[Inode, _LinkedFile] = {}
        self._inodes: dict[str, Inode] = {}
        self.elsewhere = dict[Inode, None]()

    def record_scan(self, links: Iterable[LinkedName]) -> None:
        """Record the names that a scan has met; the scan compares each name itself.

        A name that belongs to another file now keeps its old record: the comparison that follows
        reports the names of the old file.
        """
        for link in links:
            if self._inodes.get(link.path, link.inode) == link.inode:
                self._record(link)

    def update(self, link: LinkedName, since: int = 0) -> frozenset[str] | None:
        """Record a name, and return the other names whose recorded stamp differs.

        None if only a scan can tell which names there are: an event announced a new name, but none
        announced the name that the file had before, or there are too many names. `since` is the
        number of the oldest change that the other names may show.
        """
        file = self._files.get(link.inode)
        new_name = link.names > (file.name_count if file else 1)
        if file is not None and file.has_many_names:
            self._record(link)
            return None if file.needs_scan(since) or new_name else frozenset()
        changed = file.other_names(link) if file else frozenset[str]()
        self._record(link)
        return None if new_name else changed

    def suspects(self, limit: int | None = None) -> list[Suspect]:
        """Return the known names of files that have further names elsewhere, with their stamps.

        `limit` bounds the number of files; None: all files.
        """
        return [
            name
            for inode in islice(self.elsewhere, limit)
            for name in islice(self._files[inode].stamps.items(), MAX_CHECKED_NAMES)
        ]

    def not_recorded(self, names: Iterable[Suspect]) -> list[str]:
        """Return the paths of names whose stamps are not recorded yet.

        The check behind `names` may have begun before a comparison that recorded the same change. A
        path that is not known any more had no other name at its last comparison: events announce it
        again.
        """
        return [path for path, stamp in names if self._stamp_of(path) not in (None, stamp)]

    def _stamp_of(self, path: str) -> Stamp | None:
        inode = self._inodes.get(path)
        return None if inode is None else self._files[inode].stamps[path]

    def remove(self, path: str, inode: Inode | None) -> frozenset[str] | None:
        """Return the other names of the file recorded at a path, if it is not there any more.

        `inode` is at the path now; None: nothing is. The old file may have been written through this
        name just before it lost the name, and no event announces that for its other names. Returns
        None if there are too many of them: a scan has to compare them.
        """
        old = self._inodes.get(path)
        if old is None or old == inode:
            return frozenset()
        del self._inodes[path]
        file = self._files[old]
        file.remove(path)
        if not file.stamps:
            del self._files[old]
            self.elsewhere.pop(old, None)
        elif not file.reported:
            file.reported = True
            return None if file.has_many_names else frozenset(file.stamps)
        return frozenset()

    def _record(self, link: LinkedName) -> None:
        file = self._files.get(link.inode)
        if file is None:
            file = self._files[link.inode] = _LinkedFile(link.stamp, link.names)
        file.record(link)
        self._inodes[link.path] = link.inode
        if len(file.stamps) < link.names:
            self.elsewhere[link.inode] = None
        else:
            self.elsewhere.pop(link.inode, None)
