"""The state directory: whose it is, and that one daemon uses it at a time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cocosearch_ipc.http import sockets
from cocosearch_ipc.trust import ownership
from cocosearchd.errors import Conflict


@contextmanager
def lock_state_dir(state: Path, socket: Path) -> Iterator[None]:
    """Make the state directory, and hold its lock; that says whose it is, and at which socket that
    is asked.

    Its files are the daemon's alone. Raises `Conflict` when another daemon holds it, `Failure`
    (REFUSED) when the directory belongs to another user or others can write to it.
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
    """As root it must let others through, because PostgreSQL gives up root's rights and has its
    data below it.
    """
    os.umask(0o077)
    ownership.state_directory(state)
    if os.geteuid() == 0:
        state.chmod(0o711)
