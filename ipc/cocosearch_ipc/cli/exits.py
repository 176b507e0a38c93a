"""Exit codes of `cocosearchctl`, and of `cocosearchd` where it has the same ones. From sysexits(3)
where that has one.

| code | means |
|---|---|
| 0 | done (a query that finds nothing is done as well) |
| 1 | the daemon answered with an error |
| 2 | the command line is wrong: unknown option, no such directory, a parameter the daemon refuses |
| 69 | the daemon is not running or cannot be reached, or its store is not there |
| 75 | a daemon is already running on this state |
| 78 | a setting is wrong |
| 130 | interrupted (Ctrl-C) |

`down` that had to end a frozen daemon by force has done what was asked: 0, with a note on stderr.
"""

SUMMARY = (
    "Exit codes: 0 done, 1 the daemon answered with an error, 2 wrong usage, 69 the daemon is not running or cannot be "
    "reached, 75 it runs already, 78 a setting is wrong, 130 interrupted."
)
OK = 0
FAILED = 1
USAGE = 2
NOT_RUNNING = 69
ALREADY_RUNNING = 75
BAD_SETTINGS = 78
INTERRUPTED = 130

# protocol's codes: INVALID_PARAMS, METHOD_NOT_FOUND, UNAVAILABLE
_OF_CODE = {-32602: USAGE, -32601: FAILED, -32001: NOT_RUNNING}


def of(code: int) -> int:
    """The exit code for an error code of JSON-RPC."""
    return _OF_CODE.get(code, FAILED)
