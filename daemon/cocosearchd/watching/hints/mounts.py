"""Mounts (Linux): file systems that report every change, and changes of mounts below a root."""

import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path

# File systems whose every change goes through this kernel, which reports it (inotify(7),
# "Limitations"). Of all others, known or not, some changes come from elsewhere: another machine, a
# server in user space, the branches of a union. `overlay` and `ecryptfs` are documented to be changed
# through themselves only while they are mounted.
EXACT = frozenset(
    [
        "apfs",
        "autofs",
        "bcachefs",
        "btrfs",
        "cramfs",
        "ecryptfs",
        "erofs",
        "exfat",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "fuseblk",
        "hfs",
        "hfsplus",
        "iso9660",
        "jffs2",
        "jfs",
        "minix",
        "msdos",
        "nilfs2",
        "ntfs",
        "ntfs3",
        "overlay",
        "ramfs",
        "reiserfs",
        "romfs",
        "rootfs",
        "squashfs",
        "tmpfs",
        "ubifs",
        "udf",
        "vfat",
        "xfs",
        "zfs",
    ]
)
# File systems of the kernel and its devices (filesystems(5)): their entries are no real files.
KERNEL = frozenset(
    [
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "efivarfs",
        "fusectl",
        "mqueue",
        "nsfs",
        "proc",
        "pstore",
        "securityfs",
        "selinuxfs",
        "sysfs",
        "tracefs",
    ]
)
_MOUNTS = Path("/proc/self/mountinfo")


class MountTable:
    """The table of mounts (Linux), read again after each change. Not safe for threads."""

    def __init__(self) -> None:
        """Open the table. Raises `OSError` where there is none."""
        self._file = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        # the kernel reports a change once by each descriptor: that of `fileno` is for a thread
        self._own_file = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        self._poller = select.poll()
        self._poller.register(self._own_file, select.POLLPRI)
        self.version = 0  # changes of the table
        self._lines = self._read_lines()

    def fileno(self) -> int:
        """Return a descriptor to poll for `POLLPRI`, which reports each change of a mount once."""
        return self._file

    def update(self) -> int:
        """Read the table again if it has changed, and return its version."""
        if self._poller.poll(0):
            self._lines = self._read_lines()
            self.version += 1
        return self.version

    def lines_below(self, root: bytes) -> tuple[bytes, ...]:
        """Return the lines of the table about mounts at and below a root."""
        prefix = root.rstrip(b"/") + b"/"
        return tuple(line for point, line in self._lines if point.startswith(prefix))

    def close(self) -> None:
        """End the watch."""
        os.close(self._file)
        os.close(self._own_file)

    @staticmethod
    def _read_lines() -> list[tuple[bytes, bytes]]:
        """Return mount points, each with a slash at its end, and their lines."""
        # the same table; a descriptor that is polled need not be read
        return [(_mount_point(line) + b"/", line) for line in _split_lines(_MOUNTS.read_bytes())]


class MountWatch:
    """Notices mounts and unmounts at and below a root: they make no event in a directory."""

    def __init__(self, table: MountTable, root: bytes) -> None:
        self._table = table
        self._root = root
        self._version = table.update()
        self._lines = table.lines_below(root)

    def changed(self) -> bool:
        """Return whether a mount below the root has changed since the last call, by the table as read."""
        previous = self._lines
        self._version = self._table.version
        self._lines = self._table.lines_below(self._root)
        return previous != self._lines

    def is_current(self) -> bool:
        """Return whether `changed` has reported every change. Reads the table only after a change."""
        version = self._table.update()
        if version != self._version and self._table.lines_below(self._root) == self._lines:
            self._version = version
        return version == self._version


def file_system(path: bytes, mounts: Path = _MOUNTS) -> str:
    """Return the type of the file system that a path is on, "" if it is not known.

    `mounts` is a file as in proc_pid_mountinfo(5).
    """
    best = b""
    kind = ""
    for point, mount_kind in _read_mounts(mounts):
        inside = path == point or path.startswith(point.rstrip(b"/") + b"/")
        if inside and len(point) >= len(best):  # the later of two mounts on one point is on top
            best = point
            kind = mount_kind
    return kind


def inexact_below(root: bytes, mounts: Path = _MOUNTS) -> tuple[bytes, ...]:
    """Return mount points inside of a root that may change without an event, relative to it."""
    return _mount_points_below(root, lambda kind: kind not in EXACT and kind not in KERNEL, mounts)


def exact_below(root: bytes) -> tuple[bytes, ...]:
    """Return mount points inside of a root that report every change, relative to it.

    Mount points below one of `inexact_below` do not count.
    """
    inexact = tuple(point + b"/" for point in inexact_below(root))
    points = _mount_points_below(root, EXACT.__contains__)
    return tuple(point for point in points if not point.startswith(inexact))


def kernel_below(root: bytes) -> tuple[bytes, ...]:
    """Return mount points of the kernel's file systems inside of a root, relative to it."""
    return _mount_points_below(root, KERNEL.__contains__)


def _mount_points_below(
    root: bytes, is_wanted: Callable[[str], bool], mounts: Path = _MOUNTS
) -> tuple[bytes, ...]:
    prefix = root.rstrip(b"/") + b"/"
    # the later of two mounts on one point is on top
    kinds = {point: kind for point, kind in _read_mounts(mounts) if point.startswith(prefix)}
    return tuple(point.removeprefix(prefix) for point, kind in kinds.items() if is_wanted(kind))


def _read_mounts(mounts: Path) -> Iterator[tuple[bytes, str]]:
    """Yield mount points and types, in the order of mounting."""
    try:
        lines = _split_lines(mounts.read_bytes())
    except OSError:
        return
    for line in lines:
        yield (
            _mount_point(line),
            line.partition(b" - ")[2].split(b" ")[0].decode("ascii", "replace"),
        )


def _split_lines(table: bytes) -> list[bytes]:
    """Split a table of mounts at newlines alone: a mount point may have other ends of lines."""
    return table.removesuffix(b"\n").split(b"\n")


def _mount_point(line: bytes) -> bytes:
    """Return the mount point of a line of mountinfo."""
    return _unescape(line.split(b" ")[4])


def _unescape(field: bytes) -> bytes:
    for code, char in ((rb"\040", b" "), (rb"\011", b"\t"), (rb"\012", b"\n"), (rb"\134", b"\\")):
        field = field.replace(code, char)
    return field
