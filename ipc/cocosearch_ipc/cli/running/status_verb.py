"""The verb `status`: the daemon and its indexes, as text, as JSON, or as a page in a browser."""

import argparse
import sys
from collections.abc import Mapping

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits
from cocosearch_ipc.render import output, tables

Env = Mapping[str, str]


def status(args: argparse.Namespace, env: Env) -> int:
    """Print the status of the daemon and its indexes."""
    reply = client.call(address.rpc_socket(env), "status")
    if args.open:
        from cocosearch_ipc.cli.running import status_page

        return status_page.open_page(reply, env, as_json=args.json)
    if args.json:
        output.document(reply)
        return exits.OK
    output.lines(tables.status(reply, output.Style.of(sys.stdout, env)))
    if reply["version"] != client.VERSION:
        output.note(f"hint: {client.upgrade(reply['version'])}")
    return exits.OK
