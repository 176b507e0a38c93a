"""Waits for conditions that no event announces: states of processes, of files, of other threads."""

import time
from collections.abc import Callable

import anyio

LIMIT_S = 60.0  # a machine ten times slower does not reach it


def wait_until(condition: Callable[[], bool], reason: str = "", limit_s: float = LIMIT_S) -> None:
    """Wait for a condition. After `limit_s`, fail with `reason`."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, reason
        time.sleep(0.02)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition in an event loop, `LIMIT_S` at most."""
    with anyio.fail_after(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - nothing announces it
            await anyio.sleep(0.01)
