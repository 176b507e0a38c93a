"""The backend for Linux: watches each listed directory and notices overflows.

It never reads a directory. The scanner calls `watch` before it lists a directory, so nothing is
created unseen between the two. A new directory is only named; the scan that follows watches it. No
events are requested for opening and reading files: the indexer's own reads must not fill the queue.
"""

import errno
import fcntl
import os
import select
import sys
import termios
import threading
import time
from array import array
from collections.abc import Collection
from pathlib import Path

from cocosearchd.runtime.files.nofollow import (
    ABSENT,
    LOOKUP,
    directory_identity,
    open_absolute,
    without_links,
)
from cocosearchd.watching.hints.base import (
    Cookie,
    DirtyHint,
    DirtyTreeHint,
    Hint,
    HintsLost,
    HintsUnavailable,
    SavePart,
    Sink,
)
from cocosearchd.watching.hints.mounts import MountWatch

if sys.platform == "linux":
    from inotify_simple import Event, INotify, flags

    _DIRECTORY = flags.ONLYDIR | flags.DONT_FOLLOW | flags.EXCL_UNLINK
    _MASK = (
        flags.CREATE
        | flags.DELETE
        | flags.MODIFY
        | flags.ATTRIB
        | flags.CLOSE_WRITE
        | flags.MOVED_FROM
        | flags.MOVED_TO
        | flags.DELETE_SELF
        | flags.MOVE_SELF
        | _DIRECTORY
    )
    _SYNC_MASK = flags.CREATE | flags.DELETE_SELF | flags.MOVE_SELF | _DIRECTORY
    _ROOT_MASK = _MASK & ~flags.DONT_FOLLOW  # opened without links, and watched by its descriptor
    _ABOVE_MASK = flags.MOVE_SELF | flags.ONLYDIR
    _PARENT_MASK = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO | _ABOVE_MASK

_LIMITS = Path("/proc/sys/fs/inotify")
# Other programs of this user need watches too, and the kernel counts per user.
SHARE_OF_WATCHES = 0.75
# A file that git replaces makes four events, in two or three reads if they are read at once. While
# a program rewrites a tree, reading pauses for a moment instead. The kernel holds thousands of
# events meanwhile, and a cookie is delayed by at most the pause.
BURST_READS = 16
BURST_S = 0.02
GATHER_S = 0.005


class Burst:
    """Detects a program that rewrites a tree: only its events are worth gathering."""

    def __init__(self) -> None:
        self._read_at = 0.0
        self._reads = 0

    def pause(self, now: float, hints: Collection[Hint]) -> float:
        """Return the pause in seconds after a read with these hints, in which events gather.

        `now` is of a monotonic clock. Each of several questions in a row makes a cookie and waits
        for it: cookies alone do not show that a tree is being rewritten.
        """
        if hints and all(isinstance(hint, Cookie) for hint in hints):
            return 0.0
        self._reads = self._reads + 1 if now - self._read_at < BURST_S else 0
        self._read_at = now
        return GATHER_S if self._reads >= BURST_READS else 0.0


