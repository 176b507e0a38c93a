"""Safe access to files in untrusted directories: no links, no pipes, no large files.

The author of a project may be hostile: `.vscode/mcp.json` may be a link to a file of the user, a
FIFO, or a gigabyte. Every step is relative to an open directory: another process cannot exchange a
path between two steps.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from cocosearch_ipc import client

# Errors of O_NOFOLLOW on Linux, macOS and the BSDs.
LINKED = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
BY_HAND = "add the output of `--print` by hand"


class SafeFolder:
    """An open directory. `path` is its name in messages."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    @contextlib.contextmanager
    def opened(cls, top: Path, *below: str) -> Iterator["SafeFolder"]:
        """Open the directory `below` the directory `top`; create missing directories.

        `top` may contain links; the path below it may not. Raises `client.CallFailed`, `OSError`.
        """
        descriptor = os.open(top, _DIRECTORY)
        path = top
        try:
            for name in below:
                path = path / name
                descriptor = _open_or_create(path, name, descriptor)
            yield cls(path, descriptor)
        finally:
            os.close(descriptor)

    def read(self, name: str, max_bytes: int) -> tuple[bytes, int] | None:
        """Return content and mode of a regular file of at most `max_bytes`; None if it is missing.

        Raises `client.CallFailed` for anything else.
        """
        try:
            descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in LINKED:
                raise _refusal_error(self.path / name, "is a symbolic link") from None
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _refusal_error(self.path / name, "is not a regular file")
            data = _content(descriptor, max_bytes + 1)
        finally:
            os.close(descriptor)
        if len(data) > max_bytes:
            raise _refusal_error(self.path / name, f"is larger than {max_bytes >> 20} MiB")
        return data, status.st_mode & 0o777

    def create(self, name: str, data: bytes, mode: int) -> bool:
        """Write a new file; return False if the name exists, even as a link."""
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
        """Replace a file atomically. A link is replaced, not followed."""
        fresh = f".{name}.{secrets.token_hex(8)}.new"
        self.create(fresh, data, mode)
        try:
            os.replace(fresh, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except OSError:
            os.unlink(fresh, dir_fd=self._descriptor)
            raise


def _open_or_create(path: Path, name: str, parent: int) -> int:
    """Open the directory `name`, creating it if necessary, and close its parent."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    try:
        descriptor = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno in LINKED:
            raise _refusal_error(path, "is a symbolic link, or not a directory") from None
        raise
    os.close(parent)
    return descriptor


def _content(descriptor: int, max_bytes: int) -> bytes:
    """Read at most `max_bytes`: the file may grow during the read."""
    parts = list[bytes]()
    remaining = max_bytes
    while remaining and (part := os.read(descriptor, remaining)):
        parts.append(part)
        remaining -= len(part)
    return b"".join(parts)


def _refusal_error(path: Path, reason: str) -> client.CallFailed:
    return client.CallFailed(
        f"{path} {reason}: it is not changed", f"inspect it; {BY_HAND}", code=0
    )
