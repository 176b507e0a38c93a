"""Ownership and instance lock of the state directory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cocosearch_ipc.http import sockets
from cocosearch_ipc.trust import ownership
from cocosearchd.errors import Conflict


@contextmanager
def lock_state_dir(state: Path, socket: Path) -> Iterator[None]:
    """Create the state directory and hold its lock, a file with the process id and the socket.

    Only the daemon's user can read its files. Raises `Conflict` if another daemon holds the lock,
    `Failure` (REFUSED) if the directory belongs to another user or others can write to it.
    """
    _prepare(state)
    with (state / "daemon.lock").open("ab") as file:
        if not sockets.lock(file.fileno()):
            raise Conflict(
                f"cocosearchd is already running on {state}", "`cocosearchctl status` shows it"
            )
        file.truncate(0)
        file.write(b"%d %s" % (os.getpid(), os.fsencode(socket)))
        file.flush()
        yield


def _prepare(state: Path) -> None:
    """Create the directory.

    If root owns it, others may pass through: PostgreSQL gives up root's rights and has its data below.
    """
    os.umask(0o077)
    ownership.state_directory(state)
    if os.geteuid() == 0:
        state.chmod(0o711)
