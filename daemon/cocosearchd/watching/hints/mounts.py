"""What is mounted where: which file systems make no events, and when one comes or goes below a root
(Linux).
"""

import os
import select
from collections.abc import Collection, Iterator
from pathlib import Path

# File systems whose changes from elsewhere make no events here (inotify(7), "Limitations";
# containers' shared mounts).
REMOTE = frozenset(
    [
        "9p",
        "afs",
        "afpfs",
        "ceph",
        "cifs",
        "drvfs",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "gcsfuse",
        "glusterfs",
        "grpcfuse",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "osxfs",
        "prl_fs",
        "smb2",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
        "vmhgfs",
        "fuse.vmhgfs-fuse",
    ]
)
# File systems by which Linux shows itself and its devices (filesystems(5)): what looks like a file
# there is none.
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


class MountWatch:
    """Notices what is mounted and unmounted at and below a root: no directory tells of what is put
    on top of it.
    """

    def __init__(self, root: bytes) -> None:
        """Raises `OSError` where there is no such file."""
        self._root, self._file = root, os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        self._poller = select.poll()
        self._poller.register(self._file, select.POLLPRI)
        self._known = self._below()

    def fileno(self) -> int:
        """To be polled for `POLLPRI`, which tells once of each change of any mount."""
        return self._file

    def changed(self, told: bool) -> bool:
        """Whether a mount has changed there; `told` is whether polling has just said so."""
        if not self._poller.poll(0) and not told:
            return False
        before, self._known = self._known, self._below()
        return before != self._known

    def close(self) -> None:
        """The watch is over."""
        os.close(self._file)

    def _below(self) -> tuple[bytes, ...]:
        lead = self._root.rstrip(b"/") + b"/"
        # the same table; a descriptor that is polled need not be read
        lines = _MOUNTS.read_bytes().splitlines()
        return tuple(line for line in lines if (_point(line) + b"/").startswith(lead))


def file_system(path: bytes, mounts: Path = _MOUNTS) -> str:
    """The type of the file system a path is on, "" if that cannot be told. `mounts` is as in
    proc_pid_mountinfo(5).
    """
    best, kind = b"", ""
    for point, type_ in _mounted(mounts):
        inside = path == point or path.startswith(point.rstrip(b"/") + b"/")
        if inside and len(point) >= len(best):  # of two mounts on one point the later one is on top
            best, kind = point, type_
    return kind


def remote_below(root: bytes, mounts: Path = _MOUNTS) -> tuple[bytes, ...]:
    """Mount points inside of a root whose changes make no events, relative to it."""
    return _below(root, REMOTE, mounts)


def kernel_below(root: bytes, mounts: Path = _MOUNTS) -> tuple[bytes, ...]:
    """Mount points inside of a root where the kernel shows itself, relative to it."""
    return _below(root, KERNEL, mounts)


def _below(root: bytes, kinds: Collection[str], mounts: Path) -> tuple[bytes, ...]:
    lead = root.rstrip(b"/") + b"/"
    return tuple(
        p.removeprefix(lead) for p, kind in _mounted(mounts) if kind in kinds and p.startswith(lead)
    )


def _mounted(mounts: Path) -> Iterator[tuple[bytes, str]]:
    """Mount points and types, in the order of mounting."""
    try:
        lines = mounts.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        yield _point(line), line.partition(b" - ")[2].split(b" ")[0].decode("ascii", "replace")


def _point(line: bytes) -> bytes:
    """Where a line of mountinfo says that something is mounted."""
    return _unescape(line.split(b" ")[4])


def _unescape(field: bytes) -> bytes:
    for code, char in ((rb"\040", b" "), (rb"\011", b"\t"), (rb"\012", b"\n"), (rb"\134", b"\\")):
        field = field.replace(code, char)
    return field
