"""Entry point of `cocosearchctl`: answer a plain query without argparse, else run a verb.

The import of argparse takes a third of the start time.
"""

from __future__ import annotations

import os
import sys

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits, query
from cocosearch_ipc.render import output

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Digits. argparse refuses longer numbers: `int` accepts at most 4,300 digits.
LONGEST_NUMBER = 15


def main() -> int:
    """Run the command line of this process; return its exit code."""
    arguments = sys.argv[1:]
    output.replace_closed_streams()
    try:
        code = run(arguments, address.environment())
        output.flush()
    except client.CallFailed as failed:
        details = {"code": failed.code} if failed.code else {}
        output.error(failed.message, failed.hint, as_json="--json" in arguments, **details)
        if failed.exit_code is not None:
            return failed.exit_code
        return exits.NOT_RUNNING if failed.reason else exits.from_rpc_code(failed.code)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        output.discard_output()
        return exits.OK
    # a missing current directory, a full or read-only disk, a file of another user
    except OSError as error:
        if not error.filename and _nowhere():
            output.error(
                "the current directory no longer exists",
                "change to a directory that exists",
                as_json="--json" in arguments,
            )
            return exits.FAILED
        prefix = f"{error.filename}: " if error.filename else ""
        output.error(
            f"{prefix}{error.strerror or error}",
            "cocosearchctl doctor",
            as_json="--json" in arguments,
        )
        return exits.FAILED
    return code


def _nowhere() -> bool:
    """Tell if the current directory has been removed."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def run(arguments: list[str], env: Mapping[str, str]) -> int:
    """Run one command line. Raises `client.CallFailed`."""
    if plain := plain_query(arguments):
        params, how = plain
        query.run(params, env, how)
        return exits.OK
    from cocosearch_ipc.cli import parser

    return parser.run(arguments, env)


def plain_query(arguments: list[str]) -> tuple[dict[str, Any], str] | None:
    """Parse `query WORDS... [--index NAME] [--limit N] [--json]` into parameters and a format.

    Return None for any other command line.
    """
    if len(arguments) < 2 or arguments[0] != "query":
        return None
    words: list[str] = []
    params: dict[str, Any] = {}
    how = "text"
    rest = iter(arguments[1:])
    for argument in rest:
        if argument == "--json":
            how = "json"
        elif argument == "--index":
            params["index"] = next(rest, "")
        elif argument == "--limit":
            limit = next(rest, "")
            if not limit.isdecimal() or len(limit) > LONGEST_NUMBER:
                return None
            params["limit"] = int(limit)
        elif argument.startswith("-"):
            return None
        else:
            words.append(argument)
    if not words or params.get("index") == "" or "," in params.get("index", ""):
        return None
    return {"query": " ".join(words)} | params, how
