"""The names that directories list, for file systems that find a file by other names as well.

vfat, exFAT, NTFS, APFS, HFS+ and directories of ext4 with the flag `F` find `Foo.py` by the name
`foo.py`; APFS and HFS+ also by other Unicode normal forms. The path by which a file was found is
therefore not always its listed path.
"""

import os
import unicodedata
from collections.abc import Mapping

from cocosearchd.runtime.files.nofollow import LOOKUP, Identity, open_absolute

_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class ExactNames:
    """The listed paths of files below a root, for one batch of paths. All methods block."""

    def __init__(self, root: bytes) -> None:
        self.root = root
        # directory -> its listed path, None if there is none, and its identity
        self._directories: dict[bytes, tuple[bytes | None, Identity]] = {}
        # directory -> name -> inode; None if files in it are found by their listed names only
        self._listings: dict[Identity, dict[bytes, int] | None] = {}

    def find(self, path: bytes, status: os.stat_result) -> bytes | None:
        """Return the listed path of a file that was found by `path`.

        None if no path is listed. A directory that cannot be listed counts as listing each file
        that is found in it.
        Raises `OSError` if a directory of the path has gone.
        """
        parent, _, name = path.rpartition(b"/")
        if parent not in self._directories:
            self._directories[parent] = self._walk(parent)
        directory, identity = self._directories[parent]
        if directory is None:
            return None
        if identity not in self._listings:
            handle = open_absolute(os.path.join(self.root, parent), LOOKUP)
            try:
                self._look(handle, identity, name, _identity_of(status))
            finally:
                os.close(handle)
        listed_name = self._listed_name(identity, name, status.st_ino)
        return listed_name and (directory + b"/" + listed_name if directory else listed_name)

    def _walk(self, directory: bytes) -> tuple[bytes | None, Identity]:
        """Return the listed path of a directory and its identity, from the root down.

        Only one handle is open at a time, and each call gets one name: the author of a repository
        may nest directories as deeply as paths allow.
        """
        listed_names = list[bytes | None]()
        handle = open_absolute(self.root, LOOKUP)
        try:
            identity = _identity_of(os.fstat(handle))
            for name in filter(None, directory.split(b"/")):
                status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                self._look(handle, identity, name, _identity_of(status))
                listed_names.append(self._listed_name(identity, name, status.st_ino))
                below = os.open(name, LOOKUP | os.O_NOFOLLOW, dir_fd=handle)
                os.close(handle)
                handle = below
                identity = _identity_of(os.fstat(handle))
        finally:
            os.close(handle)
        path = b"/".join(name for name in listed_names if name is not None)
        return None if None in listed_names else path, identity

    def _look(self, handle: int, directory: Identity, name: bytes, file: Identity) -> None:
        """List an open directory if a file in it is found by another spelling of its name."""
        spellings = () if directory in self._listings else _other_spellings(name)
        if spellings:  # a name without other spellings shows nothing about the directory
            folds = file in {_identity_at(handle, spelling) for spelling in spellings}
            self._listings[directory] = _list(handle) if folds else None

    def _listed_name(self, directory: Identity, name: bytes, inode: int) -> bytes | None:
        listing = self._listings.get(directory)
        if listing is None or name in listing:
            return name
        return _equivalent(name, inode, listing)


def _identity_of(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _identity_at(handle: int, name: bytes) -> Identity | None:
    try:
        return _identity_of(os.stat(name, dir_fd=handle, follow_symlinks=False))
    except OSError:
        return None


def _list(handle: int) -> dict[bytes, int] | None:
    try:
        readable_handle = os.open(b".", _LIST, dir_fd=handle)
    except OSError:
        return None
    try:
        with os.scandir(readable_handle) as entries:
            return {os.fsencode(entry.name): entry.inode() for entry in entries}
    except OSError:
        return None
    finally:
        os.close(readable_handle)


def _other_spellings(name: bytes) -> set[bytes]:
    """Return spellings that a file system may treat as the same name; empty if there are none."""
    text = os.fsdecode(name)
    spellings = {text.swapcase()}
    if not text.isascii():
        spellings |= {unicodedata.normalize(form, text) for form in ("NFC", "NFD")}
    return {os.fsencode(spelling) for spelling in spellings - {text}}


def _equivalent(name: bytes, inode: int, listing: Mapping[bytes, int]) -> bytes | None:
    """Return the listed name of a file that was found by an unlisted name; None if there is none."""
    key = _fold(name)
    folded = (listed_name for listed_name in listing if _fold(listed_name) == key)
    # the short names of vfat
    linked = (listed_name for listed_name, number in listing.items() if number == inode)
    return next(folded, None) or next(linked, None)


def _fold(name: bytes) -> str:
    return unicodedata.normalize("NFC", os.fsdecode(name)).casefold()
