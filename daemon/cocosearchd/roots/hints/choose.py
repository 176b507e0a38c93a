"""Which backend watches a root: as configured, by the kind of its file system, else the best one that starts."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from cocosearchd.roots.hints.base import Hints, HintsUnavailable, Sink
from cocosearchd.roots.hints.inotify import InotifyHints
from cocosearchd.roots.hints.polling import PollingHints
from cocosearchd.roots.hints.watchfiles import WatchfilesHints
from cocosearchd.settings import WatchingSettings

# File systems whose changes from elsewhere make no events here (inotify(7), "Limitations"; containers' shared mounts).
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
_MOUNTS = Path("/proc/self/mountinfo")


def open_hints(root: bytes, sync_dir: bytes, settings: WatchingSettings, sink: Sink) -> tuple[Hints, str | None]:
    """A started backend, and why it is not the preferred one. Blocking; `sync_dir` is made if it is missing."""
    os.makedirs(sync_dir, mode=0o700, exist_ok=True)
    reasons = list[str]()
    for make in _candidates(root, sync_dir, settings, reasons):
        hints = make()
        try:
            hints.start(sink)
        except HintsUnavailable as unavailable:
            reasons.append(f"{hints.name}: {unavailable}")
        else:
            return hints, "; ".join(reasons) or None
    raise AssertionError("polling always starts")


def _candidates(
    root: bytes, sync_dir: bytes, settings: WatchingSettings, reasons: list[str]
) -> Iterable[Callable[[], Hints]]:
    kind = settings.backend
    if kind == "auto" and (remote := file_system(root)) in REMOTE:
        reasons.append(f"{remote} does not report changes made elsewhere")
        kind = "polling"
    if kind in ("auto", "inotify") and sys.platform == "linux":
        yield lambda: InotifyHints(root, sync_dir)
    elif kind == "inotify":
        reasons.append("inotify: exists on Linux only")
    # On Linux watchfiles is built on inotify too: where that fails, so does this, but with less to say.
    if kind == "watchfiles" or (kind in ("auto", "inotify") and sys.platform != "linux"):
        yield lambda: WatchfilesHints(root, sync_dir, settings.debounce_ms)
    yield PollingHints


def file_system(path: bytes, mounts: Path = _MOUNTS) -> str:
    """The type of the file system a path is on, "" if that cannot be told. `mounts` is as in proc_pid_mountinfo(5)."""
    try:
        lines = mounts.read_bytes().splitlines()
    except OSError:
        return ""
    best, kind = b"", ""
    for line in lines:
        left, _, right = line.partition(b" - ")
        point = _unescape(left.split(b" ")[4])
        inside = path == point or path.startswith(point.rstrip(b"/") + b"/")
        if inside and len(point) >= len(best):  # of two mounts on one point the later one is on top
            best, kind = point, right.split(b" ")[0].decode("ascii", "replace")
    return kind


def _unescape(field: bytes) -> bytes:
    for code, char in ((rb"\040", b" "), (rb"\011", b"\t"), (rb"\012", b"\n"), (rb"\134", b"\\")):
        field = field.replace(code, char)
    return field
