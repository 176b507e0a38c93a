"""The watchdog process: ends a daemon whose event loop does not turn, and starts it again. Run by
path.

`python -I -S watchdog_process.py PIPE DAEMON LIMIT_S RESTART MARK COMMAND...`: started by
`watchdog` in the daemon, the process DAEMON, and reads a byte from PIPE at each beat of its event
loop. It needs nothing of the daemon, which may be stopped, or held up inside of a library that
keeps the interpreter's lock: SIGABRT has the C handler of `faulthandler` write all stacks into the
log, SIGKILL ends whatever is left. Then this process becomes the new daemon (execv), with the same
descriptors, directory and environment. Standard library only: it is there for as long as the daemon
is.
"""

import os
import select
import signal
import sys
import time

BEAT, STOPPING = b".", b"q"
FROZE = "froze"  # see `search.lexical.apply_journal`
RESTART = "restart"  # the argument by which it starts the daemon again
NO_RESTART = signal.SIGUSR1  # `cocosearchctl down` sends it first
STEP_S = 5.0  # between two looks
STACKS_S, KILL_S = 5.0, 30.0  # for the stacks to be written; for the kernel to end the process
# Before the restart. The first is at once; a daemon that freezes again and again costs less and
# less.
FIRST_PAUSE_S, LAST_PAUSE_S, SETTLED_S = 5.0, 600.0, 3600.0
RESTARTS = "COCOSEARCHD_RESTARTS"  # how often it was started again without having run for SETTLED_S
# of the whole group of a terminal: the daemon decides
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def wait_for_freeze(pipe: int, daemon: int, limit_s: float) -> str:
    """Wait until the daemon freezes: "frozen", or "stopping" if it was to end; "" when it has ended
    before.

    A step counts as two at most: neither a machine that slept nor a watchdog that was stopped
    itself (Ctrl-Z) makes the daemon a frozen one. Nor does a debugger that holds it.
    """
    poller, state, silent_s = select.poll(), "frozen", 0.0
    poller.register(pipe, select.POLLIN)
    step_s = min(STEP_S, limit_s / 4)
    before = time.monotonic()
    while silent_s < limit_s:
        if poller.poll(step_s * 1000):
            beats = os.read(pipe, 4096)
            if not beats:
                return ""
            state = "stopping" if STOPPING in beats else state
            silent_s = 0.0
        elif is_traced(daemon):
            silent_s = 0.0
        else:
            silent_s += min(time.monotonic() - before, 2 * step_s)
        before = time.monotonic()
    return state


def is_traced(pid: int) -> bool:
    """Whether a debugger holds the process."""
    try:
        with open(f"/proc/{pid}/status") as lines:  # noqa: PTH123 - pathlib would double what this process takes
            return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in lines)
    except OSError:
        return False


def end_daemon(daemon: int) -> bool:
    """End the daemon: its stacks first. Whether it is gone."""
    # One that is stopped goes on to its end.
    return send_signals(daemon, STACKS_S, signal.SIGABRT, signal.SIGCONT) or send_signals(
        daemon, KILL_S, signal.SIGKILL
    )


def send_signals(daemon: int, within_s: float, *numbers: int) -> bool:
    """Send signals to the parent of this process; whether it is gone in that time. Its number
    cannot be another's.
    """
    for number in numbers:
        if os.getppid() == daemon:
            os.kill(daemon, number)
    limit = time.monotonic() + within_s
    while os.getppid() == daemon and time.monotonic() < limit:
        time.sleep(0.05)
    return os.getppid() != daemon


def leave_mark(file: str, daemon: int) -> None:
    """Say that the daemon froze: what was under way may be the cause, and the next start is careful
    with it.
    """
    try:
        handle = os.open(
            file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        os.write(handle, b"%d\n" % daemon)
        os.close(handle)
    except OSError:
        log_error(f"{file} cannot be written")  # then it takes two ends until a file is left out


def pause_before_restart(lived_s: float) -> None:
    """Before the restart of a daemon that lived so long. One that freezes again and again waits
    longer and longer.
    """
    count = 0 if lived_s > SETTLED_S else int(os.environ.get(RESTARTS, "0"))
    os.environ[RESTARTS] = str(count + 1)
    if count:
        pause_s = min(FIRST_PAUSE_S * 2 ** min(count - 1, 30), LAST_PAUSE_S)
        log_error(f"cocosearchd is started again in {pause_s:g} s, as it froze {count + 1} times")
        time.sleep(pause_s)


def become_daemon(command: list[str]) -> None:
    """Be the new daemon. Does not return."""
    for number in (*IGNORED, NO_RESTART):
        signal.signal(number, signal.SIG_DFL)
    os.execv(command[0], command)  # noqa: S606 - no shell is meant


def log_error(text: str) -> None:
    """One line into the daemon's log."""
    try:
        os.write(2, f"error: {text}\n".encode())
    except OSError:
        return  # its reader is gone


def main() -> None:
    """The process. It ends when the daemon has ended by itself."""
    pipe, daemon, limit_s, restart, mark = (
        int(sys.argv[1]),
        int(sys.argv[2]),
        float(sys.argv[3]),
        *sys.argv[4:6],
    )
    wanted = {restart}
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(NO_RESTART, lambda *_: wanted.discard(RESTART))
    began = time.monotonic()
    state = wait_for_freeze(pipe, daemon, limit_s)
    if state:
        leave_mark(os.path.join(os.path.dirname(mark), FROZE), daemon)  # noqa: PTH118, PTH120 - as above
        ended = end_daemon(daemon)
        what = (
            "and was ended; its stacks are above"
            if ended
            else "and does not end, not even by SIGKILL"
        )
        log_error(f"cocosearchd (pid {daemon}) did not turn for {limit_s:g} s {what}")
        if ended and state == "frozen" and RESTART in wanted:
            pause_before_restart(time.monotonic() - began)
            if RESTART in wanted:
                become_daemon(sys.argv[6:])
    try:
        os.unlink(mark)  # noqa: PTH108 - as above
    except OSError:
        return  # the next daemon has made its own


if __name__ == "__main__":
    main()
