"""A subscription that outlives the daemon it began with: what `watch` prints is to be followed for
days.
"""

from collections.abc import Callable, Iterator
from typing import Any

from cocosearch_ipc import client
from cocosearch_ipc.cli.running import daemon_process

# A watched project may rest for as long as it likes.
QUIET_S = 365 * 86_400.0
GONE = "cocosearchd is gone: waiting until it is there again; Ctrl-C ends this"
# Of no run of any daemon: who says it is told of each index that something may have been missed.
NO_CLOCK = {"epoch": "", "seq": 0}


def events(
    path: str, params: dict[str, Any], say: Callable[[str], object]
) -> Iterator[dict[str, Any]]:
    """What `watch` yields, from one daemon after the other. Raises `client.CallFailed` for whatever
    would stay so.

    Who was cut off, or whose daemon has gone, goes on from the last clock that was seen. That is a
    clock of one index: of each other one, and of all when it is of another run of the daemon, it is
    said that something may be missed.
    """
    running = client.reachable(path)
    gone = False
    while True:
        try:
            for event in client.stream(path, "watch", params, QUIET_S):
                gone = False
                yield event
                params = _from_here(params, event["as_of"])
        except client.CallFailed as failed:
            if not running or not _passes(failed, gone=gone):
                raise
            if not gone:
                say(GONE)
            gone = True
            daemon_process.await_socket(path)
        params = _from_here(params, params.get("since", NO_CLOCK))


def _from_here(params: dict[str, Any], clock: dict[str, Any]) -> dict[str, Any]:
    """Without a directory: a clock given at the start was of the index around it, and others are
    followed as well.
    """
    return {name: value for name, value in params.items() if name != "cwd"} | {"since": clock}


def _passes(failed: client.CallFailed, *, gone: bool) -> bool:
    """Whether a failure ends by itself: the daemon went, or one that has just come does not answer
    yet.
    """
    if failed.reason:
        return failed.reason == client.NOT_RUNNING
    return gone and failed.code in (client.UNAVAILABLE, client.TIMED_OUT)
