"""Keeps the long tasks of the daemon running.

The one place, beside the front ends' replies, that catches everything: it logs and starts again.
"""

import logging
from collections.abc import Awaitable, Callable

import anyio

log = logging.getLogger(__name__)

# Doubling from a second: a crash loop costs less than one start a minute, a single crash costs a second.
FIRST_PAUSE_S, LAST_PAUSE_S, SETTLED_S = 1.0, 60.0, 120.0


async def supervise(name: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run `run` for ever: log its failure, pause, run it again. Only cancellation ends this.

    A task that returns unasked has failed as well. After `SETTLED_S` seconds without a failure the pause starts
    from `FIRST_PAUSE_S` again.
    """
    pause = FIRST_PAUSE_S
    while True:
        began = anyio.current_time()
        try:
            await run()
            log.error("task_ended", extra={"task": name})
        except Exception:
            log.exception("task_failed", extra={"task": name})
        if anyio.current_time() - began > SETTLED_S:
            pause = FIRST_PAUSE_S
        await anyio.sleep(pause)
        pause = min(pause * 2, LAST_PAUSE_S)
