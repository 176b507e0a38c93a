"""Files in directories that somebody else has written: no link is followed, no pipe is waited for,
no file is large.

The author of a project is assumed hostile: what looks like `.vscode/mcp.json` may be a link to a
file of the user, a FIFO, or a gigabyte. Every step is taken relative to an open directory, so that
nothing can be swapped in between.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from cocosearch_ipc import client

# what O_NOFOLLOW fails with, on Linux, macOS and the BSDs
LINKED = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
BY_HAND = "add what `--print` shows by hand"


class SafeFolder:
    """An open directory. `path` is what messages call it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    @contextlib.contextmanager
    def opened(cls, top: Path, *below: str) -> Iterator["SafeFolder"]:
        """The directory `below` the directory `top`, made where it is missing. Raises
        `client.CallFailed`, `OSError`.

        `top` may be reached through links, what is below may not.
        """
        descriptor = os.open(top, _DIRECTORY)
        path = top
        try:
            for name in below:
                path = path / name
                descriptor = _entered(path, name, descriptor)
            yield cls(path, descriptor)
        finally:
            os.close(descriptor)

    def read(self, name: str, most: int) -> tuple[bytes, int] | None:
        """The content and the mode of a regular file of at most `most` bytes; None without one.

        Raises `client.CallFailed` for anything else.
        """
        try:
            descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in LINKED:
                raise _refused(self.path / name, "is a symbolic link") from None
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _refused(self.path / name, "is no file")
            data = _content(descriptor, most + 1)
        finally:
            os.close(descriptor)
        if len(data) > most:
            raise _refused(self.path / name, f"is larger than {most >> 20} MiB")
        return data, status.st_mode & 0o777

    def create(self, name: str, data: bytes, mode: int) -> bool:
        """Write a new file; False where the name is taken, be it by a link."""
        try:
            descriptor = os.open(
                name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=self._descriptor
            )
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        return True

    def replace(self, name: str, data: bytes, mode: int) -> None:
        """Put a file in the place of what has the name, in one step: a link there is replaced, not
        followed.
        """
        fresh = f".{name}.{secrets.token_hex(8)}.new"
        self.create(fresh, data, mode)
        try:
            os.replace(fresh, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except OSError:
            os.unlink(fresh, dir_fd=self._descriptor)
            raise


def _entered(path: Path, name: str, parent: int) -> int:
    """The directory `name`, made if it is missing, in place of its open parent, which is closed if
    that succeeds.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    try:
        descriptor = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno in LINKED:
            raise _refused(path, "is a symbolic link, or no directory") from None
        raise
    os.close(parent)
    return descriptor


def _content(descriptor: int, most: int) -> bytes:
    """At most so many bytes: a file may grow while it is read."""
    parts = list[bytes]()
    left = most
    while left and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _refused(path: Path, reason: str) -> client.CallFailed:
    return client.CallFailed(
        f"{path} {reason}: it is left as it is", f"look at it; {BY_HAND}", code=0
    )
