"""Instances of inotify (Linux): each has one thread that reads its events, for one root or for several.

The kernel gives a user a few instances (`max_user_instances`, usually 128), and editors and file
managers need them as well. The first roots have an instance each; further roots share these.
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
from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Protocol

from cocosearchd.watching.hints.base import Cookie, Hint, HintsLost
from cocosearchd.watching.hints.mounts import MountTable

if sys.platform == "linux":
    from inotify_simple import Event, INotify, flags

LIMITS = Path("/proc/sys/fs/inotify")
# Instances of a daemon: these, and at most this share of the user's.
MAX_INSTANCES = 16
SHARE_OF_INSTANCES = 1 / 8
# Other programs of this user need watches too, and the kernel counts per user.
SHARE_OF_WATCHES = 0.75
# A file that git replaces makes four events, in two or three reads if they are read at once. While
# a program rewrites a tree, reading pauses for a moment instead. The kernel holds thousands of
# events meanwhile, and a cookie is delayed by at most the pause.
BURST_READS = 16
BURST_S = 0.02
GATHER_S = 0.005
# The kernel queues an event for each watch that ends. `ENDED_TOGETHER` watches end at a time: then the
# thread reads, and a root that leaves waits until fewer than `UNREAD_BYTES` are unread. The queue has
# room for `max_queued_events`, 16,384.
ENDED_TOGETHER = 1000
UNREAD_BYTES = 64 * 1024
UNREAD_POLL_S = 0.001
UNREAD_POLLS = 500


class EventReceiver(Protocol):
    """A root that reads events of an instance. The thread of the instance calls its methods."""

    def translate(self, event: "Event", hints: dict[Hint, None]) -> None:
        """Add the hints of an event of one of its watches. Called with the lock of the instance."""

    def is_mount_changed(self) -> bool:
        """Return whether mounts at or below the root have changed since the last call, or the start.

        Called with the lock of the instance.
        """

    def count_batch(self) -> None:
        """Count hints that `send` is about to get. Called with the lock of the instance."""

    def send(self, hints: Sequence[Hint]) -> None:
        """Report hints. Called without the lock; must not block."""


# a dictionary in place of a set keeps the order
HintsByRoot = defaultdict[EventReceiver, dict[Hint, None]]


class Burst:
    """Detects a program that rewrites a tree: only its events are worth gathering."""

    def __init__(self) -> None:
        self._read_at = 0.0
        self._reads = 0

    def pause(self, time_s: float, hints: Collection[Hint]) -> float:
        """Return the pause in seconds after a read with these hints, in which events gather.

        `time_s` is of a monotonic clock. Each of several questions in a row makes a cookie and waits
        for it: cookies alone do not show that a tree is being rewritten.
        """
        if hints and all(isinstance(hint, Cookie) for hint in hints):
            return 0.0
        self._reads = self._reads + 1 if time_s - self._read_at < BURST_S else 0
        self._read_at = time_s
        return GATHER_S if self._reads >= BURST_READS else 0.0


class InotifyInstance:
    """One instance of inotify, its thread, and the roots that have watches in it.

    `lock` guards the watches and what the roots know of them.
    """

    def __init__(self) -> None:
        """Start the thread. Raises `OSError` if no instance or no file handle is left."""
        self.lock = threading.Lock()
        self._delivery = threading.Lock()  # held while hints are sent
        # The kernel knows a directory once in an instance, for all roots that watch it.
        self._receivers = dict[int, tuple[EventReceiver, ...]]()  # by watch descriptor
        self._roots = dict[EventReceiver, tuple[EventReceiver, ...]]()  # each with its own 1-tuple
        self._unused = deque[int]()  # watch descriptors that the thread has to end
        self._closed = False
        self._mounts_version = 0  # that the roots have been told
        with ExitStack() as on_error:
            self._inotify = INotify(nonblocking=True)
            on_error.callback(self._inotify.close)
            self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            on_error.callback(os.close, self._wake_read)
            on_error.callback(os.close, self._wake_write)
            self.mounts = MountTable()
            on_error.callback(self.mounts.close)
            self._thread = threading.Thread(target=self._run, name="inotify", daemon=True)
            self._thread.start()
            on_error.pop_all()

    @property
    def is_running(self) -> bool:
        """True until the instance is closed, or its thread has ended by a failure."""
        return not self._closed

    @property
    def watch_count(self) -> int:
        """The number of watches."""
        return len(self._receivers)

    @property
    def root_count(self) -> int:
        """The number of roots."""
        return len(self._roots)

    def enter(self, root: EventReceiver) -> None:
        """Admit a root. Raises `OSError` if the thread has ended."""
        with self.lock:
            if self._closed:
                raise OSError(errno.EIO, "the reader of inotify failed")
            self._roots[root] = (root,)

    def leave(self, root: EventReceiver, descriptors: Sequence[int]) -> None:
        """End the watches of a root. Afterwards nothing is sent to it."""
        for start in range(0, len(descriptors), ENDED_TOGETHER):
            with self.lock:
                for descriptor in descriptors[start : start + ENDED_TOGETHER]:
                    self.remove_watch(root, descriptor)
            self._wait_for_reader()
        with self.lock:
            del self._roots[root]
        with self._delivery:  # hints that were read before are sent by now
            return

    def close(self) -> None:
        """End the thread, and free the instance with all its watches."""
        with self.lock:
            self._closed = True
        os.write(self._wake_write, b"x")
        self._thread.join()
        self._inotify.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        self.mounts.close()

    # -- with `lock`

    def add_watch(self, root: EventReceiver, path: bytes, mask: int) -> int:
        """Watch a directory for a root, and return the descriptor. Call with `lock`.

        The root may get events that it did not ask for: another root, or another role of the
        directory, asked for them. Raises `OSError`.
        """
        descriptor = int(self._inotify.add_watch(path, mask | flags.MASK_ADD))
        receivers = self._receivers.get(descriptor, ())
        if root not in receivers:
            self._receivers[descriptor] = (*receivers, root) if receivers else self._roots[root]
        return descriptor

    def remove_watch(self, root: EventReceiver, descriptor: int) -> None:
        """End a watch of a root, if it has not ended. Call with `lock`."""
        if self._remove_receiver(root, descriptor):
            self._end_watch(descriptor)

    def remove_watch_later(self, root: EventReceiver, descriptor: int) -> None:
        """End a watch of a root, however many there are: the thread ends some between two reads.

        The root gets no event of it any more. Call with `lock`.
        """
        if self._remove_receiver(root, descriptor):
            self._unused.append(descriptor)

    def is_drained(self) -> bool:
        """Return whether each event so far was read and counted by its roots. Call with `lock`."""
        return not self._unread_bytes()

    def _remove_receiver(self, root: EventReceiver, descriptor: int) -> bool:
        """Return whether the root was the last receiver of the events of a watch."""
        receivers = self._receivers.get(descriptor, ())
        remaining = tuple(receiver for receiver in receivers if receiver is not root)
        if remaining:
            self._receivers[descriptor] = (
                remaining if len(remaining) > 1 else self._roots[remaining[0]]
            )
            return False
        return self._receivers.pop(descriptor, None) is not None

    def _end_watch(self, descriptor: int) -> None:
        try:
            self._inotify.rm_watch(descriptor)
        except OSError:
            return  # the kernel has removed the watch already

    # -- the thread

    def _run(self) -> None:
        with ExitStack() as at_end:
            at_end.callback(self._report_end)
            self._read_for_ever()

    def _report_end(self) -> None:
        """Tell the roots that the thread has ended, unless the instance is closed."""
        with self.lock:
            roots = [] if self._closed else list(self._roots)
            self._closed = True
            for root in roots:
                root.count_batch()
        for root in roots:
            root.send((HintsLost("the reader of inotify failed; the log says why"),))

    def _read_for_ever(self) -> None:
        poller = select.poll()
        poller.register(self._inotify.fileno(), select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        poller.register(self.mounts.fileno(), select.POLLPRI)
        closing = select.poll()
        closing.register(self._wake_read, select.POLLIN)
        burst = Burst()
        while True:
            poller.poll(0 if self._unused else None)
            with self._delivery:
                with self.lock:
                    if self._closed:
                        return
                    hints_by_root = self._read()
                    self._end_unused()
                    for root in hints_by_root:
                        root.count_batch()
                for root, hints in hints_by_root.items():
                    root.send(tuple(hints))
            every_hint = list(chain.from_iterable(hints_by_root.values()))
            if pause := burst.pause(time.monotonic(), every_hint):
                closing.poll(pause * 1000)

    def _read(self) -> dict[EventReceiver, dict[Hint, None]]:
        """Read events and changes of mounts. Return the hints of each root that has some."""
        hints_by_root: HintsByRoot = defaultdict(dict)
        try:
            for event in self._inotify.read(timeout=0):
                self._translate(event, hints_by_root)
        except OSError as error:
            self._lose(f"inotify cannot be read: {error.strerror}", hints_by_root)
        version = self.mounts.update()
        if version != self._mounts_version:
            self._mounts_version = version
            for root in self._roots:
                if root.is_mount_changed():
                    hints_by_root[root][HintsLost("a file system was mounted or unmounted")] = None
        return {root: hints for root, hints in hints_by_root.items() if hints}

    def _end_unused(self) -> None:
        """End some of the watches without a receiver."""
        for _ in range(min(len(self._unused), ENDED_TOGETHER)):
            descriptor = self._unused.popleft()
            if descriptor not in self._receivers:  # the directory may be watched again
                self._end_watch(descriptor)

    def _translate(self, event: "Event", hints_by_root: HintsByRoot) -> None:
        if event.mask & flags.Q_OVERFLOW:
            self._lose("the kernel's queue of events overflowed", hints_by_root)
        for root in self._receivers.get(event.wd, ()):
            root.translate(event, hints_by_root[root])
        if event.mask & flags.IGNORED:
            self._receivers.pop(event.wd, None)

    def _lose(self, reason: str, hints_by_root: HintsByRoot) -> None:
        for root in self._roots:
            hints_by_root[root][HintsLost(reason)] = None

    def _unread_bytes(self) -> int:
        size = array("i", [0])
        fcntl.ioctl(self._inotify.fileno(), termios.FIONREAD, size)
        return size[0]

    def _wait_for_reader(self) -> None:
        """Wait until the thread has read most events, for a limited time."""
        for _ in range(UNREAD_POLLS):
            if self._unread_bytes() < UNREAD_BYTES:
                return
            time.sleep(UNREAD_POLL_S)


class InotifyInstances:
    """The instances of all roots of a daemon, and the number of watches that they may have."""

    def __init__(self, limit: int | None = None, budget: int | None = None) -> None:
        """`limit` bounds the instances and `budget` the watches; None: shares of the kernel's limits."""
        self._limit = default_limit() if limit is None else limit
        self.budget = default_budget() if budget is None else budget
        self._instances = list[InotifyInstance]()
        self._lock = threading.Lock()

    @property
    def watch_count(self) -> int:
        """The number of watches of all instances."""
        return sum(instance.watch_count for instance in tuple(self._instances))

    @property
    def instance_count(self) -> int:
        """The number of instances."""
        return len(self._instances)

    def enter(self, root: EventReceiver) -> InotifyInstance:
        """Admit a root to an instance of its own, or to the one with the fewest watches.

        Raises `OSError` if there is no instance, and none can be made.
        """
        with self._lock:
            running = [instance for instance in self._instances if instance.is_running]
            instance = self._open(running)
            instance.enter(root)
            return instance

    def leave(
        self, instance: InotifyInstance, root: EventReceiver, descriptors: Sequence[int]
    ) -> None:
        """End the watches of a root, and an instance that has no other."""
        if not self._take_out(instance, roots=1):
            instance.leave(root, descriptors)
            if not self._take_out(instance, roots=0):
                return
        instance.close()

    def _open(self, running: Sequence[InotifyInstance]) -> InotifyInstance:
        if len(running) < self._limit:
            try:
                instance = InotifyInstance()
            except OSError:  # the user or the process has no more
                if not running:
                    raise
            else:
                self._instances.append(instance)
                return instance
        return min(running, key=lambda instance: instance.watch_count)

    def _take_out(self, instance: InotifyInstance, roots: int) -> bool:
        """Take out an instance that has so many roots, so that no root enters it any more."""
        with self._lock:
            is_last = instance.root_count == roots and instance in self._instances
            if is_last:
                self._instances.remove(instance)
            return is_last


def read_limit(name: str) -> int | None:
    """Return a limit of the kernel, `fs.inotify.<name>`; None if it is not known."""
    try:
        return int((LIMITS / name).read_text())
    except (OSError, ValueError):
        return None


def default_limit() -> int:
    """Return the number of instances that a daemon may have."""
    limit = read_limit("max_user_instances") or 128
    return max(1, min(MAX_INSTANCES, int(limit * SHARE_OF_INSTANCES)))


def default_budget() -> int:
    """Return the number of watches that a daemon may have."""
    return int((read_limit("max_user_watches") or 1 << 17) * SHARE_OF_WATCHES)
