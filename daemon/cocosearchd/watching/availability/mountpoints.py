"""Directories that something is to be mounted on, and is not: they look as if all that was in them
had been deleted.

What tells them apart is the device of the files that are stored. It is compared with that of other
stored files, not only with that of the directory: numbers of devices may be others after a restart,
but what shared one still does.
"""

import os
from collections.abc import Iterable, Mapping
from typing import AnyStr

from cocosearchd.model import FileRecord, decode_path


def is_bare(entries: Iterable[os.DirEntry[AnyStr]]) -> bool:
    """Whether a directory holds nothing, or what people leave where something is to be mounted:
    links, empty files.

    Raises `OSError`.
    """
    return not any(map(_is_something, entries))


def _is_something(entry: os.DirEntry[AnyStr]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False) or (
            entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size > 0
        )
    except FileNotFoundError:
        return False  # gone since it was listed, which says nothing of the directory


def is_mounted(directory: bytes, device: int) -> bool:
    """Whether a directory on this device is where its file system begins. Raises `OSError`."""
    return os.lstat(os.path.join(directory, b"..")).st_dev != device


def unmounted(
    root: bytes, bare: Iterable[str], missing: Iterable[str], stored: Mapping[str, FileRecord]
) -> tuple[str, ...]:
    """Those of the bare directories whose missing files were on a file system of their own, which
    is not there now.
    """
    lost = {directory: set[int]() for directory in bare}
    elsewhere = set(stored)
    for path in missing:
        directory = _above(path, lost)
        if directory is not None:
            elsewhere.discard(path)
            lost[directory].update(_device(stored[path]))
    suspects = {directory: devices for directory, devices in lost.items() if devices}
    if not suspects:
        return ()
    suspects = {
        directory: devices
        for directory, devices in suspects.items()
        if _lost(root, directory, devices)
    }
    others = (
        {device for path in elsewhere for device in _device(stored[path])} if suspects else set()
    )
    return tuple(directory for directory, devices in suspects.items() if not devices & others)


def _above(path: str, directories: Mapping[str, object]) -> str | None:
    """The nearest of some directories that a path is in."""
    while path:
        path = path.rpartition("/")[0]
        if path in directories:
            return path
    return None


def _device(record: FileRecord) -> Iterable[int]:
    return () if record.fingerprint is None else (record.fingerprint.device,)


def _lost(root: bytes, directory: str, devices: set[int]) -> bool:
    """Whether files on these devices are not to be seen from the directory as it is now."""
    place = os.path.join(root, decode_path(directory))
    try:
        device = os.lstat(place).st_dev
        return device not in devices and not is_mounted(place, device)
    except OSError:
        return False
