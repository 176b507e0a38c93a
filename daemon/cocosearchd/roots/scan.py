"""Compare a root, or parts of it, with what is stored. A scan decides nothing: what differs is dirty.

Each directory is announced before it is listed, so that a watch on it is older than the list. Files that are stored
and not on disk only count as dirty where the listing succeeded: a directory that cannot be read is not empty.
"""

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cocosearchd.model import FileRecord, Fingerprint, encode_path
from cocosearchd.roots.ignore import Scope

# "Racy git": within this time two writes can leave the same timestamps, so equal fingerprints prove nothing yet.
RACY_NS = 2_000_000_000
Identity = tuple[int, int]


@dataclass(slots=True)
class Found:
    """What a scan saw. `unreadable` are directories, and whether files below them are stored."""

    dirty: list[str] = field(default_factory=list)
    files: int = 0
    unreadable: dict[bytes, bool] = field(default_factory=dict)


def identity(root: bytes) -> Identity | None:
    """Which directory the root is, (device, inode); None if there is none."""
    try:
        found = os.stat(root)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


class Folders:
    """Which directories of a root are no symbolic links, all the way down: links lead elsewhere, or in circles."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._real = {b"": True}

    def real(self, directory: bytes) -> bool:
        """Whether this is a directory, and no part of its path is a link. Raises `OSError` if that cannot be seen."""
        known = self._real.get(directory)
        if known is None:
            known = self.real(directory.rpartition(b"/")[0]) and self._is_directory(directory)
            self._real[directory] = known
        return known

    def _is_directory(self, directory: bytes) -> bool:
        try:
            return stat.S_ISDIR(os.lstat(os.path.join(self._root, directory)).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False


class Scan:
    """One comparison of trees of a root with `stored`, which holds at least the records at and below them."""

    def __init__(
        self, scope: Scope, stored: Mapping[str, FileRecord], watch: Callable[[bytes], None], *, force: bool = False
    ) -> None:
        """With `force` every file counts as different."""
        self._scope, self._watch, self._force = scope, watch, force
        self._missing = dict(stored)  # what has not been seen yet
        self._found, self._folders = Found(), Folders(scope.root)
        self._racy_after = time.time_ns() - RACY_NS

    def run(self, trees: Iterable[bytes]) -> Found:
        """Look at each tree; blocking. Trees are relative to the root and may be files, or nothing any more."""
        for tree in trees:
            self._look(tree)
        found = self._found
        closed = {os.path.join(encode_path(directory), ""): directory for directory in found.unreadable}
        for path in self._missing:
            above = next((lead for lead in closed if path.startswith(lead)), None)
            if above is None:
                found.dirty.append(path)
            else:
                found.unreadable[closed[above]] = True
        return found

    def _look(self, tree: bytes) -> None:
        try:
            if not self._folders.real(tree.rpartition(b"/")[0]):
                return
            status = os.lstat(os.path.join(self._scope.root, tree))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError:
            self._found.unreadable[tree] = False
            return
        if not tree or stat.S_ISDIR(status.st_mode):
            if not self._scope.prunes(tree):
                self._walk(tree)
        elif stat.S_ISREG(status.st_mode) and self._scope.allows(tree):
            self._compare(encode_path(tree), status)

    def _walk(self, top: bytes) -> None:
        stack = [top]
        while stack:
            directory = stack.pop()
            self._watch(directory)
            self._scope.entered(directory)
            try:
                with os.scandir(os.path.join(self._scope.root, directory)) as listing:
                    entries = list(listing)
            except (FileNotFoundError, NotADirectoryError):
                continue  # its parent's watch tells
            except OSError:
                self._found.unreadable[directory] = False
                continue
            lead = directory + b"/" if directory else b""
            folders = [lead + entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            stack.extend(folder for folder in folders if not self._scope.prunes(folder))
            self._files(directory, {e.name: e for e in entries if e.is_file(follow_symlinks=False)})

    def _files(self, directory: bytes, entries: Mapping[bytes, os.DirEntry[bytes]]) -> None:
        lead = encode_path(directory + b"/") if directory else ""
        for name in self._scope.filter_files(directory, entries):
            path = lead + encode_path(name)
            try:
                status = entries[name].stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError:
                self._found.dirty.append(path)  # there, but not to be looked at: whoever reads it says why
                self._missing.pop(path, None)
                continue
            self._compare(path, status)

    def _compare(self, path: str, status: os.stat_result) -> None:
        self._found.files += 1
        record = self._missing.pop(path, None)
        # Whether a file can be read also depends on who asks: a file that could not be is tried at every scan.
        closed = record is not None and record.skip_reason == "unreadable"
        if self._force or record is None or closed or not self._same(record.fingerprint, status):
            self._found.dirty.append(path)

    def _same(self, known: Fingerprint | None, status: os.stat_result) -> bool:
        return (
            known is not None
            and known.size == status.st_size
            and known.mtime_ns == status.st_mtime_ns
            and known.ctime_ns == status.st_ctime_ns
            and known.inode == status.st_ino
            and known.device == status.st_dev
            and known.mode == status.st_mode
            and status.st_ctime_ns < self._racy_after
        )


def look(scope: Scope, paths: Mapping[str, bytes]) -> tuple[list[str], list[str], list[str]]:
    """What is at each path (text form -> bytes) now: files in scope, files out of scope, and nothing to be indexed."""
    present, outside, gone = list[str](), list[str](), list[str]()
    folders = Folders(scope.root)
    for path, raw in paths.items():
        try:
            is_file = folders.real(raw.rpartition(b"/")[0]) and stat.S_ISREG(
                os.lstat(os.path.join(scope.root, raw)).st_mode
            )
        except (FileNotFoundError, NotADirectoryError):
            is_file = False
        except OSError:
            is_file = True  # unreadable is not gone: whoever reads it says what is wrong
        if is_file:
            (present if scope.allows(raw) else outside).append(path)
        else:
            gone.append(path)
    return present, outside, gone
