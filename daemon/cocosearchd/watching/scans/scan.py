"""Scans: comparisons of a root with the stored files. The differences become dirty.

A scan decides nothing else. Each directory is watched before it is listed: no change falls between
the listing and the watch. A stored file that is not on the disk counts as dirty only if its
directory could be listed: a directory that cannot be read is not empty.
"""

import errno
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from cocosearchd.forms.path_forms import path_bytes, path_text
from cocosearchd.forms.tree_filter import TreeFilter
from cocosearchd.freshness import StaleReason, stale_reason
from cocosearchd.model import RACY_NS, READ_YOUNG, FileRecord, Fingerprint
from cocosearchd.runtime.files.nofollow import ABSENT, opened_directory, status_of
from cocosearchd.watching.availability.unmounted_directories import is_bare, unmounted
from cocosearchd.watching.dirty_records import (
    DirtyTree,
    FileStamp,
    file_stamp,
)
from cocosearchd.watching.hints.mounts import kernel_below
from cocosearchd.watching.ignore import default_patterns
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.scans.exact_names import ExactNames
from cocosearchd.watching.scans.hard_links import LinkedName, linked_name

# This user cannot read such a directory, so no readable file is missed. Other errors (of a disk, of
# a network, no file handles left) show nothing about its content.
_CLOSED = frozenset([errno.EACCES, errno.EPERM, errno.ENAMETOOLONG])
MAX_LABEL = 80  # characters of a long path in a sentence
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class UnreadDirectory:
    """The error of a directory that could not be read.

    A `closed` directory stays unreadable until its permissions change; for other directories
    another try may help. An `unmounted` directory is closed as well, until a file system is mounted
    or an entry appears there.
    """

    error: str
    closed: bool
    unmounted: bool = False


@dataclass(slots=True)
class ScanResult:
    """The differences and counts of a scan. `links` are the names of files with several names."""

    dirty: list[str] = field(default_factory=list)
    files: int = 0
    unreadable: dict[bytes, UnreadDirectory] = field(default_factory=dict)
    links: list[LinkedName] = field(default_factory=list)
    newest_ns: int = 0  # the newest ctime of a file
    too_long: Counter[bytes] = field(default_factory=Counter)  # directory -> entries left out


@dataclass(frozen=True, slots=True)
class _RacyRead:
    """The ctime of a file that was about to be read.

    It was first seen at `first_ns` and last at `last_ns`, both of the monotonic clock.
    """

    ctime_ns: int
    first_ns: int
    last_ns: int


class RacyFiles:
    """Files that were read just after a change: the next change may leave the same stamps.

    They are only files whose next change no event would announce. The clock that stamps files
    advances in steps, and nothing else is assumed: the clock of a file server may be ahead, or
    behind. The age of a stamp is therefore its distance from our clock or from the newest stamp of
    the root, or the time since it was first seen.
    """

    def __init__(self) -> None:
        self._reads: dict[str, _RacyRead] = {}
        self._newest_ns = 0

    def record_clock(self, newest_ns: int) -> None:
        """Record the newest stamp of a file: it shows the time of the clock that stamps files."""
        self._newest_ns = max(self._newest_ns, newest_ns)

    def record(self, paths: Iterable[str], ctimes: Mapping[str, int]) -> None:
        """Record that paths are about to be read. `ctimes` has the files among them."""
        self.record_clock(max(ctimes.values(), default=0))
        racy_from = min(time.time_ns(), self._newest_ns) - RACY_NS
        monotonic_ns = time.monotonic_ns()
        for path in paths:
            last = self._reads.pop(path, None)
            ctime = ctimes.get(path)
            if ctime is not None and ctime >= racy_from:
                same = last is not None and last.ctime_ns == ctime
                first_ns = last.first_ns if last is not None and same else monotonic_ns
                self._reads[path] = _RacyRead(ctime, first_ns, monotonic_ns)

    def forget(self, paths: Iterable[str]) -> None:
        """Forget paths that are about to be read: an event will announce their next change."""
        for path in paths:
            self._reads.pop(path, None)

    def is_certain(self, path: str, ctime_ns: int, racy_after: int) -> bool:
        """Return whether a file with unchanged stamps has not changed since it was read.

        May be called from any thread.
        """
        read = self._reads.get(path)
        if read is None:
            return ctime_ns < racy_after
        return read.ctime_ns == ctime_ns and read.last_ns - read.first_ns >= RACY_NS