class InotifyHints:
    """The `Hints` of inotify. `sync_dir` must exist and lie outside of the root."""

    name = "inotify"
    exact = True

    def __init__(
        self,
        root: bytes,
        sync_dir: bytes,
        budget: int | None = None,
        unseen: tuple[bytes, ...] = (),
    ) -> None:
        """Watch nothing yet.

        `budget` bounds the number of watches; by default a share of the kernel's limit. `unseen`
        are directories whose file system makes no events.
        """
        self._unseen = unseen
        self._root = root
        self._sync_dir = sync_dir
        self._budget = _default_budget() if budget is None else budget
        self._lock = threading.Lock()  # guards the maps, and the calls that change the watches
        self._path_of: dict[int, bytes] = {}
        # of directories that a bind mount shows at several places: the kernel counts them as one
        self._other_paths: dict[int, set[bytes]] = {}
        self._descriptor_of: dict[bytes, int] = {}
        self._children: dict[bytes, set[bytes]] = {}
        self._unwatched: set[bytes] = set()
        self.trouble: str | None = None
        # watch descriptors
        self._sync = -1
        self._parent = -1
        self._ancestors = set[int]()  # the parent and all above it
        self._mounts: MountWatch | None = None
        self._closed = False
        self._sent = 0  # calls of the sink

    def start(self, sink: Sink) -> None:
        """Start the thread. Raises `HintsUnavailable` if no inotify instances are left."""
        try:
            self._inotify = INotify(nonblocking=True)
        except OSError as error:
            raise HintsUnavailable(_instance_error(error)) from error
        try:
            self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            self._inotify.close()
            raise HintsUnavailable(_instance_error(error)) from error
        try:
            self._mounts = MountWatch(self._root)
            self._sync = self._inotify.add_watch(self._sync_dir, _SYNC_MASK)
            steady = self._is_root_steady()
        except OSError as error:
            self._release()
            raise HintsUnavailable(_watch_error(error)) from error
        if not steady:
            self._sent += 1
            sink((HintsLost("the root was replaced"),))
        self._thread = threading.Thread(
            target=self._drain, args=(sink,), name="inotify", daemon=True
        )
        self._thread.start()

    def watch(self, directory: bytes) -> None:
        """Add a watch, or note the new name of a watched directory."""
        with self._lock:
            if self._closed or self._is_unseen(directory):
                return
            if directory not in self._descriptor_of and len(self._descriptor_of) >= self._budget:
                self._add_unwatched(directory, f"more than {self._budget} directories")
                return
            path = os.path.join(self._root, directory)
            try:
                descriptor = self._inotify.add_watch(path, _MASK)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.ENOMEM):
                    self._add_unwatched(directory, _watch_error(error))
                # Gone again or unreadable: the watch of its parent and the listing that follows
                # notice it.
                return
            if self._path_of.get(descriptor, directory) != directory and self._through_link(
                directory, path
            ):
                return
            self._unwatched.discard(directory)
            if not self._unwatched:
                self.trouble = None
            self._enter(directory, descriptor)

    def unwatched(self) -> tuple[bytes, ...]:
        """Return the directories without a watch."""
        with self._lock:
            return (*self._unseen, *self._unwatched)

    def batches_sent(self) -> int | None:
        """Return the number of calls of the sink, if they reported all changes before this call.

        An event is in the kernel's queue before the call that changes a file returns. So all changes
        are reported if the queue is empty and no event that was read from it still has to be sent.
        """
        with self._lock:
            mounts = self._mounts
            if self._closed or mounts is None or not mounts.is_current():
                return None
            size = array("i", [0])
            fcntl.ioctl(self._inotify.fileno(), termios.FIONREAD, size)
            return None if size[0] else self._sent

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            os.write(self._wake_write, b"x")
        self._thread.join()
        self._release()

    def _through_link(self, directory: bytes, path: bytes) -> bool:
        """Return whether a symbolic link was put into the path of a watched directory."""
        try:
            return without_links(path) != os.path.join(without_links(self._root), directory).rstrip(
                b"/"
            )
        except OSError:  # more links than can be followed
            return True

    def _release(self) -> None:
        self._closed = True
        self._inotify.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        if self._mounts is not None:
            self._mounts.close()

    def _is_root_steady(self) -> bool:
        """Watch the root and all above it. Return whether they are the directories of its path.

        Raises `OSError` if the root is there and cannot be watched.
        """
        # A link may replace a directory between its opening and its watch. If the directory is back,
        # its watches report further changes; if not, the second list of descriptors differs.
        try:
            return self._watch_root() == self._watch_root()
        except OSError as error:
            if error.errno in ABSENT:
                return False
            raise

    def _watch_root(self) -> list[int]:
        """Watch the root and the directories above it, and return the descriptors of the watches.

        A directory above the root may be moved away for a moment, with the root in it. The root is
        the same before and after, but a scan in between would find no files. Raises `OSError` if the
        root cannot be watched, or if a directory above it is missing.
        """
        descriptors = [self._watch_opened(self._root, _ROOT_MASK)]
        self._path_of[descriptors[0]] = b""
        directory = self._root
        while (above := os.path.dirname(directory)) != directory:
            try:
                nearest = directory == self._root
                descriptor = self._watch_opened(above, _PARENT_MASK if nearest else _ABOVE_MASK)
                self._ancestors.add(descriptor)
                self._parent = descriptor if nearest else self._parent
                descriptors.append(descriptor)
            except OSError as error:
                # The directory may be back in a moment, but without a watch: the next move of it
                # would go unnoticed.
                if error.errno in ABSENT:
                    raise
                # A directory that may not be watched is no loss: the root's identity is checked on
                # every sync and every second as well.
            directory = above
        return descriptors

    def _watch_opened(self, directory: bytes, mask: int) -> int:
        """Watch the directory at an absolute path without links. Raises `OSError`."""
        handle = open_absolute(directory, LOOKUP)
        try:
            return int(self._inotify.add_watch(b"/proc/self/fd/%d" % handle, mask))
        finally:
            os.close(handle)

    def _add_unwatched(self, directory: bytes, reason: str) -> None:
        self._unwatched.add(directory)
        advice = _raise_limit("max_user_watches")
        self.trouble = f"directories that are polled: {len(self._unwatched)}, as {reason}; {advice}"

    def _enter(self, directory: bytes, descriptor: int) -> None:
        # A moved directory keeps its descriptor, so its old names are not trusted.
        for old in self._paths_of(descriptor):
            if old != directory and not self._is_same_directory(old, directory):
                self._forget_path(descriptor, old)
                if self._descriptor_of.get(old) == descriptor:
                    del self._descriptor_of[old]
        if self._path_of.setdefault(descriptor, directory) != directory:
            self._other_paths.setdefault(descriptor, set()).add(directory)
        self._descriptor_of[directory] = descriptor
        if directory:
            self._children.setdefault(directory.rpartition(b"/")[0], set()).add(directory)

    def _paths_of(self, descriptor: int) -> tuple[bytes, ...]:
        """Return the paths of a watched directory; several only with bind mounts."""
        first = self._path_of.get(descriptor)
        return () if first is None else (first, *self._other_paths.get(descriptor, ()))

    def _is_same_directory(self, directory: bytes, other_path: bytes) -> bool:
        identity = directory_identity(self._absolute(directory))
        return identity is not None and identity == directory_identity(self._absolute(other_path))

    def _absolute(self, directory: bytes) -> bytes:
        return os.path.join(self._root, directory).rstrip(b"/") or b"/"

    def _forget_path(self, descriptor: int, directory: bytes) -> bool:
        """Forget a path of a watched directory. Return whether it was the last one."""
        paths = [path for path in self._paths_of(descriptor) if path != directory]
        self._other_paths.pop(descriptor, None)
        if not paths:
            self._path_of.pop(descriptor, None)
            return True
        self._path_of[descriptor] = paths[0]
        if len(paths) > 1:
            self._other_paths[descriptor] = set(paths[1:])
        return False

    def _drain(self, sink: Sink) -> None:
        poller = select.poll()
        poller.register(self._inotify.fileno(), select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        mounts = self._mounts
        assert mounts is not None
        poller.register(mounts.fileno(), select.POLLPRI)
        closing = select.poll()
        burst = Burst()
        closing.register(self._wake_read, select.POLLIN)
        while True:
            ready = poller.poll()
            hints = dict[Hint, None]()  # a set that keeps the order
            with self._lock:
                if self._closed:
                    return
                try:
                    for event in self._inotify.read(timeout=0):
                        self._translate(event, hints)
                except OSError as error:
                    hints[HintsLost(f"inotify cannot be read: {error.strerror}")] = None
                if mounts.changed(any(handle == mounts.fileno() for handle, _ in ready)):
                    hints[HintsLost("a file system was mounted or unmounted")] = None
                self._sent += bool(hints)
            if hints:
                sink(tuple(hints))
            if pause := burst.pause(time.monotonic(), hints):
                closing.poll(pause * 1000)

    def _translate(self, event: "Event", hints: dict[Hint, None]) -> None:
        if event.mask & flags.Q_OVERFLOW:
            hints[HintsLost("the kernel's queue of events overflowed")] = None
        elif event.wd == self._sync:
            self._translate_sync(event, hints)
        elif event.wd in self._ancestors:
            self._translate_ancestor(event, hints)
        # A bind mount may show any of these in the root as well.
        for directory in self._paths_of(event.wd):
            self._translate_directory(event, directory, hints)

    def _translate_ancestor(self, event: "Event", hints: dict[Hint, None]) -> None:
        if event.mask & flags.MOVE_SELF:
            hints[HintsLost("a directory above the root was moved")] = None
        elif event.wd == self._parent and os.fsencode(event.name) == os.path.basename(self._root):
            hints[HintsLost("the root was replaced")] = None

    def _translate_sync(self, event: "Event", hints: dict[Hint, None]) -> None:
        if event.mask & flags.CREATE:
            hints[Cookie(os.fsencode(event.name))] = None
        elif event.mask & (flags.DELETE_SELF | flags.MOVE_SELF | flags.UNMOUNT):
            hints[HintsLost("the sync directory was removed")] = None

    def _is_unseen(self, directory: bytes) -> bool:
        return any(
            directory == unseen or directory.startswith(unseen + b"/") for unseen in self._unseen
        )

    def _translate_directory(
        self, event: "Event", directory: bytes, hints: dict[Hint, None]
    ) -> None:
        if event.mask & flags.UNMOUNT:
            hints[HintsLost("a file system was unmounted")] = None
        elif event.mask & flags.IGNORED:
            self._drop_watch(event.wd, directory)
        elif event.name:
            name = os.fsencode(event.name)
            path = directory + b"/" + name if directory else name
            _add_hint(self._translate_entry(event, path), hints)
        elif event.mask & flags.ATTRIB:  # the parent of a mount point gets no such event
            hints[DirtyTreeHint(directory)] = None
        elif not directory and event.mask & (flags.DELETE_SELF | flags.MOVE_SELF):
            hints[HintsLost("the root was moved or removed")] = None

    def _translate_entry(self, event: "Event", path: bytes) -> Hint:
        if not event.mask & flags.ISDIR:
            return DirtyHint(path, _save_part(event))
        if event.mask & flags.MOVED_FROM:
            self._remove_watches(path)
        elif event.mask & flags.DELETE:
            self._unwatched.discard(path)
        return DirtyTreeHint(path)

    def _drop_watch(self, descriptor: int, directory: bytes) -> None:
        """Forget a watch that the kernel has removed, as the directory is gone."""
        self._forget_path(descriptor, directory)
        if self._descriptor_of.get(directory) == descriptor:
            del self._descriptor_of[directory]
            self._children.get(directory.rpartition(b"/")[0], set()).discard(directory)
            if not self._children.get(directory, True):
                del self._children[directory]

    def _remove_watches(self, top: bytes) -> None:
        """Remove the watches of a directory that was moved away: their new paths are not known."""
        stack = [top]
        self._children.get(top.rpartition(b"/")[0], set()).discard(top)
        while stack:
            directory = stack.pop()
            stack.extend(self._children.pop(directory, ()))
            self._unwatched.discard(directory)
            descriptor = self._descriptor_of.pop(directory, None)
            if (
                descriptor is not None
                and directory in self._paths_of(descriptor)
                and self._forget_path(descriptor, directory)
            ):
                try:
                    self._inotify.rm_watch(descriptor)
                except OSError:
                    continue  # the kernel has removed the watch already


def _add_hint(hint: Hint, hints: dict[Hint, None]) -> None:
    """Add a hint; of one file, only the part of a save that says most about its end."""
    if isinstance(hint, DirtyHint) and hint.part != "entry":
        if DirtyHint(hint.path) in hints:
            return
        hints.pop(DirtyHint(hint.path, "close" if hint.part == "write" else "write"), None)
    hints[hint] = None


def _save_part(event: "Event") -> SavePart:
    """Return the part of a save that an event of a file tells of."""
    if event.mask & flags.CLOSE_WRITE:
        return "close"
    return "write" if event.mask & (flags.MODIFY | flags.ATTRIB) else "entry"


def _default_budget() -> int:
    try:
        return int(int((_LIMITS / "max_user_watches").read_text()) * SHARE_OF_WATCHES)
    except (OSError, ValueError):
        return 1 << 16


def _instance_error(error: OSError) -> str:
    if error.errno == errno.EMFILE:  # of the process or of the user
        try:
            os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return (
                "no file handles are left; "
                "raise the daemon's limit (ulimit -n, LimitNOFILE= in its unit)"
            )
        return f"no inotify instances are left; {_raise_limit('max_user_instances')}"
    return f"inotify cannot be used: {error.strerror}"


def _watch_error(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "the kernel has no more inotify watches for this user"
    return f"the root cannot be watched: {error.strerror}"


def _raise_limit(name: str) -> str:
    try:
        doubled = 2 * int((_LIMITS / name).read_text())
    except (OSError, ValueError):
        doubled = 1 << 20
    return f"raise the limit with: sysctl fs.inotify.{name}={doubled}"
