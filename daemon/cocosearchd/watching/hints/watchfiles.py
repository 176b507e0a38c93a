"""A backend for macOS, or by choice: notify's recursive watch through `watchfiles`.

It hides lost events and misses changes in directories it does not watch yet, so it is not `exact`:
hints come quickly, but a sync is a scan. A hint for a directory, or for a name that is gone, covers
all below it.
"""

import os
import stat
import threading
import time
from pathlib import Path

import watchfiles

from cocosearchd.watching.hints.base import (
    Cookie,
    DirtyHint,
    DirtyTreeHint,
    Hint,
    HintsLost,
    HintsUnavailable,
    Sink,
)

STEP_SHARE = 10  # events are reported at once after 1/10 of the debounce time without a further one
START_S = 10.0  # then the backend counts as broken
PROBE_S = 0.05
PROBE = b"probe"
_FAILURES = (OSError, RuntimeError)  # WatchfilesRustInternalError is a RuntimeError


class WatchfilesHints:
    """The `Hints` of `watchfiles`. `sync_dir` must exist and lie outside of the root."""

    name = "watchfiles"
    exact = False
    trouble: str | None = None

    def __init__(self, root: bytes, sync_dir: bytes, debounce_ms: int) -> None:
        self._root = root
        self._sync_dir = sync_dir
        self._debounce_ms = debounce_ms
        self._stop = threading.Event()
        self._started = threading.Event()
        self._failure: str | None = None
        self._thread: threading.Thread | None = None

    def start(self, sink: Sink) -> None:
        """Wait until the first event has arrived. Raises `HintsUnavailable`."""
        self._thread = threading.Thread(
            target=self._run, args=(sink,), name="watchfiles", daemon=True
        )
        self._thread.start()
        probe = Path(os.fsdecode(os.path.join(self._sync_dir, PROBE)))
        end = time.monotonic() + START_S
        while not self._started.wait(PROBE_S):
            if self._failure is not None or time.monotonic() > end:
                self.close()
                raise HintsUnavailable(
                    f"watchfiles does not work here: {self._failure or 'no events arrive'}"
                )
            try:
                probe.write_bytes(b"")
                probe.unlink()
            except OSError as error:
                self.close()
                raise HintsUnavailable(
                    f"no file can be made in the directory for syncs: {error.strerror}"
                ) from error

    def watch(self, directory: bytes) -> None:
        """Do nothing: the watch is recursive already."""

    def unwatched(self) -> tuple[bytes, ...]:
        """Return no directories: none is certainly unwatched, but see `exact`."""
        return ()

    def batches_sent(self) -> int | None:
        """Return None: only a cookie tells."""
        return None

    def close(self) -> None:
        """End the thread, within about the debounce time."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self, sink: Sink) -> None:
        try:
            for changes in watchfiles.watch(
                os.fsdecode(self._root),
                os.fsdecode(self._sync_dir),
                watch_filter=None,
                debounce=self._debounce_ms,
                step=max(1, self._debounce_ms // STEP_SHARE),
                stop_event=self._stop,
                rust_timeout=1000,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                hints = dict.fromkeys(self._hint(os.fsencode(path)) for _, path in changes)
                self._report(hints, sink)
        except _FAILURES as error:
            self._failure = str(error)
            if self._started.is_set():
                sink((HintsLost(f"watchfiles failed: {error}"),))

    def _report(self, hints: dict[Hint, None], sink: Sink) -> None:
        if Cookie(PROBE) in hints:
            self._started.set()
            del hints[Cookie(PROBE)]
        if hints:
            sink(tuple(hints))

    def _hint(self, path: bytes) -> Hint:
        if path.startswith(self._sync_dir + b"/"):
            return Cookie(os.path.basename(path))
        relative = path[len(self._root) + 1 :]
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return DirtyTreeHint(relative)
        return DirtyTreeHint(relative) if stat.S_ISDIR(mode) else DirtyHint(relative)