class Scan:
    """One comparison of trees of a root with `stored`, the records at and below them or more."""

    def __init__(
        self,
        scope: RootScope,
        stored: Mapping[str, FileRecord],
        watch: Callable[[bytes], None],
        *,
        force: bool = False,
        racy_files: RacyFiles | None = None,
    ) -> None:
        """With `force` every file counts as different."""
        self._racy_files = racy_files or RacyFiles()
        self._scope = scope
        self._watch = watch
        self._force = force
        self._kernel = frozenset(kernel_below(scope.root))
        self._stored = stored
        self._missing = dict(stored)  # not met on the disk yet
        self._bare = list[str]()
        self._result = ScanResult()
        self._racy_after = time.time_ns() - RACY_NS

    def run(self, trees: Iterable[bytes]) -> ScanResult:
        """Compare each tree. Blocking.

        Trees are relative to the root and may be files, or may not exist any more.
        """
        for tree in trees:
            self._scan_tree(tree)
        result = self._result
        if self._bare and self._missing:
            for directory in unmounted(self._scope.root, self._bare, self._missing, self._stored):
                result.unreadable[path_bytes(directory)] = UnreadDirectory(
                    "not mounted", closed=True, unmounted=True
                )
        unread = tuple(os.path.join(path_text(path), "") for path in result.unreadable)
        result.dirty += [path for path in self._missing if not path.startswith(unread)]
        return result

    def _scan_tree(self, tree: bytes) -> None:
        try:
            status = self._listed_status(tree)
            if not tree or stat.S_ISDIR(status.st_mode):
                in_scope = self._can_enter(tree)
            else:
                in_scope = stat.S_ISREG(status.st_mode) and self._scope.is_in_scope(tree)
        except OSError as error:
            if error.errno in ABSENT:
                return
            self._record_unread(tree, error)
            return
        if in_scope and (not tree or stat.S_ISDIR(status.st_mode)):
            self._walk(tree)
        elif in_scope:
            self._compare(path_text(tree), status)
        else:
            self._count_too_long(tree)

    def _listed_status(self, tree: bytes) -> os.stat_result:
        """Return the status of a tree. Raises `FileNotFoundError` if no directory lists its name."""
        status = status_of(os.path.join(self._scope.root, tree))
        if tree and ExactNames(self._scope.root).find(tree, status) != tree:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), tree)
        return status

    def _walk(self, top: bytes) -> None:
        stack = [top]
        while stack:
            directory = stack.pop()
            self._watch(directory)
            self._scope.reread_on_entry(directory)
            try:
                stack += [folder for folder in self._list(directory) if self._can_enter(folder)]
            except OSError as error:
                if error.errno in ABSENT:
                    continue  # the watch of the parent reports the deletion
                self._record_unread(directory, error)

    def _can_enter(self, directory: bytes) -> bool:
        if directory in self._kernel:
            self._result.unreadable[directory] = UnreadDirectory(
                "the kernel shows itself there", closed=True
            )
            return False
        if not self._scope.is_pruned(directory):
            return True
        self._count_too_long(directory + b"/")
        return False

    def _count_too_long(self, entry: bytes) -> None:
        """Count an entry that is left out for its length. A directory ends in `/`."""
        if default_patterns.too_long(entry):
            self._result.too_long[entry.rstrip(b"/").rpartition(b"/")[0]] += 1

    def _record_unread(self, directory: bytes, error: OSError) -> None:
        closed = error.errno in _CLOSED and directory != b""
        self._result.unreadable[directory] = UnreadDirectory(error.strerror or str(error), closed)

    def _list(self, directory: bytes) -> list[bytes]:
        """Compare the files of a directory, and return the directories in it.

        Raises `OSError` if they cannot be read.
        """
        with opened_directory(os.path.join(self._scope.root, directory)) as handle:
            with os.scandir(handle) as listing:
                entries = list(listing)
            if directory and is_bare(entries):  # the root itself is up to `RootAvailability`
                self._bare.append(path_text(directory))
            self._compare_files(
                directory,
                {os.fsencode(e.name): e for e in entries if e.is_file(follow_symlinks=False)},
            )
            prefix = directory + b"/" if directory else b""
            return [
                prefix + os.fsencode(entry.name)
                for entry in entries
                if entry.is_dir(follow_symlinks=False)
            ]

    def _compare_files(self, directory: bytes, entries: Mapping[bytes, os.DirEntry[str]]) -> None:
        prefix = path_text(directory + b"/") if directory else ""
        if default_patterns.too_long(directory + b"/" + b"x" * default_patterns.LONGEST_NAME):
            for name in filter(self._scope.may_be_in_scope, entries):
                self._count_too_long(directory + b"/" + name)
        for name in self._scope.filter_files(directory, entries):
            path = prefix + path_text(name)
            try:
                status = entries[name].stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except PermissionError:
                raise  # the directory can be listed but not entered
            except OSError:
                # the file exists, but has no status: its reader reports why
                self._result.dirty.append(path)
                self._missing.pop(path, None)
                continue
            self._compare(path, status)

    def _compare(self, path: str, status: os.stat_result) -> None:
        result = self._result
        result.files += 1
        result.newest_ns = max(result.newest_ns, status.st_ctime_ns)
        if status.st_nlink > 1 and (link := linked_name(path, status)):
            result.links.append(link)
        if self._may_differ(path, status, self._missing.pop(path, None)):
            result.dirty.append(path)

    def _may_differ(self, path: str, status: os.stat_result, record: FileRecord | None) -> bool:
        """Return whether a file has to be read, because its record may not be of its content."""
        # The user of the daemon may have changed, so an unreadable file is tried at every scan.
        if self._force or record is None or record.skip_reason == "unreadable":
            return True
        current = Fingerprint.from_status(status)
        same = record.fingerprint == current
        # The mark of a racy read is stored, so it also shows reads before the daemon started.
        racy = not same and record.fingerprint == current._replace(mode=current.mode | READ_YOUNG)
        racy_after = 0 if racy else self._racy_after
        certain = self._racy_files.is_certain
        return not (same or racy) or not certain(path, status.st_ctime_ns, racy_after)


