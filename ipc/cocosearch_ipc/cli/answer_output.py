"""Prints the answer of a verb, as text or as JSON."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cocosearch_ipc.cli import exits
from cocosearch_ipc.render import output

Env = Mapping[str, str]
Render = Callable[[dict[str, Any], output.Style], Iterable[str]]


def print_answer(args: argparse.Namespace, env: Env, reply: dict[str, Any], render: Render) -> int:
    """Print `reply` as `--json` or as the lines of `render`; return the exit code."""
    if args.json:
        output.document(reply)
    else:
        output.lines(render(reply, output.Style.of(sys.stdout, env)))
    return exits.OK
