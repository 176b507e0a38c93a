"""The backend for Linux: watches each listed directory and notices overflows.

It never reads a directory. The scanner calls `watch` before it lists a directory, so nothing is
created unseen between the two. A new directory is only named; the scan that follows watches it. No
events are requested for opening and reading files: the indexer's own reads must not fill the queue.
Roots share instances of inotify, so a root may get events that another one asked for.
"""

import errno
import os
import sys
from collections.abc import Sequence

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
from cocosearchd.watching.hints.inotify_instances import (
    InotifyInstance,
    InotifyInstances,
    read_limit,
)
from cocosearchd.watching.hints.mounts import MountWatch

if sys.platform == "linux":
    from inotify_simple import Event, flags

    # by the path of an open directory, which is a link
    _DIRECTORY = flags.ONLYDIR | flags.EXCL_UNLINK
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
    _SYNC_MASK = flags.CREATE | flags.DELETE_SELF | flags.MOVE_SELF | flags.DONT_FOLLOW | _DIRECTORY
    _ABOVE_MASK = flags.MOVE_SELF | flags.ONLYDIR
    _ENTRY_MASK = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO
    _PARENT_MASK = _ENTRY_MASK | _ABOVE_MASK

# Errors of a directory that is there and cannot be watched, for the want of something.
_SHORTAGES = frozenset([errno.ENOSPC, errno.ENOMEM, errno.EMFILE, errno.ENFILE])
# A question rather waits for a cookie than longer for another root of the instance.
LOCK_S = 0.02


