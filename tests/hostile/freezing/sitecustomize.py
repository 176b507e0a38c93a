"""On the path of a daemon that a test starts: SIGUSR2 has C code hold the interpreter's lock for minutes.

Files cannot be made to do that at will. The daemon knows nothing of it: Python imports a module of this name by itself.
"""

import ctypes
import signal
from types import FrameType

HELD_S = 300


def hold(number: int, frame: FrameType | None) -> None:
    """Sleep with the lock: functions of a `PyDLL` are called without giving it up."""
    ctypes.PyDLL(None).sleep(HELD_S)


signal.signal(signal.SIGUSR2, hold)
