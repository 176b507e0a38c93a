"""Runs a function as another user of this machine, which only root can."""

import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest

NOBODY = 65534
AS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not AS_ROOT, reason="only root can become another user")


def as_user(uid: int, action: Callable[[], Any]) -> Any:
    """The result of `action`, or its exception as a value, from a forked process of the user and
    the group `uid`.

    Forked, since the interpreter's own files may be closed to that user: what `action` needs is
    imported before.
    """
    receiver, sender = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receiver)
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            try:
                result = action()
            except Exception as error:  # noqa: BLE001 - it is what the test asks for
                result = f"{type(error).__name__}: {error}"
            os.write(sender, pickle.dumps(result))
        finally:
            os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as stream:
        answer = stream.read()
    os.waitpid(pid, 0)
    assert answer, "the forked process died"
    return pickle.loads(answer)
