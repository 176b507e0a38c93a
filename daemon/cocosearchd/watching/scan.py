"""Compare a root, or parts of it, with what is stored. A scan decides nothing: what differs is
dirty.

Each directory is announced before it is listed, so that a watch on it is older than the list. Files
that are stored and not on disk only count as dirty where the listing succeeded: a directory that
cannot be read is not empty.
"""

import errno
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cocosearchd.model import RACY_NS, READ_YOUNG, FileRecord, decode_path, encode_path
from cocosearchd.runtime.files.nofollow import ABSENT, opened_directory, status_of
from cocosearchd.watching.availability.mountpoints import is_bare, unmounted
from cocosearchd.watching.hard_links import LinkedName, linked
from cocosearchd.watching.hints.mounts import kernel_below
from cocosearchd.watching.ignore import default_patterns
from cocosearchd.watching.ignore.scope import Scope

# As things are, nobody like us can look into such a directory, so nothing in it is missed. Other
# errors (of a disk, of a network, no file handles left) say nothing of what there is.
_CLOSED = frozenset([errno.EACCES, errno.EPERM, errno.ENAMETOOLONG])


@dataclass(frozen=True, slots=True)
class UnreadDirectory:
    """Why what is in a directory cannot be known; `closed` until its permissions change, else worth
    another try.

    What is `unmounted` is closed as well, until something is mounted or appears there.
    """

    error: str
    closed: bool
    unmounted: bool = False


@dataclass(slots=True)
class ScanResult:
    """What a scan saw. `unreadable` are directories; `links` names of files that have several."""

    dirty: list[str] = field(default_factory=list)
    files: int = 0
    unreadable: dict[bytes, UnreadDirectory] = field(default_factory=dict)
    links: list[LinkedName] = field(default_factory=list)
    newest_ns: int = 0  # of the ctimes of files
    too_long: Counter[bytes] = field(default_factory=Counter)  # directory -> entries left out


@dataclass(frozen=True, slots=True)
class _FileLook:
    """At a file that was about to be read: its ctime, since when it has had that, and when the look
    was (monotonic).
    """

    ctime_ns: int
    first_ns: int
    at_ns: int


class YoungFiles:
    """Files that were read so soon after a change that another one may look the same, where no
    event would tell of it.

    Of the clock that stamps files only its steps are assumed: that of a file server may be ahead,
    or behind. A stamp is as old as it is by our clock and compared with the newest of the root, or
    as the time since it was first seen.
    """

    def __init__(self) -> None:
        self._looks: dict[str, _FileLook] = {}
        self._newest = 0

    def scanned(self, newest_ns: int) -> None:
        """The clock that stamps files has come so far."""
        self._newest = max(self._newest, newest_ns)

    def looked(self, paths: Iterable[str], ctimes: Mapping[str, int]) -> None:
        """The paths are about to be read; those that are files have these ctimes."""
        self.scanned(max(ctimes.values(), default=0))
        young, now = min(time.time_ns(), self._newest) - RACY_NS, time.monotonic_ns()
        for path in paths:
            before, ctime = self._looks.pop(path, None), ctimes.get(path)
            if ctime is not None and ctime >= young:
                known = before is not None and before.ctime_ns == ctime
                self._looks[path] = _FileLook(
                    ctime, before.first_ns if before is not None and known else now, now
                )

    def told(self, paths: Iterable[str]) -> None:
        """The paths are about to be read, and an event will tell of the next change."""
        for path in paths:
            self._looks.pop(path, None)

    def is_certain(self, path: str, ctime_ns: int, racy_after: int) -> bool:
        """Whether a file that is as it was when it was read has not changed since. From any
        thread.
        """
        look = self._looks.get(path)
        if look is None:
            return ctime_ns < racy_after
        return look.ctime_ns == ctime_ns and look.at_ns - look.first_ns >= RACY_NS