@dataclass(slots=True)
class ComparedPaths:
    """Paths by their state on the disk."""

    present: list[str] = field(default_factory=list)  # files in scope
    outside: list[str] = field(default_factory=list)  # files out of scope
    gone: list[str] = field(default_factory=list)  # no regular file
    closed: list[str] = field(default_factory=list)  # state unknown: path or rules unreadable
    links: list[LinkedName] = field(default_factory=list)
    ctimes: dict[str, int] = field(default_factory=dict)  # of files, in nanoseconds
    stamps: dict[str, FileStamp] = field(default_factory=dict)  # of all paths
    respelled: dict[str, str] = field(default_factory=dict)  # path of `gone` -> the listed path

    def links_in_scope(self) -> dict[str, LinkedName]:
        """Return the names of files with several names by path, without those out of scope.

        A write through a name out of scope may make no event, so such a name counts as not met.
        """
        outside = frozenset(self.outside)
        return {link.path: link for link in self.links if link.path not in outside}


def compare_paths(scope: RootScope, paths: Mapping[str, bytes]) -> ComparedPaths:
    """Return the state of each path (text form -> bytes) on the disk. Blocking.

    A file is gone from a path if its directory lists it by another name, such as one in upper case.
    """
    compared = ComparedPaths()
    names = ExactNames(scope.root)
    for path, raw in paths.items():
        try:
            is_file = _record_status(path, raw, names, compared)
        except PermissionError:
            compared.closed.append(path)
            continue
        except OSError as error:
            # An unreadable file is not gone: its reader reports the error.
            compared.stamps[path] = error.errno
            is_file = error.errno not in ABSENT
        if not is_file:
            compared.gone.append(path)
            continue
        try:
            (compared.present if scope.is_in_scope(raw) else compared.outside).append(path)
        except OSError:
            compared.closed.append(path)  # its rules cannot be read now
    return compared


