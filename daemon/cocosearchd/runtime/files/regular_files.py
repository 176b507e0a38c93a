"""Careful reading of files that anybody may have written: regular files alone, within a bound,
without waiting.

A repository's author chooses what lies at a path: a FIFO without a writer, a device that never ends
or that acts when it is opened, a link to either. So a path is looked at before it is opened, and
the open file is looked at again.
"""

import errno
import os
import stat
from collections.abc import Iterable

from cocosearchd.runtime.files.nofollow import open_absolute, status_of, without_links

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# A file that cannot be read for one of these may be read soon; for any other error it is as good as
# not there.
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
    """A path that names no regular file, or one that may not be read here. `strerror` says why, for
    people.
    """

    def __init__(self, reason: str, path: Path) -> None:
        super().__init__(errno.EINVAL, reason, os.fspath(path))


def open_in_tree(path: bytes, *, limit: int = _ANY_SIZE) -> int:
    """Return a descriptor of a regular file of at most `limit` bytes; no part of its absolute path
    is a link.

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
    return _checked(handle, path, limit)


def open_regular(path: Path, *, limit: int, follow_links: bool = False) -> int:
    """Return a descriptor of a regular file of at most `limit` bytes; the caller closes it.

    `follow_links` speaks of the last part of the path alone. Raises `IrregularFile`, and `OSError`
    where the system refuses.
    """
    _check(_status(path, follow_links=follow_links), path, limit)
    return _checked(os.open(path, _FLAGS if follow_links else _FLAGS | os.O_NOFOLLOW), path, limit)


def read_regular(path: Path, *, limit: int, follow_links: bool = False) -> bytes:
    """Return the content of a regular file of at most `limit` bytes. Raises as `open_regular`
    does.
    """
    return _whole(open_regular(path, limit=limit, follow_links=follow_links), path, limit)


def read_in_tree(path: bytes, *, limit: int) -> bytes:
    """As `read_regular`, of a file that is opened by `open_in_tree`."""
    return _whole(open_in_tree(path, limit=limit), path, limit)


def read_start(
    path: Path, *, limit: int, follow_links: bool = False
) -> tuple[bytes, os.stat_result]:
    """Return at most `limit` bytes from the start of a regular file of any size, and its status
    before that.
    """
    return _start(open_regular(path, limit=_ANY_SIZE, follow_links=follow_links), limit)


def read_start_in_tree(path: bytes, *, limit: int) -> tuple[bytes, os.stat_result]:
    """As `read_start`, of a file that is opened by `open_in_tree`."""
    return _start(open_in_tree(path), limit)


def resolve_inside(path: bytes, directories: Iterable[bytes]) -> bytes:
    """Return where a path leads to when all links are followed, if that is inside of one of the
    directories.

    Raises `IrregularFile` if it is not, or if the path cannot be one.
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


def passes(error: OSError) -> bool:
    """Whether a file may be read soon that could not be read by this error."""
    return error.errno in _PASSING


def _whole(handle: int, path: Path, limit: int) -> bytes:
    with os.fdopen(handle, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:  # it grew since it was opened
        raise IrregularFile(_too_large(limit), path)
    return content


def _start(handle: int, limit: int) -> tuple[bytes, os.stat_result]:
    with os.fdopen(handle, "rb") as file:
        return file.read(limit), os.fstat(handle)


def _checked(handle: int, path: Path, limit: int) -> int:
    """The descriptor, or an error after it was closed."""
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
