"""Mount points on which nothing is mounted: they look as if all their files had been deleted.

The device of the stored files tells them apart. It is compared with the device of other stored
files, not only with that of the directory: device numbers may change with a restart, but files that
shared a device still do.
"""

import os
from collections.abc import Iterable, Mapping
from typing import AnyStr

from cocosearchd.forms.path_forms import path_bytes
from cocosearchd.model import FileRecord


def is_bare(entries: Iterable[os.DirEntry[AnyStr]]) -> bool:
    """Return whether a directory holds nothing but links and empty files.

    People leave such entries where something is to be mounted. Raises `OSError`.
    """
    return not any(map(_is_content, entries))


def _is_content(entry: os.DirEntry[AnyStr]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False) or (
            entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size > 0
        )
    except FileNotFoundError:
        return False  # deleted since it was listed, which proves nothing about the directory


def is_mounted(directory: bytes, device: int) -> bool:
    """Return whether a file system begins at a directory on this device. Raises `OSError`."""
    return os.lstat(os.path.join(directory, b"..")).st_dev != device


def unmounted(
    root: bytes, bare: Iterable[str], missing: Iterable[str], stored: Mapping[str, FileRecord]
) -> tuple[str, ...]:
    """Return the bare directories whose missing files were on a file system that is not mounted.

    It was a file system of their own: no other stored file is on it.
    """
    lost_files = {directory: set[str]() for directory in bare}
    for path in missing:
        directory = _nearest_above(path, lost_files)
        if directory is not None:
            lost_files[directory].add(path)
    suspects = dict[str, set[int]]()
    for directory, paths in lost_files.items():
        devices = _devices_of(paths, stored)
        if devices and _not_mounted(root, directory, devices):
            suspects[directory] = devices
    if not suspects:
        return ()
    used = _devices_of(stored.keys() - set().union(*lost_files.values()), stored)
    return tuple(directory for directory, devices in suspects.items() if not devices & used)


def _devices_of(paths: Iterable[str], stored: Mapping[str, FileRecord]) -> set[int]:
    return {device for path in paths for device in _devices(stored[path])}


def _nearest_above(path: str, directories: Mapping[str, object]) -> str | None:
    """Return the nearest of the directories that a path is in."""
    while path:
        path = path.rpartition("/")[0]
        if path in directories:
            return path
    return None


def _devices(record: FileRecord) -> Iterable[int]:
    return () if record.fingerprint is None else (record.fingerprint.device,)


def _not_mounted(root: bytes, directory: str, devices: set[int]) -> bool:
    """Return whether none of the devices is mounted on the directory, nor any other."""
    path = os.path.join(root, path_bytes(directory))
    try:
        device = os.lstat(path).st_dev
        return device not in devices and not is_mounted(path, device)
    except OSError:
        return False
