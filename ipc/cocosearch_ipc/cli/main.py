"""Entry point of `cocosearchctl`: run a plain `query` or `grep` without argparse, else run a verb.

The import of argparse takes a third of the start time.
"""

from __future__ import annotations

import gc
import os
import sys
from itertools import pairwise

try:
    from cocosearch_ipc import address, client
    from cocosearch_ipc.cli import exits, plain_commands
    from cocosearch_ipc.render import output
except KeyboardInterrupt:
    # `exits.INTERRUPTED`, which may not be loaded yet. `main` has not begun, so nobody else can
    # keep a Ctrl-C during the start from a traceback.
    raise SystemExit(130) from None

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    from collections.abc import Mapping


def main() -> int:
    """Run the command line of this process; return its exit code."""
    code = _run_reporting_errors(sys.argv[1:])
    # The interpreter collects garbage once more at its end. Frozen objects are left out, which saves
    # a tenth of the CPU time of a plain query or grep.
    gc.freeze()
    return code


def _run_reporting_errors(arguments: list[str]) -> int:
    """Run a command line, print its error if it fails, and return the exit code."""
    try:
        output.replace_closed_streams()
        code = run(arguments, address.environment())
        output.flush()
    except client.CallFailed as failed:
        details = {"code": failed.code} if failed.code else {}
        output.error(failed.message, failed.hint, as_json=_wants_json(arguments), **details)
        if failed.exit_code is not None:
            return failed.exit_code
        return exits.NOT_RUNNING if failed.reason else exits.from_rpc_code(failed.code)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        output.discard_output()
        return exits.OK
    except OSError as error:
        _report(error, as_json=_wants_json(arguments))
        return exits.FAILED
    return code


def _wants_json(arguments: list[str]) -> bool:
    """Tell if errors shall be JSON as well."""
    return (
        "--json" in arguments
        or "--format=json" in arguments
        or ("--format", "json") in pairwise(arguments)
    )


def _report(error: OSError, *, as_json: bool) -> None:
    """Print an error of the disk: full or read-only, a file of another user, no directory."""
    message = f"{error.filename}: " if error.filename else ""
    message += error.strerror or str(error)
    hint = "cocosearchctl doctor"
    if not error.filename and _is_cwd_removed():
        message = "the current directory no longer exists"
        hint = "change to a directory that exists"
    output.error(message, hint, as_json=as_json)


def _is_cwd_removed() -> bool:
    """Return True if the current directory has been removed."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def run(arguments: list[str], env: Mapping[str, str]) -> int:
    """Run one command line. Raises `client.CallFailed`."""
    if plain_query := plain_commands.plain_query(arguments):
        from cocosearch_ipc.cli import query_command

        params, answer_format = plain_query
        query_command.run(params, env, answer_format)
        return exits.OK
    if plain_grep := plain_commands.plain_grep(arguments):
        from cocosearch_ipc.cli import grep_command

        params, as_json = plain_grep
        grep_command.run(params, env, as_json=as_json)
        return exits.OK
    from cocosearch_ipc.cli import parser

    return parser.run(arguments, env)
