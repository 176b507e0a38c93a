"""Hard links: a file with several names. An event names the one it was written by; the others
changed too.

What is written by a name outside of the root, or of what is indexed of it, makes no event: files
that have such a name are looked at by each question. That a file gets one makes no event either, so
it is known from its next scan on.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from cocosearchd.model import decode_path

# files that are looked at by each question; of more, scans and the audit find what was written
FOLLOWED = 5_000


Stamp = tuple[int, int, int]  # size, mtime_ns, ctime_ns
Suspect = tuple[str, Stamp]  # a path, and what was seen there


class LinkedName(NamedTuple):
    """A name of a file that has several, as `lstat` saw it."""

    path: str
    inode: tuple[int, int]  # (device, inode)
    stamp: Stamp
    names: int


def linked(path: str, status: os.stat_result) -> LinkedName | None:
    """None for a file with one name."""
    if status.st_nlink < 2:
        return None
    return LinkedName(path, (status.st_dev, status.st_ino), _stamp(status), status.st_nlink)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def written(root: bytes, suspects: Iterable[Suspect]) -> list[Suspect]:
    """Those that are not as they were seen, as they are. Blocking."""
    found = list[Suspect]()
    for path, before in suspects:
        with suppress(OSError):  # that a name went is told by an event
            now = _stamp(os.lstat(os.path.join(root, decode_path(path))))
            if now != before:
                found.append((path, now))
    return found


class HardLinks:
    """The files with several names that scans and looks have seen, each name with the stamp it was
    seen with.

    `elsewhere` are files of which a name has not been seen.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], dict[str, Stamp]] = {}
        self._names: dict[tuple[int, int], int] = {}
        self._inode_of: dict[str, tuple[int, int]] = {}
        self._told = set[tuple[int, int]]()  # of which nothing was seen since all names were told
        self.elsewhere = dict[tuple[int, int], None]()

    def scanned(self, found: Iterable[LinkedName]) -> None:
        """By a scan, which compares each name by itself.

        A name of another file than before was seen to leave that one by nobody yet: the look that
        follows is to tell.
        """
        for one in found:
            if self._inode_of.get(one.path, one.inode) == one.inode:
                self._note(one)

    def changed(self, one: LinkedName) -> frozenset[str] | None:
        """The other names that were last seen with another stamp; None: only a scan can find out
        which there are.

        A new name is known by an event, the one that the file had before is not: it made none.
        """
        unknown = one.names > self._names.get(one.inode, 1)
        others = self._seen.get(one.inode, {})
        found = frozenset(
            path for path, stamp in others.items() if path != one.path and stamp != one.stamp
        )
        self._note(one)
        return None if unknown else found

    def suspects(self) -> list[Suspect]:
        """The names here of files that have others elsewhere, with the stamps they were seen
        with.
        """
        some = islice(self.elsewhere, FOLLOWED)
        return [name for inode in some for name in self._seen.get(inode, {}).items()]

    def unseen(self, found: Iterable[Suspect]) -> list[str]:
        """The paths among what a look has found that nobody has seen as it is there.

        The look may have begun before another one by which the same change was taken in. A path
        that is not known any more was seen without another name since: events tell of it again.
        """
        return [path for path, stamp in found if self._stamp_of(path) not in (None, stamp)]

    def _stamp_of(self, path: str) -> Stamp | None:
        inode = self._inode_of.get(path)
        return None if inode is None else self._seen[inode][path]

    def left(self, path: str, inode: tuple[int, int] | None) -> frozenset[str]:
        """The other names of the file that was seen at a path, if that is there no more, but
        `inode` or nothing.

        It may have been written by this name just before it lost it, and no event tells that of the
        others.
        """
        before = self._inode_of.get(path)
        if before is None or before == inode:
            return frozenset()
        del self._inode_of[path]
        others = self._seen[before]
        del others[path]
        if not others:
            del self._seen[before], self._names[before]
            self._told.discard(before)
            self.elsewhere.pop(before, None)
        elif before not in self._told:
            self._told.add(before)
            return frozenset(others)
        return frozenset()

    def _note(self, one: LinkedName) -> None:
        self._seen.setdefault(one.inode, {})[one.path] = one.stamp
        self._names[one.inode] = one.names
        self._inode_of[one.path] = one.inode
        self._told.discard(one.inode)
        if len(self._seen[one.inode]) < one.names:
            self.elsewhere[one.inode] = None
        else:
            self.elsewhere.pop(one.inode, None)