def _record_status(path: str, raw: bytes, names: ExactNames, compared: ComparedPaths) -> bool:
    """Return whether a path is that of a regular file. Raises `OSError`."""
    status = status_of(os.path.join(names.root, raw))
    compared.stamps[path] = file_stamp(status)
    if not stat.S_ISREG(status.st_mode):
        return False
    listed_path = names.find(raw, status)
    if listed_path != raw:
        if listed_path is not None:
            compared.respelled[path] = path_text(listed_path)
        return False
    compared.ctimes[path] = status.st_ctime_ns
    if link := linked_name(path, status):
        compared.links.append(link)
    return True


class UnreadDirectories:
    """Unread directories by path. The stored files in them stay as they are."""

    def __init__(self) -> None:
        self._unread: dict[str, UnreadDirectory] = {}
        self._filter = TreeFilter((), "/")
        # directory -> entries that are left out for their length
        self._too_long: dict[str, int] = {}
        # Directories that this user may not read, with a `/`.
        self.closed: tuple[str, ...] = ()
        # Directories on which a file system was mounted, and is not any more.
        self.unmounted: tuple[str, ...] = ()
        # Directories whose last reading failed for another reason -> the error. Their contents may
        # have changed.
        self.failed: Mapping[str, str] = {}

    def contains(self, path: str) -> bool:
        """Return whether a path is an unread directory or in one."""
        return self._filter.covers(path)

    def record_scan(self, trees: Sequence[DirtyTree], result: ScanResult) -> None:
        """Replace the entries of the scanned trees by those of the scan."""
        self._unread = _select_outside(self._unread, trees) | {
            path_text(path): unread for path, unread in result.unreadable.items()
        }
        self._too_long = _select_outside(self._too_long, trees) | {
            path_text(path): count for path, count in result.too_long.items()
        }
        self._summarize()

    def _summarize(self) -> None:
        """Compute the attributes and the filter, which are read for each hint and path."""
        unread = self._unread.items()
        self._filter = TreeFilter(self._unread, "/")
        self.closed = tuple(path + "/" for path, directory in unread if directory.closed)
        self.unmounted = tuple(path for path, directory in unread if directory.unmounted)
        self.failed = {path: directory.error for path, directory in unread if not directory.closed}

    def failed_reason(self) -> StaleReason | None:
        """Describe the directories whose reading failed, if there are any."""
        errors = self.failed
        if not errors:
            return None
        path, error = next(iter(errors.items()))
        return stale_reason("directories_unread", count=len(errors), path=path, error=error)

    def closed_reason(self) -> str | None:
        """Describe the unmounted file systems, else the closed directories, if there are any."""
        unmounted = self.unmounted
        if unmounted:
            return (
                f"file systems are not mounted: {len(unmounted)}, the first at {unmounted[0]}/; "
                "what was indexed there is kept"
            )
        closed = self.closed
        if closed:
            return f"directories may not be read: {len(closed)}, the first is {closed[0]}"
        return None

    def length_reason(self) -> str | None:
        """Describe the entries that are left out because their paths are too long."""
        if not self._too_long:
            return None
        path = next(iter(self._too_long))
        count = sum(self._too_long.values())
        label = path if len(path) <= MAX_LABEL else path[:MAX_LABEL] + "…"
        return (
            f"left out for the length of their paths: {count}, the first in {label}/: "
            f"{default_patterns.LENGTH_RULE}"
        )


def _select_outside(
    by_directory: Mapping[str, Item], trees: Sequence[DirtyTree]
) -> dict[str, Item]:
    """Return the items of directories that are in none of the trees."""
    scanned = TreeFilter((tree.path for tree in trees), "/")
    return {path: item for path, item in by_directory.items() if not scanned.covers(path)}
