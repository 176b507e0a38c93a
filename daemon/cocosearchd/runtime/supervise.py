"""Keeps the long-running tasks of the daemon running.

Only this module and the replies of front ends catch every exception. This module logs the exception
and restarts the task.
"""

import logging
from collections.abc import Awaitable, Callable

import anyio

log = logging.getLogger(__name__)

# Pauses double from a second to a minute: a single crash costs a second, a crash loop makes at most
# one start per minute.
FIRST_PAUSE_S = 1.0
LAST_PAUSE_S = 60.0
SETTLED_S = 120.0
MAX_SUMMARY = 200  # characters of an error in a sentence


async def supervise(
    name: str,
    run: Callable[[], Awaitable[object]],
    on_failure: Callable[[str | None], None] | None = None,
) -> None:
    """Call `run` for ever: log a failure, pause, call it again. Only cancellation ends this.

    A task that returns has failed as well. After `SETTLED_S` seconds without a failure the pause
    starts from `FIRST_PAUSE_S` again. `on_failure` gets a sentence at each failure, and None when the
    task runs again.
    """
    pause = FIRST_PAUSE_S
    while True:
        began = anyio.current_time()
        cause = "it ended unasked"
        try:
            await run()
            log.error("task_ended", extra={"task": name})
        except Exception as error:
            log.exception("task_failed", extra={"task": name})
            cause = summary(error)
        if anyio.current_time() - began > SETTLED_S:
            pause = FIRST_PAUSE_S
        if on_failure is not None:
            on_failure(
                f"{name} failed ({cause}) and starts again within {pause:g} s; cocosearchctl logs says more"
            )
        await anyio.sleep(pause)
        if on_failure is not None:
            on_failure(None)
        pause = min(pause * 2, LAST_PAUSE_S)


async def attempt(
    name: str, run: Callable[[], Awaitable[object]], expected: tuple[type[Exception], ...] = ()
) -> Exception | None:
    """Call `run` once; return its error instead of raising it, and log it unless `expected`."""
    try:
        await run()
    except Exception as error:
        if not isinstance(error, expected):
            log.exception("task_failed", extra={"task": name})
        return error
    return None


def summary(error: BaseException) -> str:
    """Return one short printable line about an error: a repository's author may choose its text."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return "".join(letter if letter.isprintable() else " " for letter in text[:MAX_SUMMARY])
