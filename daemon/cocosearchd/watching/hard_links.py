"""Hard links: files with several names, of which an event names only the written one.

A write by a name outside of the root, or outside of the scope, makes no event: each question checks
the files that have such a name. That a file gets such a name makes no event either, so it is known
from the next scan on.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from cocosearchd.model import path_bytes

# files that each question checks; of more, scans and the audit notice the writes
MAX_CHECKED = 5_000


Stamp = tuple[int, int, int]  # size, mtime_ns, ctime_ns
Suspect = tuple[str, Stamp]  # a path, and its stamp


class LinkedName(NamedTuple):
    """A name of a file that has several, as `lstat` saw it."""

    path: str
    inode: tuple[int, int]  # (device, inode)
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


class HardLinks:
    """The files with several names that scans and comparisons have met, and the stamp of each name.

    `elsewhere` are files of which a name has not been met.
    """

    def __init__(self) -> None:
        self._stamps: dict[tuple[int, int], dict[str, Stamp]] = {}
        self._name_counts: dict[tuple[int, int], int] = {}
        self._inodes: dict[str, tuple[int, int]] = {}
        # inodes without a new record since all their names were returned by `remove`
        self._reported = set[tuple[int, int]]()
        self.elsewhere = dict[tuple[int, int], None]()

    def record_scan(self, links: Iterable[LinkedName]) -> None:
        """Record the names of a scan, which compares each name by itself.

        A name that belongs to another file now keeps its old record: the comparison that follows
        reports the names of the old file.
        """
        for link in links:
            if self._inodes.get(link.path, link.inode) == link.inode:
                self._record(link)

    def update(self, link: LinkedName) -> frozenset[str] | None:
        """Record a name, and return the other names whose recorded stamp differs.

        None if only a scan can tell which names there are: an event announced a new name, but none
        announced the name that the file had before.
        """
        new_name = link.names > self._name_counts.get(link.inode, 1)
        stamps = self._stamps.get(link.inode, {})
        changed = frozenset(
            path for path, stamp in stamps.items() if path != link.path and stamp != link.stamp
        )
        self._record(link)
        return None if new_name else changed

    def suspects(self) -> list[Suspect]:
        """Return the names here of files that have names elsewhere, with their stamps."""
        inodes = islice(self.elsewhere, MAX_CHECKED)
        return [name for inode in inodes for name in self._stamps.get(inode, {}).items()]

    def not_recorded(self, names: Iterable[Suspect]) -> list[str]:
        """Return the paths of names whose stamps are not recorded yet.

        The check behind `names` may have begun before a comparison that recorded the same change. A
        path that is not known any more had no other name at its last comparison: events announce it
        again.
        """
        return [path for path, stamp in names if self._stamp_of(path) not in (None, stamp)]

    def _stamp_of(self, path: str) -> Stamp | None:
        inode = self._inodes.get(path)
        return None if inode is None else self._stamps[inode][path]

    def remove(self, path: str, inode: tuple[int, int] | None) -> frozenset[str]:
        """Return the other names of the file recorded at a path, if it is not there any more.

        At the path is `inode` now, or nothing. The old file may have been written by this name just
        before it lost it, and no event announces that for the other names.
        """
        old = self._inodes.get(path)
        if old is None or old == inode:
            return frozenset()
        del self._inodes[path]
        stamps = self._stamps[old]
        del stamps[path]
        if not stamps:
            del self._stamps[old], self._name_counts[old]
            self._reported.discard(old)
            self.elsewhere.pop(old, None)
        elif old not in self._reported:
            self._reported.add(old)
            return frozenset(stamps)
        return frozenset()

    def _record(self, link: LinkedName) -> None:
        self._stamps.setdefault(link.inode, {})[link.path] = link.stamp
        self._name_counts[link.inode] = link.names
        self._inodes[link.path] = link.inode
        self._reported.discard(link.inode)
        if len(self._stamps[link.inode]) < link.names:
            self.elsewhere[link.inode] = None
        else:
            self.elsewhere.pop(link.inode, None)