class Scan:
    """One comparison of trees of a root with `stored`, which holds at least the records at and
    below them.
    """

    def __init__(
        self,
        scope: Scope,
        stored: Mapping[str, FileRecord],
        watch: Callable[[bytes], None],
        *,
        force: bool = False,
        young: YoungFiles | None = None,
    ) -> None:
        """With `force` every file counts as different."""
        self._young = young or YoungFiles()
        self._scope, self._watch, self._force = scope, watch, force
        self._kernel = frozenset(kernel_below(scope.root))
        self._missing = dict(stored)  # what has not been seen yet
        self._stored, self._bare = stored, list[str]()
        self._found = ScanResult()
        self._racy_after = time.time_ns() - RACY_NS

    def run(self, trees: Iterable[bytes]) -> ScanResult:
        """Look at each tree; blocking. Trees are relative to the root and may be files, or nothing
        any more.
        """
        for tree in trees:
            self._look(tree)
        found = self._found
        if self._bare and self._missing:
            for directory in unmounted(self._scope.root, self._bare, self._missing, self._stored):
                found.unreadable[decode_path(directory)] = UnreadDirectory(
                    "not mounted", closed=True, unmounted=True
                )
        unknown = tuple(os.path.join(encode_path(directory), "") for directory in found.unreadable)
        found.dirty += [path for path in self._missing if not path.startswith(unknown)]
        return found

    def _look(self, tree: bytes) -> None:
        try:
            status = status_of(os.path.join(self._scope.root, tree))
            if not tree or stat.S_ISDIR(status.st_mode):
                inside = self._enters(tree)
            else:
                inside = stat.S_ISREG(status.st_mode) and self._scope.allows(tree)
        except OSError as error:
            if error.errno in ABSENT:
                return
            self._not_read(tree, error)
            return
        if inside and (not tree or stat.S_ISDIR(status.st_mode)):
            self._walk(tree)
        elif inside:
            self._compare(encode_path(tree), status)
        else:
            self._count_too_long(tree)

    def _walk(self, top: bytes) -> None:
        stack = [top]
        while stack:
            directory = stack.pop()
            self._watch(directory)
            self._scope.entered(directory)
            try:
                stack += [folder for folder in self._list(directory) if self._enters(folder)]
            except OSError as error:
                if error.errno in ABSENT:
                    continue  # its parent's watch tells
                self._not_read(directory, error)

    def _enters(self, directory: bytes) -> bool:
        if directory in self._kernel:
            self._found.unreadable[directory] = UnreadDirectory(
                "the kernel shows itself there", closed=True
            )
            return False
        if not self._scope.prunes(directory):
            return True
        self._count_too_long(directory + b"/")
        return False

    def _count_too_long(self, entry: bytes) -> None:
        """Count an entry that is left out, if its length is the reason. A directory ends in `/`."""
        if default_patterns.too_long(entry):
            self._found.too_long[entry.rstrip(b"/").rpartition(b"/")[0]] += 1

    def _not_read(self, directory: bytes, error: OSError) -> None:
        closed = error.errno in _CLOSED and directory != b""
        self._found.unreadable[directory] = UnreadDirectory(error.strerror or str(error), closed)

    def _list(self, directory: bytes) -> list[bytes]:
        """Compares the files of a directory; the directories in it. Raises `OSError` if they cannot
        be known.
        """
        with opened_directory(os.path.join(self._scope.root, directory)) as handle:
            with os.scandir(handle) as listing:
                entries = list(listing)
            if directory and is_bare(entries):  # of the root itself, `presence` judges
                self._bare.append(encode_path(directory))
            self._files(
                directory,
                {os.fsencode(e.name): e for e in entries if e.is_file(follow_symlinks=False)},
            )
            lead = directory + b"/" if directory else b""
            return [
                lead + os.fsencode(entry.name)
                for entry in entries
                if entry.is_dir(follow_symlinks=False)
            ]

    def _files(self, directory: bytes, entries: Mapping[bytes, os.DirEntry[str]]) -> None:
        lead = encode_path(directory + b"/") if directory else ""
        if default_patterns.too_long(directory + b"/" + b"x" * default_patterns.LONGEST_NAME):
            for name in filter(self._scope.considers, entries):
                self._count_too_long(directory + b"/" + name)
        for name in self._scope.filter_files(directory, entries):
            path = lead + encode_path(name)
            try:
                status = entries[name].stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except PermissionError:
                raise  # the directory can be listed but not entered
            except OSError:
                # there, but not to be looked at: whoever reads it says why
                self._found.dirty.append(path)
                self._missing.pop(path, None)
                continue
            self._compare(path, status)

    def _compare(self, path: str, status: os.stat_result) -> None:
        found, s = self._found, status
        found.files += 1
        found.newest_ns = max(found.newest_ns, s.st_ctime_ns)
        if s.st_nlink > 1 and (link := linked(path, s)):
            found.links.append(link)
        record = self._missing.pop(path, None)
        # Whether a file can be read also depends on who asks: a file that could not be is tried at
        # every scan.
        if self._force or record is None or record.skip_reason == "unreadable":
            found.dirty.append(path)
            return
        seen = (s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_mode)
        same = record.fingerprint == seen
        # Also one that was read before the daemon was started, of which nothing else is known.
        read_young = not same and record.fingerprint == (*seen[:-1], s.st_mode | READ_YOUNG)
        racy_after = 0 if read_young else self._racy_after
        if not (same or read_young) or not self._young.is_certain(path, s.st_ctime_ns, racy_after):
            found.dirty.append(path)


@dataclass(slots=True)
class ComparedPaths:
    """Paths by what is there: files in scope, files out of scope, nothing to be indexed, or not to
    be told.
    """

    present: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    links: list[LinkedName] = field(default_factory=list)
    ctimes: dict[str, int] = field(default_factory=dict)  # of files, in nanoseconds


def look(scope: Scope, paths: Mapping[str, bytes]) -> ComparedPaths:
    """What is at each path (text form -> bytes) now."""
    found = ComparedPaths()
    for path, raw in paths.items():
        try:
            status = status_of(os.path.join(scope.root, raw))
            is_file = stat.S_ISREG(status.st_mode)
            if is_file:
                found.ctimes[path] = status.st_ctime_ns
                if link := linked(path, status):
                    found.links.append(link)
        except PermissionError:
            found.closed.append(path)
            continue
        except OSError as error:
            # Unreadable is not gone: whoever reads it says what is wrong.
            is_file = error.errno not in ABSENT
        if not is_file:
            found.gone.append(path)
            continue
        try:
            (found.present if scope.allows(raw) else found.outside).append(path)
        except OSError:
            found.closed.append(path)  # its rules cannot be read now
    return found
