"""`grep` with any of its options.

`main` runs a plain grep without this module.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from cocosearch_ipc.cli import exits, grep_command
from cocosearch_ipc.cli.questions import grep_options, search_options

Env = Mapping[str, str]


def run(args: argparse.Namespace, env: Env) -> int:
    """Print the lines of indexed files that match a regular expression."""
    grep_command.run(grep_params(args), env, as_json=args.json)
    return exits.OK


def grep_params(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of `grep`: only those that the user set."""
    params = {"pattern": args.pattern} | search_options.parameters(args, grep_options.GREP_OPTIONS)
    return params | ({"under": args.under} if args.under else {})
