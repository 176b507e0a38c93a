"""The verb `up`: start the daemon if needed, watch a directory, follow until it is searchable."""

import argparse
import os
import shlex
import time
from collections.abc import Mapping
from typing import Any

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import daemon_calls, exits
from cocosearch_ipc.cli.questions import index_verbs
from cocosearch_ipc.cli.running import daemon_process
from cocosearch_ipc.render import output, tables
from cocosearch_ipc.render.progress import Progress

Env = Mapping[str, str]


def up(args: argparse.Namespace, env: Env) -> int:
    """Start the daemon if needed, watch a directory, and follow until it is searchable."""
    path = os.path.realpath(args.path)
    if problem := _path_problem(args.path):
        output.error(problem, "give the project's directory", as_json=args.json)
        return exits.USAGE
    progress = Progress()
    try:
        daemon_process.ensure_running(env, progress.say)
    except KeyboardInterrupt:
        progress.say(f"{args.path} is unchanged: run `cocosearchctl up` again to watch it")
        raise
    daemon_process.warn_of_trouble(client.call(address.rpc_socket(env), "status"), progress.say)
    params = {"path": path} | daemon_calls.given_parameters(name=args.name, topics=args.topic)
    reply = client.call(address.rpc_socket(env), "index_codebase", params)
    last = reply["progress"]
    if not args.no_wait:
        last = index_verbs.follow_progress(env, reply["index"], last, progress)
        if args.wait:
            _await_changes(env, reply["index"], progress)
    if args.json:
        output.document(reply | {"progress": last})
    else:
        _say_up(reply, last, progress)
    return exits.FAILED if last["state"] == index_verbs.REFUSED else exits.OK


def _path_problem(path: str) -> str:
    """Return a sentence if `path` is no directory, else ""."""
    if path and os.path.isdir(os.path.realpath(path)):
        return ""
    if path and os.path.exists(os.path.realpath(path)):
        return f"{path} is not a directory"
    return f"there is no directory {path or repr(path)}"


def _await_changes(env: Env, index: str, progress: Progress) -> None:
    reply = client.call(address.rpc_socket(env), "sync", {"index": index}, 60.0)
    if not reply["fresh"]:
        progress.say(f"{index}: {index_verbs.describe_freshness(reply)}")


def _say_up(reply: dict[str, Any], last: dict[str, Any], progress: Progress) -> None:
    took = tables.duration(time.monotonic() - progress.began)
    counts = index_verbs.describe_counts(last)
    root = output.printable(reply["root"], keep="")
    if reply["created"]:
        happened = f"is watched ({last['state']}, {counts}, after {took})"
    else:
        happened = f"is already watched, nothing changed ({last['state']}, {counts})"
    output.line(f"{reply['index']}: {root} {happened}")
    for note in (*(reply.get("notes") or ()), *(last.get("notes") or ())):
        output.line(f"{reply['index']}: {output.printable(note, keep='')}")
    if last["state"] == index_verbs.REFUSED:
        output.error(str(last["reason"]))
        return
    if last["failed"]:
        output.line(f"{last['failed']} files were not indexed: `cocosearchctl status` says why")
    if last["state"] == index_verbs.LIVE and not last["chunks"]:
        return  # the notes say why nothing is searchable
    example = (
        f'cocosearchctl query "where are errors handled" --index {shlex.quote(reply["index"])}'
    )
    output.line(f"try:  {example}")
