"""On the path of a daemon that a test starts: SIGUSR2 has C code hold the interpreter's lock for
minutes.

Files cannot be made to do that at will. The daemon knows nothing of it: Python imports a module of
this name by itself. With `FREEZE_AT` the same happens when the words of an index take in a file of
that name, as long as `FREEZE_WHILE` exists. With `SPIN_AT` an analysis process spins for ever at a
file of that name, unless it is asked for plain words.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

HELD_S = 300


def hold(number: int = 0, frame: FrameType | None = None) -> None:
    """Sleep with the lock: functions of a `PyDLL` are called without giving it up."""
    ctypes.PyDLL(None).sleep(HELD_S)


def freezing(take_in: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which freezes at the file."""

    def wrapped(*arguments: Any) -> Any:
        lists = [
            part if isinstance(part, list | tuple) else getattr(part, "read", ())
            for part in arguments
        ]
        names = [
            str(getattr(item, "path", "") or getattr(item, "paths", ""))
            for part in lists
            for item in part
        ]
        if Path(os.environ["FREEZE_WHILE"]).exists() and any(
            os.environ["FREEZE_AT"] in name for name in names
        ):
            hold()
        return take_in(*arguments)

    return wrapped


def spinning(analyse: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which spins at the file. What has only plain words has the language "text"."""

    def wrapped(files: Any, *arguments: Any) -> Any:
        while any(file.path == os.environ["SPIN_AT"] and file.language != "text" for file in files):
            pass
        return analyse(files, *arguments)

    return wrapped


signal.signal(signal.SIGUSR2, hold)
if "FREEZE_AT" in os.environ and Path(sys.orig_argv[1]).name == "cocosearchd":
    from cocosearchd.search.lexical import snapshot_changes

    snapshot_changes.apply_change = freezing(snapshot_changes.apply_change)
    snapshot_changes.append_segment = freezing(snapshot_changes.append_segment)
if (
    "SPIN_AT" in os.environ
    and "cocosearchd.search.lexical.analysis.analysis_worker" in sys.orig_argv
):
    from cocosearchd.search.lexical.analysis import documents

    documents.analyse = spinning(documents.analyse)
