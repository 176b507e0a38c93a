"""Ignore files: their names, and their contents. Their authors are not trusted."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from cocosearchd.forms.path_forms import path_text
from cocosearchd.runtime.files.regular_files import (
    is_temporary_error,
    read_start,
    read_start_in_tree,
    resolve_inside,
)

GITIGNORE = b".gitignore"
COCOSEARCHIGNORE = b".cocosearchignore"
IGNORE_FILES = (GITIGNORE, COCOSEARCHIGNORE)
MAX_IGNORE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class IgnoreText:
    """The content of a file of patterns, empty for a missing file.

    `status` is the file's. `warning` says which part of the file is not used, and why.
    """

    content: bytes = b""
    status: os.stat_result | None = None
    warning: str = ""


def read_ignore_file(file: bytes, *, follow_links: bool) -> IgnoreText:
    """Read a file of patterns. Raises `OSError` if it cannot be read now but may be soon.

    As in git, an ignore file in the tree is not read if it is a symbolic link, nor if a directory
    above it is a link, since the tree ends there.
    """
    try:
        if os.path.basename(file) in IGNORE_FILES:
            content, status = read_start_in_tree(file, limit=MAX_IGNORE_BYTES + 1)
        else:
            content, status = read_start(
                file, limit=MAX_IGNORE_BYTES + 1, follow_links=follow_links
            )
    except PermissionError as error:
        # The user's file in a home directory that the daemon may not enter counts as missing.
        closed = not os.access(os.path.dirname(file), os.X_OK, effective_ids=True)
        return IgnoreText() if follow_links and closed else _translate_error(file, error)
    except OSError as error:
        return _translate_error(file, error)
    if len(content) <= MAX_IGNORE_BYTES:
        return IgnoreText(content, status)
    # Half of a pattern may match more than the whole pattern.
    complete_lines = content[:MAX_IGNORE_BYTES].rpartition(b"\n")[0]
    warning = (
        f"{path_text(file)} is larger than {MAX_IGNORE_BYTES // 1024:,} kB: "
        "its patterns behind that are not used"
    )
    return IgnoreText(complete_lines, status, warning)


def read_ignore_file_inside(file: bytes, directories: Iterable[bytes]) -> IgnoreText:
    """Read a file of patterns that a repository names, if it is inside of the directories.

    Raises `OSError`.
    """
    try:
        return read_ignore_file(resolve_inside(file, directories), follow_links=False)
    except OSError as error:
        return _translate_error(file, error)


def _translate_error(file: bytes, error: OSError) -> IgnoreText:
    if is_temporary_error(error):
        raise error
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return IgnoreText()
    return IgnoreText(warning=f"{path_text(file)} is not used: {error.strerror}")
