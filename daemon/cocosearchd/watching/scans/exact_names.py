"""Names as directories list them, where a file system finds a file by others as well.

vfat, exFAT, NTFS, APFS, HFS+ and directories of ext4 with the flag `F` find `Foo.py` by the name
`foo.py`; APFS and HFS+ also by other normal forms of its letters. So a file that is found by a path
need not have this path.
"""

import os
import unicodedata
from collections.abc import Mapping

from cocosearchd.runtime.files.nofollow import Identity, opened_directory, status_of


class ExactNames:
    """The listed paths of files below a root, for one batch of paths. All methods block."""

    def __init__(self, root: bytes) -> None:
        self.root = root
        self._directories: dict[bytes, bytes | None] = {b"": b""}
        # directory -> name -> inode; None where a file is found by its name only
        self._listings: dict[bytes, dict[bytes, int] | None] = {}

    def find(self, path: bytes, status: os.stat_result) -> bytes | None:
        """Return the path that is listed for a file that was found by `path`.

        None if none is. A directory that cannot be listed counts as listing what is found in it.
        Raises `OSError` if a directory of the path has gone.
        """
        parent, _, name = path.rpartition(b"/")
        directory = self._find_directory(parent)
        if directory is None:
            return None
        listed_name = self._find_name(directory, name, (status.st_dev, status.st_ino))
        return listed_name and (directory + b"/" + listed_name if directory else listed_name)

    def _find_directory(self, directory: bytes) -> bytes | None:
        if directory not in self._directories:
            status = status_of(os.path.join(self.root, directory))
            self._directories[directory] = self.find(directory, status)
        return self._directories[directory]

    def _find_name(self, directory: bytes, name: bytes, identity: Identity) -> bytes | None:
        if directory not in self._listings:
            spellings = _other_spellings(name)
            if not spellings:
                return name  # which says nothing of other names in the directory
            folds = identity in {self._identity(directory, spelling) for spelling in spellings}
            self._listings[directory] = self._list(directory) if folds else None
        listing = self._listings[directory]
        if listing is None or name in listing:
            return name
        return _equivalent(name, identity[1], listing)

    def _identity(self, directory: bytes, name: bytes) -> Identity | None:
        try:
            status = status_of(os.path.join(self.root, directory, name))
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _list(self, directory: bytes) -> dict[bytes, int] | None:
        try:
            path = os.path.join(self.root, directory)
            with opened_directory(path) as handle, os.scandir(handle) as entries:
                return {os.fsencode(entry.name): entry.inode() for entry in entries}
        except OSError:
            return None


def _other_spellings(name: bytes) -> set[bytes]:
    """Return spellings of a name that a file system may take for the same; empty if it has none."""
    text = os.fsdecode(name)
    spellings = {text.swapcase()}
    if not text.isascii():
        spellings |= {unicodedata.normalize(form, text) for form in ("NFC", "NFD")}
    return {os.fsencode(spelling) for spelling in spellings - {text}}


def _equivalent(name: bytes, inode: int, listing: Mapping[bytes, int]) -> bytes | None:
    """Return the listed name of a file that was found by an unlisted one; None if it is hidden."""
    key = _fold(name)
    folded = (listed_name for listed_name in listing if _fold(listed_name) == key)
    # the short names of vfat
    linked = (listed_name for listed_name, number in listing.items() if number == inode)
    return next(folded, None) or next(linked, None)


def _fold(name: bytes) -> str:
    return unicodedata.normalize("NFC", os.fsdecode(name)).casefold()
