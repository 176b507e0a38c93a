"""Stamps of the files above roots that shape their rules: ignore files and repositories

No event announces a change of them. Roots that lie side by side have the same ones.
"""

import os

from cocosearchd.watching.git.repository import Signature, repository_at, stamp
from cocosearchd.watching.ignore_files import GITIGNORE


class OutsideStamps:
    """Stamps of files above roots, each read once: for the roots of one question, as it came."""

    def __init__(self) -> None:
        self._by_directory = dict[bytes, Signature]()

    def read(self, root: bytes, default_excludes: bytes) -> Signature:
        """Return the stamps above a root, and of the user's patterns. Blocking: some `stat` calls.

        Raises `OSError` if a repository cannot be read now.
        """
        stamps = [stamp(default_excludes)]
        directory = root
        while (parent := os.path.dirname(directory)) != directory:
            directory = parent
            if directory not in self._by_directory:
                self._by_directory[directory] = _read_stamps(directory)
            stamps += self._by_directory[directory]
        return tuple(stamps)


def _read_stamps(directory: bytes) -> Signature:
    repository = stamp(os.path.join(directory, b".git")) if repository_at(directory) else None
    # Only the inode of a git directory counts: its times change all the time.
    return (
        stamp(os.path.join(directory, GITIGNORE)),
        repository and (repository[0], 0, 0, 0),
    )
