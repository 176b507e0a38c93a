"""A subscription that survives a restart of the daemon, for a `watch` that runs for days."""

from collections.abc import Callable, Iterator
from typing import Any

from cocosearch_ipc import client
from cocosearch_ipc.cli.running import new_daemon

# A watched project may stay unchanged for any time.
QUIET_S = 365 * 86_400.0
GONE = "cocosearchd has stopped: waiting for the next one; Ctrl-C quits"
# A clock of no daemon: a subscription with it gets an event `missed` for every index.
NO_CLOCK = {"epoch": "", "seq": 0}


def events(
    path: str, params: dict[str, Any], say: Callable[[str], object]
) -> Iterator[dict[str, Any]]:
    """Yield the events of `watch` from one daemon after the other.

    After a lost connection, it continues from the last clock it has seen. That is the clock of one
    index: all other indexes send an event `missed`, and all indexes do if the clock belongs to
    another run of the daemon. Raises `client.CallFailed` for permanent errors.
    """
    running = client.reachable(path)
    gone = False
    while True:
        try:
            for event in client.stream(path, "watch", params, QUIET_S):
                gone = False
                yield event
                params = _params_to_resume(params, event["as_of"])
        except client.CallFailed as failed:
            if not running or not _passes(failed, gone=gone):
                raise
            if not gone:
                say(GONE)
            gone = True
            new_daemon.await_socket(path)
        params = _params_to_resume(params, params.get("since", NO_CLOCK))


def _params_to_resume(params: dict[str, Any], clock: dict[str, Any]) -> dict[str, Any]:
    """Drop the directory and set the clock.

    At the start, the clock belongs to the index of that directory; now all indexes are followed.
    """
    return {name: value for name, value in params.items() if name != "cwd"} | {"since": clock}


def _passes(failed: client.CallFailed, *, gone: bool) -> bool:
    """Return True if a failure is temporary: the daemon stopped, or a new one does not answer yet."""
    if failed.reason:
        return failed.reason == client.NOT_RUNNING
    return gone and failed.code in (client.UNAVAILABLE, client.TIMED_OUT)
