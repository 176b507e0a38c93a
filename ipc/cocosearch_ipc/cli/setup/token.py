"""`token`: prints or replaces the bearer token of the TCP listener."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.setup import listener
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.render import output
from cocosearch_ipc.trust.credentials import TokenFile
from cocosearch_ipc.trust.port_holder import find_holder

Env = Mapping[str, str]
STATUS_S = 5.0


def run(args: argparse.Namespace, env: Env) -> int:
    """Print the token, or replace it.

    The token is not printed while another program holds the port to which clients would send it.
    """
    file = TokenFile(Path(address.token_file(env)))
    failure_of_port = _trouble(env)
    if failure_of_port is not None and not args.rotate:
        hint = f"{failure_of_port.hint}; {file.path} holds the token"
        output.error(f"{failure_of_port.message}: the token is not shown", hint, as_json=args.json)
        return exits.FAILED
    try:
        token = file.rotate() if args.rotate else file.ensure()
    except Failure as failure:
        output.error(failure.message, failure.hint, as_json=args.json)
        return exits.FAILED
    if failure_of_port is not None:
        output.note(f"warning: {failure_of_port.message}; do not send the new token there")
    if args.json:
        output.document({"token": token, "file": str(file.path)})
    else:
        output.line(token)
    return exits.OK


def _trouble(env: Env) -> client.CallFailed | None:
    """Return the reason not to send the token to the current port, or None.

    Without a daemon, print a note about a program that holds the port, and return None.
    """
    try:
        status = client.call(address.rpc_socket(env), "status", timeout_s=STATUS_S)
    except client.CallFailed:
        _note_holder(env)
        return None
    try:
        listener.require_token_address(env, status)
    except client.CallFailed as failed:
        return failed
    return None


def _note_holder(env: Env) -> None:
    """Warn about a program that holds the port while no daemon runs: it would receive the token."""
    port = env.get("COCOSEARCH_SERVER_PORT", str(listener.DEFAULT_PORT))
    holder = find_holder("127.0.0.1", int(port)) if port.isdecimal() else None
    if holder is not None:
        output.note(
            f"warning: no daemon of this state runs, and {holder} holds port {port}: "
            "do not send it a token"
        )