class InotifyHints:
    """The `Hints` of inotify. `sync_dir` must exist and lie outside of the root."""

    name = "inotify"
    exact = True

    def __init__(
        self,
        root: bytes,
        sync_dir: bytes,
        instances: InotifyInstances | None = None,
        unseen: tuple[bytes, ...] = (),
    ) -> None:
        """Watch nothing yet.

        `instances` is shared by all roots; None: the root has its own. `unseen` are directories whose
        file system makes no events.
        """
        self._unseen = unseen
        self._root = root
        self._sync_dir = sync_dir
        self._instances = InotifyInstances() if instances is None else instances
        # the lock of the instance guards the maps, and the calls that change the watches
        self._instance: InotifyInstance | None = None
        self._sink: Sink | None = None
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

    @property
    def instance(self) -> InotifyInstance:
        """The instance of inotify with the watches of the root, after `start`."""
        assert self._instance is not None
        return self._instance

    def start(self, sink: Sink) -> None:
        """Enter an instance. Raises `HintsUnavailable` if none is left, or the root has no watch."""
        self._sink = sink
        try:
            self._instance = self._instances.enter(self)
        except OSError as error:
            raise HintsUnavailable(_instance_error(error)) from error
        try:
            with self.instance.lock:
                self._mounts = MountWatch(self.instance.mounts, self._root)
                self._sync = self.instance.add_watch(self, self._sync_dir, _SYNC_MASK)
            steady = self._is_root_steady()
        except OSError as error:
            self.close()
            raise HintsUnavailable(_watch_error(error)) from error
        if not steady:
            with self.instance.lock:
                self.count_batch()
            self.send((HintsLost("the root was replaced"),))

    def watch(self, directory: bytes) -> None:
        """Add a watch, or note the new name of a watched directory."""
        if self._closed or self._is_unseen(directory):
            return
        path = os.path.join(self._root, directory)
        try:
            # Outside of the lock: a file system that hangs must not stop other roots.
            handle = os.open(path, LOOKUP | os.O_NOFOLLOW)
        except OSError as error:
            with self.instance.lock:
                self._note_failure(directory, error)
            return
        try:
            with self.instance.lock:
                if not self._closed:
                    self._watch_handle(directory, path, handle)
        finally:
            os.close(handle)

    def unwatched(self) -> tuple[bytes, ...]:
        """Return the directories without a watch."""
        if not self._unwatched:
            return self._unseen
        with self.instance.lock:
            return (*self._unseen, *self._unwatched)

    def batches_sent(self) -> int | None:
        """Return the number of calls of the sink, if they reported all changes before this call.

        An event is in the kernel's queue before the call that changes a file returns. So all changes
        are reported if the queue is empty and no event that was read from it still has to be sent.
        """
        instance, mounts = self._instance, self._mounts
        if instance is None or mounts is None or not instance.lock.acquire(timeout=LOCK_S):
            return None
        try:
            if self._closed or not mounts.is_current() or not instance.is_drained():
                return None
            return self._sent
        finally:
            instance.lock.release()

    def close(self) -> None:
        """End the watches."""
        if self._instance is None:
            return
        with self._instance.lock:
            if self._closed:
                return
            self._closed = True
            descriptors = [*self._path_of, *self._ancestors, self._sync]
        self._instances.leave(self._instance, self, descriptors)

    # -- for the thread of the instance

    def translate(self, event: "Event", hints: dict[Hint, None]) -> None:
        """Add the hints of an event. Called with the lock of the instance."""
        if event.wd == self._sync:
            self._translate_sync(event, hints)
        elif event.wd in self._ancestors:
            self._translate_ancestor(event, hints)
        # A bind mount may show any of these in the root as well.
        for directory in self._paths_of(event.wd):
            self._translate_directory(event, directory, hints)

    def is_mount_changed(self) -> bool:
        """Return whether mounts in the root have changed. Called with the lock of the instance."""
        return self._mounts is not None and self._mounts.changed()

    def count_batch(self) -> None:
        """Count a call of the sink. Called with the lock of the instance."""
        self._sent += 1

    def send(self, hints: Sequence[Hint]) -> None:
        """Call the sink."""
        assert self._sink is not None
        self._sink(hints)

    # -- watches

    def _watch_handle(self, directory: bytes, path: bytes, handle: int) -> None:
        """Watch an opened directory."""
        is_new = directory not in self._descriptor_of
        if is_new and self._instances.watch_count >= self._instances.budget:
            self._add_unwatched(directory, f"more than {self._instances.budget} directories")
            return
        try:
            descriptor = self.instance.add_watch(self, _handle_path(handle), _MASK)
        except OSError as error:
            self._note_failure(directory, error)
            return
        first_path = self._path_of.get(descriptor, directory)
        if first_path != directory and self._through_link(directory, path):
            return
        self._forget_unwatched(directory)
        self._enter(directory, descriptor)

    def _through_link(self, directory: bytes, path: bytes) -> bool:
        """Return whether a symbolic link was put into the path of a watched directory."""
        try:
            return without_links(path) != os.path.join(without_links(self._root), directory).rstrip(
                b"/"
            )
        except OSError:  # more links than can be followed
            return True

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
        descriptors = [self._watch_opened(self._root, _MASK)]
        directory = self._root
        while (above := os.path.dirname(directory)) != directory:
            try:
                mask = _PARENT_MASK if directory == self._root else _ABOVE_MASK
                descriptors.append(self._watch_opened(above, mask))
            except OSError as error:
                # The directory may be back in a moment, but without a watch: the next move of it
                # would go unnoticed.
                if error.errno in ABSENT:
                    raise
                # A directory that may not be watched is no loss: the root's identity is checked on
                # every sync and every tick as well.
            directory = above
        return descriptors

    def _watch_opened(self, directory: bytes, mask: int) -> int:
        """Watch the root or a directory above it, without links in its path. Raises `OSError`."""
        handle = open_absolute(directory, LOOKUP)
        try:
            with self.instance.lock:
                descriptor = self.instance.add_watch(self, _handle_path(handle), mask)
                if directory == self._root:
                    self._path_of[descriptor] = b""
                else:
                    self._ancestors.add(descriptor)
                    if mask == _PARENT_MASK:
                        self._parent = descriptor
                return descriptor
        finally:
            os.close(handle)

    def _note_failure(self, directory: bytes, error: OSError) -> None:
        """Note a directory that cannot be watched.

        One that is gone again or unreadable needs no note: the watch of its parent and the listing
        that follows notice it.
        """
        if error.errno in _SHORTAGES:
            self._add_unwatched(directory, _watch_error(error))

    def _add_unwatched(self, directory: bytes, reason: str) -> None:
        self._unwatched.add(directory)
        self._add_child(directory)
        advice = _raise_limit("max_user_watches")
        self.trouble = f"directories that are polled: {len(self._unwatched)}, as {reason}; {advice}"

    def _forget_unwatched(self, directory: bytes) -> None:
        self._unwatched.discard(directory)
        if not self._unwatched:
            self.trouble = None

    def _add_child(self, directory: bytes) -> None:
        if directory:
            self._children.setdefault(directory.rpartition(b"/")[0], set()).add(directory)

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
        self._add_child(directory)

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

    def _translate_ancestor(self, event: "Event", hints: dict[Hint, None]) -> None:
        if event.mask & flags.MOVE_SELF:
            hints[HintsLost("a directory above the root was moved")] = None
        elif (
            event.wd == self._parent
            and event.mask & _ENTRY_MASK  # another root may ask for more, such as a new mode
            and os.fsencode(event.name) == os.path.basename(self._root)
        ):
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
        # No event names what was below a deleted directory without a watch.
        is_deleted_unwatched = event.mask & flags.DELETE and path in self._unwatched
        if event.mask & flags.MOVED_FROM or is_deleted_unwatched:
            self._remove_watches(path)
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
        """Remove what is known at and below a directory that is gone: no new path is known."""
        stack = [top]
        self._children.get(top.rpartition(b"/")[0], set()).discard(top)
        while stack:
            directory = stack.pop()
            stack.extend(self._children.pop(directory, ()))
            self._forget_unwatched(directory)
            descriptor = self._descriptor_of.pop(directory, None)
            if (
                descriptor is not None
                and directory in self._paths_of(descriptor)
                and self._forget_path(descriptor, directory)
                and descriptor != self._sync
                and descriptor not in self._ancestors
            ):
                self.instance.remove_watch_later(self, descriptor)


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


def _handle_path(handle: int) -> bytes:
    """Return a path of an open directory that no link can change."""
    return b"/proc/self/fd/%d" % handle


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
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "no file handles are left"
    return f"the root cannot be watched: {error.strerror}"


def _raise_limit(name: str) -> str:
    doubled = 2 * (read_limit(name) or 1 << 19)
    return f"raise the limit with: sysctl fs.inotify.{name}={doubled}"
