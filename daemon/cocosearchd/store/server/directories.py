"""Directories of the embedded server: their owners, and their transfer to another account."""

import os
import stat
from pathlib import Path

from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.server.accounts import Account


def ensure_owned(path: Path, uid: int, mode: int, previous_owner: int | None = None) -> None:
    """Make `path` a directory of `uid` with `mode`.

    Before, it may belong to the caller or to `previous_owner`.

    Raises `StoreUnavailable` for a directory of another user, for one that others can write to, and
    for a symbolic link.
    """
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = path.lstat()
    if path.is_symlink() or status.st_uid not in (uid, os.geteuid(), previous_owner):
        raise foreign_owner(path)
    if status.st_mode & 0o022:
        hint = f"check that nothing in it is from others, then `chmod go-w {path}`"
        raise StoreUnavailable(f"others can write to {path}", hint)
    # Only if needed: as a service of systemd, the daemon may not give files away.
    if status.st_uid != uid:
        os.chown(path, uid, -1, follow_symlinks=False)
    path.chmod(mode)


def foreign_owner(path: Path) -> StoreUnavailable:
    """Build the error for a file or directory of another user."""
    return StoreUnavailable(
        f"{path} belongs to somebody else", "remove it, or use another state directory"
    )


def owner(path: Path) -> int | None:
    """Return the owner of a path, which may be a link; None if the path does not exist."""
    try:
        return path.lstat().st_uid
    except FileNotFoundError:
        return None


def transfer_ownership(folder: Path, account: Account) -> None:
    """Give a directory and everything in it to `account`; links are not followed.

    Each directory is closed to its previous owner before it is listed. The caller owns `folder`
    itself until everything in it is done: after a crash this shows that the transfer is unfinished.
    Raises `StoreUnavailable` for a file with a second name: it may be a file of the system.
    """
    _close(folder, Account(os.geteuid(), os.getegid()))
    for parent, directories, files, descriptor in os.fwalk(folder):
        for name in files:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                path = Path(parent, name)
                hint = (
                    f"look where it came from (find / -inum {status.st_ino}), "
                    f"or delete {folder} and index again"
                )
                raise StoreUnavailable(f"{path} has a second name outside of the database", hint)
            os.chown(name, account.uid, account.gid, dir_fd=descriptor, follow_symlinks=False)
        for name in directories:
            _close(Path(name), account, descriptor)
    _close(folder, account)


def _close(folder: Path, account: Account, parent: int | None = None) -> None:
    if stat.S_ISLNK(os.stat(folder, dir_fd=parent, follow_symlinks=False).st_mode):
        os.chown(folder, account.uid, account.gid, dir_fd=parent, follow_symlinks=False)
        return
    descriptor = os.open(
        folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent
    )
    try:
        os.fchown(descriptor, account.uid, account.gid)
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)
