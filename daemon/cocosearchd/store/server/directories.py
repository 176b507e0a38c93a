"""Directories of the embedded server: who owns them, and how they come to another account."""

import os
import stat
from pathlib import Path

from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.server.accounts import Account


def ensure_owned(path: Path, uid: int, mode: int, former: int | None = None) -> None:
    """Make `path` a directory of `uid` with `mode`; it may be the caller's or a `former` owner's
    until then.

    Raises `StoreUnavailable` for one of somebody else, one that others can write, and a symbolic
    link.
    """
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = path.lstat()
    if path.is_symlink() or status.st_uid not in (uid, os.geteuid(), former):
        raise foreign_owner(path)
    if status.st_mode & 0o022:
        hint = f"see that nothing in it is from others, then `chmod go-w {path}`"
        raise StoreUnavailable(f"others can write to {path}", hint)
    # else not even asked: as a service of systemd, the daemon may not give files away
    if status.st_uid != uid:
        os.chown(path, uid, -1, follow_symlinks=False)
    path.chmod(mode)


def foreign_owner(path: Path) -> StoreUnavailable:
    """The error for a file or directory that is not ours."""
    return StoreUnavailable(
        f"{path} belongs to somebody else", "remove it, or use another state directory"
    )


def owner(path: Path) -> int | None:
    """The user that a name belongs to, be it a link; None where it is not there."""
    try:
        return path.lstat().st_uid
    except FileNotFoundError:
        return None


def transfer_ownership(folder: Path, account: Account) -> None:
    """Give a directory and everything in it to `account`; links are not followed.

    Each directory is closed to its former owner before it is listed; `folder` itself is the
    caller's until all else is done, which says so after a crash. Raises `StoreUnavailable` for a
    file with a second name, since that may be a file of the system.
    """
    _close(folder, Account(os.geteuid(), os.getegid()))
    for place, directories, files, descriptor in os.fwalk(folder):
        for name in files:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                path = Path(place, name)
                hint = f"look where it came from (find / -inum {status.st_ino}), or delete {folder} and index again"
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
