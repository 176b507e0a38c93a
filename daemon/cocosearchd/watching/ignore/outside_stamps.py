"""Stamps of the files above roots that shape their rules: ignore files and repositories.

No event announces a change of them. Roots that lie side by side share them.
"""

import os
from collections.abc import Callable

from cocosearchd.watching.git.repository import is_plain_repository, repository_at
from cocosearchd.watching.git.stamps import (
    Signature,
    Stamp,
    StampedFile,
    read_signature,
    stamp,
)
from cocosearchd.watching.ignore_files import GITIGNORE


class OutsideStamps:
    """Stamps of files above the roots of one question, each read once since the question came."""

    def __init__(self) -> None:
        # None: only a slow check tells, because there is a link
        self._by_directory = dict[bytes, Signature | None]()
        self._above = dict[bytes, Signature]()  # all stamps of the roots in a directory

    def read(
        self, root: bytes, default_excludes: Callable[[], bytes], *, quick: bool = False
    ) -> Signature | None:
        """Return the stamps above a root, and of the user's patterns. Blocking: some `stat` calls.

        `default_excludes` returns the path of these patterns. With `quick`, None if there is a link:
        its target may hang. Raises `OSError` if a repository cannot be read now.
        """
        parent = os.path.dirname(root)
        stamps = self._above.get(parent)
        if stamps is None:
            above = self._read_above(root, quick=quick)
            if above is None:
                return None
            stamps = self._above[parent] = (stamp(default_excludes()), *above)
        return stamps

    def _read_above(self, root: bytes, *, quick: bool) -> Signature | None:
        stamps = list[Stamp | None]()
        directory = root
        while (parent := os.path.dirname(directory)) != directory:
            directory = parent
            if directory not in self._by_directory:
                self._by_directory[directory] = _read_stamps(directory, quick=True)
            signature = self._by_directory[directory]
            if signature is None and not quick:
                signature = self._by_directory[directory] = _read_stamps(directory, quick=False)
            if signature is None:
                return None
            stamps += signature
        return tuple(stamps)


def _read_stamps(directory: bytes, *, quick: bool) -> Signature | None:
    marker, ignore_file = read_signature(
        StampedFile(os.path.join(directory, name), is_own=True) for name in (b".git", GITIGNORE)
    )
    if marker is not None:
        is_complete = is_plain_repository(directory)
        if is_complete is None:
            if quick:
                return None
            is_complete = repository_at(directory) is not None
        # Only the inode of a git directory counts: its times change all the time.
        marker = (marker[0], 0, 0, 0) if is_complete else None
    return ignore_file, marker
