"""The daemon's side of the watchdog: starts the watchdog process, and sends a byte at each tick.

Code inside of the daemon cannot help if a library holds the interpreter's lock, or if a signal has
stopped the process. Under systemd no watchdog process is started: systemd has its own watchdog
(`WatchdogSec=`), which does the same. Under another manager (launchd) the watchdog ends a frozen
daemon, and the manager starts the daemon again.
"""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cocosearchd.runtime import watchdog_process
from cocosearchd.runtime.ticks import LIVENESS_TICK_S, seconds_to_tick
from cocosearchd.runtime.watchdog_process import RESTART, STOPPING, TICK

log = logging.getLogger(__name__)

TICK_S = LIVENESS_TICK_S
# In the state directory, with the process id: `cocosearchctl down` ends a watchdog that is about to
# start a daemon.
MARK = "watchdog.pid"
INIT = 1


@dataclass(frozen=True, slots=True)
class WatchdogPlan:
    """Settings of the watchdog. `restart`: without a manager, it restarts the daemon itself."""

    limit_s: float
    restart: bool
    command: Sequence[str] = tuple(sys.orig_argv)

    @classmethod
    def from_environment(
        cls, env: Mapping[str, str], limit_s: float, parent: int
    ) -> "WatchdogPlan | None":
        """Return the plan of an environment, None if the watchdog is off or systemd watches.

        `parent` is the id of the process that started this one.
        """
        if not limit_s or env.get("WATCHDOG_USEC"):
            return None
        managed = bool(env.get("NOTIFY_SOCKET")) or parent == INIT
        return cls(limit_s, restart=not managed)


@contextmanager
def run_watchdog(plan: WatchdogPlan | None, state: Path) -> Iterator[None]:
    """Run the watchdog and its ticks in the running event loop, until the context is left."""
    if plan is None:
        yield
        return
    watchdog = _Watchdog(plan, state / MARK)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


class _Watchdog:
    """A watchdog process and its ticks. A process that died is replaced."""

    def __init__(self, plan: WatchdogPlan, mark: Path) -> None:
        self._plan = plan
        self._mark = mark
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._spawn()
        self._tick()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._send(STOPPING)
        self._close()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)

    def _tick(self) -> None:
        if self._process is None or self._process.poll() is not None:
            log.warning("watchdog_gone")
            self._close()
            self._spawn()
        self._send(TICK)
        period_s = min(TICK_S, self._plan.limit_s / 4)
        self._timer = asyncio.get_running_loop().call_later(seconds_to_tick(period_s), self._tick)

    def _send(self, byte: bytes) -> None:
        # the watchdog has ended, which the next tick notices, or it was stopped, and the pipe is full
        with suppress(OSError):
            os.write(self._pipe, byte)

    def _spawn(self) -> None:
        try:
            reading, self._pipe = (
                os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if hasattr(os, "pipe2") else os.pipe()
            )
        except OSError as error:  # no descriptor is left: the next tick tries again
            log.warning("no_watchdog", extra={"reason": error.strerror})
            return
        os.set_blocking(self._pipe, False)
        restart = RESTART if self._plan.restart else "end"
        command = [
            sys.executable,
            "-I",
            "-S",
            watchdog_process.__file__,
            str(reading),
            str(os.getpid()),
        ]
        command += [f"{self._plan.limit_s:g}", restart, str(self._mark), *self._plan.command]
        try:
            self._process = subprocess.Popen(command, pass_fds=[reading])
            self._mark.write_text(f"{self._process.pid}\n")
        except OSError as error:  # no memory, too many processes: the next tick tries again
            log.warning("no_watchdog", extra={"reason": error.strerror})
        finally:
            os.close(reading)

    def _close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
