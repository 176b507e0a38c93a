"""`token`: the bearer token of the loopback listener."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from cocosearch_ipc import address
from cocosearch_ipc.cli import exits
from cocosearch_ipc.credentials import TokenFile
from cocosearch_ipc.protocol import Failure
from cocosearch_ipc.render import out

Env = Mapping[str, str]


def run(args: argparse.Namespace, env: Env) -> int:
    """Print the bearer token of the loopback listener, or replace it."""
    file = TokenFile(Path(address.token_file(env)))
    try:
        shown = file.rotate() if args.rotate else file.ensure()
    except Failure as failure:
        out.error(failure.message, failure.hint, as_json=args.json)
        return exits.FAILED
    if args.json:
        out.document({"token": shown, "file": str(file.path)})
    else:
        out.line(shown)
    return exits.OK
