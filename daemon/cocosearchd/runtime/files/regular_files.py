"""Reads untrusted files: only regular files, up to a limit, and without waiting.

The author of a repository chooses what a path names: a FIFO without a writer, a device that never
ends or that acts when it is opened, or a link to one of these. The status of a path is therefore
checked before the path is opened, and the status of the open file again.
"""

import errno
import os
import stat
from collections.abc import Iterable

from cocosearchd.runtime.files.nofollow import open_absolute, status_of, without_links

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# Temporary errors: the file may be readable soon. After any other error it counts as missing.
_PASSING = frozenset(
    [
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.EINTR,
        errno.EIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
    ]
)
_ANY_SIZE = 1 << 62
Path = bytes | str | os.PathLike[str]


class IrregularFile(OSError):
    """A path that names no regular file, or a file that may not be read here.

    `strerror` is the reason, for messages.
    """

    def __init__(self, reason: str, path: Path) -> None:
        super().__init__(errno.EINVAL, reason, os.fspath(path))


def open_in_tree(path: bytes, *, limit: int = _ANY_SIZE) -> int:
    """Open a regular file of at most `limit` bytes by an absolute path without links.

    Raises as `open_regular` does.
    """
    try:
        _check(status_of(path), path, limit)
        handle = open_absolute(path, _FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            is_link = os.path.islink(path)  # noqa: PTH114
            reason = "it is a symbolic link" if is_link else "it is behind a symbolic link"
            raise IrregularFile(reason, path) from None
        raise
    return _check_or_close(handle, path, limit)


def open_regular(path: Path, *, limit: int, follow_links: bool = False) -> int:
    """Open a regular file of at most `limit` bytes; the caller closes the descriptor.

    `follow_links` concerns only the last part of the path. Raises `IrregularFile`, and `OSError` of
    the system.
    """
    _check(_status(path, follow_links=follow_links), path, limit)
    return _check_or_close(
        os.open(path, _FLAGS if follow_links else _FLAGS | os.O_NOFOLLOW), path, limit
    )


def read_regular(path: Path, *, limit: int, follow_links: bool = False) -> bytes:
    """Read a regular file of at most `limit` bytes. Raises as `open_regular` does."""
    return _read_all(open_regular(path, limit=limit, follow_links=follow_links), path, limit)


def read_in_tree(path: bytes, *, limit: int) -> bytes:
    """Read a file that is opened by `open_in_tree`, of at most `limit` bytes."""
    return _read_all(open_in_tree(path, limit=limit), path, limit)


def read_start(path: Path, *, limit: int, follow_links: bool) -> tuple[bytes, os.stat_result]:
    """Read at most `limit` bytes from the start of a regular file; return its status too."""
    return _start(open_regular(path, limit=_ANY_SIZE, follow_links=follow_links), limit)


def read_start_in_tree(path: bytes, *, limit: int) -> tuple[bytes, os.stat_result]:
    """Read the start of a file that is opened by `open_in_tree`, like `read_start`."""
    return _start(open_in_tree(path), limit)


def resolve_inside(path: bytes, directories: Iterable[bytes]) -> bytes:
    """Resolve all links of a path that must lead into one of the directories.

    Raises `IrregularFile` if it leads elsewhere, or if the path is invalid.
    """
    if b"\0" in path:
        raise IrregularFile("its path has a NUL", path)
    try:
        real = without_links(path)
    except OSError as error:
        raise IrregularFile(str(error.strerror), path) from None
    tops = (os.path.realpath(directory).rstrip(b"/") for directory in directories)
    if not any(real.startswith(top + b"/") for top in tops):
        raise IrregularFile(
            "it is outside of the repository: name it in your own git configuration instead", path
        )
    return real


def is_temporary_error(error: OSError) -> bool:
    """Return True for a temporary error, after which a file may be readable soon."""
    return error.errno in _PASSING


def _read_all(handle: int, path: Path, limit: int) -> bytes:
    with os.fdopen(handle, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:  # the file has grown since it was opened
        raise IrregularFile(_too_large(limit), path)
    return content


def _start(handle: int, limit: int) -> tuple[bytes, os.stat_result]:
    with os.fdopen(handle, "rb") as file:
        return file.read(limit), os.fstat(handle)


def _check_or_close(handle: int, path: Path, limit: int) -> int:
    """Check the open file; close the descriptor on an error."""
    try:
        _check(os.fstat(handle), path, limit)
    except IrregularFile:
        os.close(handle)
        raise
    return handle


def _status(path: Path, *, follow_links: bool) -> os.stat_result:
    try:
        return os.stat(path, follow_symlinks=follow_links)  # noqa: PTH116 - paths may be bytes
    except ValueError:  # Python raises this for a NUL, before any system call
        raise IrregularFile("its path has a NUL", path) from None


def _check(status: os.stat_result, path: Path, limit: int) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise IrregularFile("it is a symbolic link", path)
    if not stat.S_ISREG(status.st_mode):
        raise IrregularFile("it is not a file", path)
    if status.st_size > limit:
        raise IrregularFile(_too_large(limit), path)


def _too_large(limit: int) -> str:
    return f"it is larger than {limit // 1024:,} kB"
