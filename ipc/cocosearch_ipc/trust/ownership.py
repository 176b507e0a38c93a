"""Checks that a directory of the daemon belongs to its user only. Standard library only.

Another user who owns it, or may write to it, could put a socket, a lock or a link there.
"""

import contextlib
import os
import stat
from pathlib import Path

from cocosearch_ipc.error_codes import REFUSED
from cocosearch_ipc.failure import Failure


def private_directory(path: Path) -> None:
    """Create `path` with mode 0700, or check that it is ours and that nobody else can enter it.

    Raises `Failure` (REFUSED) for a symbolic link, another owner, or permissions of group or
    others.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    hint = "remove it, or set COCOSEARCH_RUNTIME_DIR to a directory of yours"
    if not stat.S_ISDIR(status.st_mode):
        raise Failure(f"{path} is not a directory (a symbolic link is refused)", hint, code=REFUSED)
    if status.st_uid != os.geteuid():
        raise Failure(f"{path} belongs to another user", hint, code=REFUSED)
    if status.st_mode & 0o077:
        raise Failure(f"others can enter {path}", f"chmod 700 {path}", code=REFUSED)


def state_directory(path: Path) -> None:
    """Create `path` with mode 0700, or check that it is ours and that nobody else can write to it.

    A symbolic link owned by us or by root is followed. Raises `Failure` (REFUSED), or `OSError` if
    the directory cannot be created.
    """
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    hint = "set COCOSEARCH_STATE_DIR to a directory of yours"
    if path.lstat().st_uid not in (os.geteuid(), 0) or path.stat().st_uid != os.geteuid():
        raise Failure(f"the state directory {path} belongs to another user", hint, code=REFUSED)
    if path.stat().st_mode & 0o022:
        hint = f"check that no file in it belongs to others, then `chmod go-w {path}`"
        raise Failure(f"others can write to the state directory {path}", hint, code=REFUSED)
