"""`scip`: import a precise index of the language's own indexer, or remove it."""

import argparse
import os
from collections.abc import Mapping

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import daemon_calls, exits
from cocosearch_ipc.render import output

Env = Mapping[str, str]
TIMEOUT_S = 180.0  # above the daemon's own limit


def scip(args: argparse.Namespace, env: Env) -> int:
    """Import a SCIP index, or remove what was imported; print what counts now."""
    params = daemon_calls.given_parameters(index=args.index)
    params |= {"remove": True} if args.remove else {"path": os.path.abspath(args.file)}
    reply = client.call(address.rpc_socket(env), "scip", daemon_calls.with_cwd(params), TIMEOUT_S)
    if args.json:
        output.document(reply)
    elif args.remove:
        output.line(
            f"{reply['index']}: removed the precise uses of {output.format_quantity(reply['removed'], 'file')}"
        )
    else:
        files = output.format_quantity(reply["files"], "file")
        output.line(
            f"{reply['index']}: {output.format_quantity(reply['uses'], 'use')} in {files} are certain now"
        )
        _note_skipped(reply["skipped"])
    return exits.OK


def _note_skipped(skipped: Mapping[str, int]) -> None:
    """Print the documents that do not count, each reason in a sentence."""
    if changed := skipped.get("changed"):
        files = output.format_quantity(changed, "file")
        output.note(f"left out {files} changed after the SCIP index: make it again, and import it")
    if missing := skipped.get("not_indexed"):
        output.note(f"left out {output.format_quantity(missing, 'document')} not in the index")
