"""The watchdog process, started by file path: ends a daemon with a frozen event loop, restarts it.

`python -I -S watchdog_process.py PIPE DAEMON LIMIT_S RESTART MARK COMMAND...`: the module `watchdog`
starts it, in the daemon (process id DAEMON). It reads a byte from PIPE at each tick of the daemon's
event loop. It needs no help from the daemon, which may be stopped, or held up inside of a library that
keeps the interpreter's lock. SIGABRT makes the C handler of `faulthandler` write all stacks into the
log, and SIGKILL ends a process that is left. Then this process becomes the new daemon (execv), with
the same descriptors, directory and environment. It uses only the standard library, because it lives as
long as the daemon and should stay small.
"""

import os
import select
import signal
import sys
import time

TICK = b"."
STOPPING = b"q"
FROZE = "froze"  # see `search.lexical.apply_journal`
RESTART = "restart"  # the argument that makes it start the daemon again
NO_RESTART = signal.SIGUSR1  # `cocosearchctl down` sends it first
STEP_S = 5.0  # between two checks
STACKS_S = 5.0  # for the stacks to be written
KILL_S = 30.0  # for the kernel to end the process
# Pauses before a restart: none before the first restart, then growing pauses for a daemon that
# freezes again and again.
FIRST_PAUSE_S = 5.0
LAST_PAUSE_S = 600.0
SETTLED_S = 3600.0
RESTARTS = "COCOSEARCHD_RESTARTS"  # the number of restarts since a daemon last ran for SETTLED_S
# A terminal sends these to the whole process group: the daemon decides when to stop.
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def wait_for_freeze(pipe: int, daemon: int, limit_s: float) -> str:
    """Wait until the daemon freezes; return "frozen", "stopping" during its stop, "" at its end.

    A step counts as at most two: neither a machine that slept, nor a watchdog that was itself stopped
    (Ctrl-Z), nor a debugger that holds the daemon counts as a freeze.
    """
    poller = select.poll()
    state = "frozen"
    silent_s = 0.0
    poller.register(pipe, select.POLLIN)
    step_s = min(STEP_S, limit_s / 4)
    stepped_at = time.monotonic()
    while silent_s < limit_s:
        if poller.poll(step_s * 1000):
            ticks = os.read(pipe, 4096)
            if not ticks:
                return ""
            state = "stopping" if STOPPING in ticks else state
            silent_s = 0.0
        elif is_traced(daemon):
            silent_s = 0.0
        else:
            silent_s += min(time.monotonic() - stepped_at, 2 * step_s)
        stepped_at = time.monotonic()
    return state


def is_traced(pid: int) -> bool:
    """Return True if a debugger holds the process."""
    try:
        with open(f"/proc/{pid}/status") as lines:  # noqa: PTH123 - pathlib would double what this process takes
            return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in lines)
    except OSError:
        return False


def end_daemon(daemon: int) -> bool:
    """End the daemon after it has written its stacks; return True if it has ended."""
    # SIGCONT: a stopped process has to run on to its end.
    return send_signals(daemon, STACKS_S, signal.SIGABRT, signal.SIGCONT) or send_signals(
        daemon, KILL_S, signal.SIGKILL
    )


def send_signals(daemon: int, within_s: float, *numbers: int) -> bool:
    """Send signals to the parent of this process; return True if it ends within `within_s`.

    The process id of a parent cannot belong to another process.
    """
    for number in numbers:
        if os.getppid() == daemon:
            os.kill(daemon, number)
    limit = time.monotonic() + within_s
    while os.getppid() == daemon and time.monotonic() < limit:
        time.sleep(0.05)
    return os.getppid() != daemon


def leave_mark(file: str, daemon: int) -> None:
    """Record the freeze in a file: the next start then avoids work that may be its cause."""
    try:
        handle = os.open(
            file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        os.write(handle, b"%d\n" % daemon)
        os.close(handle)
    except OSError:
        log_error(f"{file} cannot be written")  # then the freeze counts as a kill


def pause_before_restart(lived_s: float) -> None:
    """Wait before a restart, longer after each freeze. `lived_s` is the daemon's lifetime."""
    count = 0 if lived_s > SETTLED_S else int(os.environ.get(RESTARTS, "0"))
    os.environ[RESTARTS] = str(count + 1)
    if count:
        pause_s = min(FIRST_PAUSE_S * 2 ** min(count - 1, 30), LAST_PAUSE_S)
        log_error(f"cocosearchd is started again in {pause_s:g} s, as it froze {count + 1} times")
        time.sleep(pause_s)


def become_daemon(command: list[str]) -> None:
    """Replace this process by the new daemon. Does not return."""
    for number in (*IGNORED, NO_RESTART):
        signal.signal(number, signal.SIG_DFL)
    os.execv(command[0], command)  # noqa: S606 - no shell is meant


def log_error(text: str) -> None:
    """Write one line to the daemon's log."""
    try:
        os.write(2, f"error: {text}\n".encode())
    except OSError:
        return  # the reader of the log has gone


def main() -> None:
    """Watch the daemon until it ends by itself, or end and restart it."""
    pipe, daemon, limit_s, restart, mark = (
        int(sys.argv[1]),
        int(sys.argv[2]),
        float(sys.argv[3]),
        *sys.argv[4:6],
    )
    actions = {restart}
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(NO_RESTART, lambda *_: actions.discard(RESTART))
    began = time.monotonic()
    state = wait_for_freeze(pipe, daemon, limit_s)
    if state:
        leave_mark(os.path.join(os.path.dirname(mark), FROZE), daemon)  # noqa: PTH118, PTH120 - as above
        ended = end_daemon(daemon)
        outcome = (
            "and was ended; its stacks are above"
            if ended
            else "and does not end, not even by SIGKILL"
        )
        log_error(f"cocosearchd (pid {daemon}) was frozen for {limit_s:g} s {outcome}")
        if ended and state == "frozen" and RESTART in actions:
            pause_before_restart(time.monotonic() - began)
            if RESTART in actions:
                become_daemon(sys.argv[6:])
    try:
        os.unlink(mark)  # noqa: PTH108 - as above
    except OSError:
        return  # the next daemon has its own


if __name__ == "__main__":
    main()
