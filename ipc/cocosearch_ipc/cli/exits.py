"""Exit codes of `cocosearchctl`, and of `cocosearchd` where they apply there.

sysexits(3) is the source of 69, 75 and 78.

| code | meaning |
|---|---|
| 0 | success (also for a query without results) |
| 1 | the daemon returned an error |
| 2 | wrong usage: unknown option, missing directory, a parameter that the daemon refuses |
| 69 | the daemon is not running or not reachable, or its store is missing |
| 75 | a daemon is already running on this state directory |
| 78 | a setting is invalid |
| 130 | interrupted (Ctrl-C) |

`down` returns 0, with a note on standard error, if it had to kill a frozen daemon.
"""

from cocosearch_ipc import error_codes

SUMMARY = (
    "Exit codes: 0 success, 1 the daemon returned an error, 2 wrong usage, 69 the daemon is not "
    "running or not reachable, 75 it is already running, 78 a setting is invalid, 130 interrupted."
)
OK = 0
FAILED = 1
USAGE = 2
NOT_RUNNING = 69
ALREADY_RUNNING = 75
BAD_SETTINGS = 78
INTERRUPTED = 130

_OF_CODE = {
    error_codes.INVALID_PARAMS: USAGE,
    error_codes.METHOD_NOT_FOUND: FAILED,
    error_codes.UNAVAILABLE: NOT_RUNNING,
}


def from_rpc_code(code: int) -> int:
    """Return the exit code for a JSON-RPC error code."""
    return _OF_CODE.get(code, FAILED)
