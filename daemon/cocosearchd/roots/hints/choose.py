"""Which backend watches a root: as configured, by the kind of its file system, else the best one that starts."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
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
    reasons = list[str]()
    try:
        os.makedirs(sync_dir, mode=0o700, exist_ok=True)
    except OSError as error:
        reasons.append(f"the directory for syncs cannot be made: {error.strerror}")
        settings = replace(settings, backend="polling")
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
        yield lambda: InotifyHints(root, sync_dir, unseen=remote_below(root))
    elif kind == "inotify":
        reasons.append("inotify: exists on Linux only")
    # On Linux watchfiles is built on inotify too: where that fails, so does this, but with less to say.
    if kind == "watchfiles" or (kind in ("auto", "inotify") and sys.platform != "linux"):
        yield lambda: WatchfilesHints(root, sync_dir, settings.debounce_ms)
    yield PollingHints


def file_system(path: bytes, mounts: Path = _MOUNTS) -> str:
    """The type of the file system a path is on, "" if that cannot be told. `mounts` is as in proc_pid_mountinfo(5)."""
    best, kind = b"", ""
    for point, type_ in _mounted(mounts):
        inside = path == point or path.startswith(point.rstrip(b"/") + b"/")
        if inside and len(point) >= len(best):  # of two mounts on one point the later one is on top
            best, kind = point, type_
    return kind


def remote_below(root: bytes, mounts: Path = _MOUNTS) -> tuple[bytes, ...]:
    """Mount points inside of a root whose changes make no events, relative to it."""
    lead = root.rstrip(b"/") + b"/"
    return tuple(p.removeprefix(lead) for p, kind in _mounted(mounts) if kind in REMOTE and p.startswith(lead))


def _mounted(mounts: Path) -> Iterator[tuple[bytes, str]]:
    """Mount points and types, in the order of mounting."""
    try:
        lines = mounts.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        left, _, right = line.partition(b" - ")
        yield _unescape(left.split(b" ")[4]), right.split(b" ")[0].decode("ascii", "replace")


def _unescape(field: bytes) -> bytes:
    for code, char in ((rb"\040", b" "), (rb"\011", b"\t"), (rb"\012", b"\n"), (rb"\134", b"\\")):
        field = field.replace(code, char)
    return field
