"""Chooses a hints backend for a root: by settings, by file system, else the best that starts."""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace

from cocosearchd.config.settings import WatchingSettings
from cocosearchd.watching.hints.base import Hints, HintsUnavailable, Sink
from cocosearchd.watching.hints.inotify import InotifyHints
from cocosearchd.watching.hints.inotify_instances import InotifyInstances
from cocosearchd.watching.hints.mounts import EXACT, file_system, inexact_below
from cocosearchd.watching.hints.polling import PollingHints
from cocosearchd.watching.hints.watchfiles import WatchfilesHints

_REPORTING = EXACT | {""}  # "" where there is no table of mounts, as on macOS


def may_improve(root: bytes, settings: WatchingSettings) -> bool:
    """Return whether a root that has no preferred backend may get one by another start. Blocking."""
    kind = settings.backend
    return kind != "polling" and (kind != "auto" or file_system(root) in _REPORTING)


def open_hints(
    root: bytes,
    sync_dir: bytes,
    settings: WatchingSettings,
    sink: Sink,
    instances: InotifyInstances | None = None,
) -> tuple[Hints, str | None]:
    """Return a started backend, and why it is not the preferred one, if it is not. Blocking.

    `sync_dir` is made if it is missing. `instances` is shared by all roots; None: the root has its
    own.
    """
    reasons = list[str]()
    try:
        os.makedirs(sync_dir, mode=0o700, exist_ok=True)
    except OSError as error:
        reasons.append(f"the directory for syncs cannot be made: {error.strerror}")
        settings = replace(settings, backend="polling")
    for make in _candidates(root, sync_dir, settings, instances, reasons):
        hints = make()
        try:
            hints.start(sink)
        except HintsUnavailable as unavailable:
            reasons.append(f"{hints.name}: {unavailable}")
        else:
            return hints, "; ".join(reasons) or None
    raise AssertionError("polling always starts")


def _candidates(
    root: bytes,
    sync_dir: bytes,
    settings: WatchingSettings,
    instances: InotifyInstances | None,
    reasons: list[str],
) -> Iterable[Callable[[], Hints]]:
    kind = settings.backend
    if kind == "auto" and (mounted := file_system(root)) not in _REPORTING:
        reasons.append(f"{mounted} may not report changes made elsewhere")
        kind = "polling"
    if kind in ("auto", "inotify") and sys.platform == "linux":
        yield lambda: InotifyHints(root, sync_dir, instances, unseen=inexact_below(root))
    elif kind == "inotify":
        reasons.append("inotify: exists on Linux only")
    # On Linux watchfiles is built on inotify too: where inotify fails, so does watchfiles, with a
    # poorer message.
    if kind == "watchfiles" or (kind in ("auto", "inotify") and sys.platform != "linux"):
        yield lambda: WatchfilesHints(root, sync_dir, settings.debounce_ms)
    yield PollingHints
