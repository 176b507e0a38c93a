"""Verbs about indexes of a running daemon: list, stats, sync, reindex, clear."""

import argparse
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import daemon_calls, exits
from cocosearch_ipc.cli.answer_output import print_answer
from cocosearch_ipc.cli.questions import search_options
from cocosearch_ipc.render import output, tables
from cocosearch_ipc.render.progress import Progress

Env = Mapping[str, str]
LIVE = "live"  # the state of an index that has all files of its directory
REFUSED = "refused"  # the state of an index that another embedder built
SYNC_POLL_S = 0.05
SHORT_S = 0.5  # after this wait a person sees progress
LONG_S = 300.0  # timeout of one call: the daemon cancels calls after twice this time


def describe_freshness(reply: dict[str, Any]) -> str:
    """Describe a reply of `sync` in words."""
    if reply["fresh"]:
        return "fresh"
    return f"not fresh: {output.describe_staleness(reply['reason'], reply['pending'])}"


def follow_progress(
    env: Env, index: str, last: dict[str, Any], progress: Progress
) -> dict[str, Any]:
    """Show the progress of an index until it is searchable; return the last reply about it."""
    try:
        for value in client.stream(address.rpc_socket(env), "follow", {"index": index}, 600.0):
            if isinstance(value, dict):
                last = value
                progress.show(value)
    except KeyboardInterrupt:
        progress.say(
            f"indexing of {index} continues in the background; `cocosearchctl status` shows it"
        )
        raise
    finally:
        progress.close()
    return last


def describe_counts(last: dict[str, Any]) -> str:
    """Describe the files and chunks of an index in words."""
    skipped = f" ({last['skipped']:,} of them skipped)" if last.get("skipped") else ""
    return f"{last['done']:,} files{skipped}, {output.format_number(last['chunks'])} chunks"


def list_indexes(args: argparse.Namespace, env: Env) -> int:
    """Print all indexes."""
    reply = client.call(address.rpc_socket(env), "list_indexes")
    if args.json:
        output.document(reply)
    elif args.names:
        for index in reply["indexes"]:
            output.line(index["name"])
    else:
        output.lines(tables.indexes(reply["indexes"], output.Style.of(sys.stdout, env)))
    return exits.OK


def stats(args: argparse.Namespace, env: Env) -> int:
    """Print the counts of one index."""
    params = daemon_calls.with_cwd(
        daemon_calls.given_parameters(index=args.name)
    ) | daemon_calls.given_parameters(include_failures=args.failures)
    reply = daemon_calls.call_and_wait(
        env, "index_stats", params | search_options.parameters(args, search_options.SYNC_OPTIONS)
    )
    return print_answer(args, env, reply, tables.stats)


def sync(args: argparse.Namespace, env: Env) -> int:
    """Wait until all earlier changes are searchable; exit code 1 if the time is too short."""
    if args.name and args.named and args.name != args.named:
        output.error(
            f"{args.name} and --index {args.named} are two indexes",
            "name one of them",
            as_json=args.json,
        )
        return exits.USAGE
    params = daemon_calls.with_cwd(daemon_calls.given_parameters(index=args.named or args.name))
    reply = _sync_until_fresh(env, params, args.timeout)
    if args.json:
        output.document(reply)
    else:
        _print_freshness(reply)
    return exits.OK if reply["fresh"] else exits.FAILED


def _sync_until_fresh(env: Env, params: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """Return the first fresh reply, or the last one; show progress on a terminal."""
    end = time.monotonic() + timeout_s
    reply = _sync_once(env, params, min(timeout_s, SHORT_S))
    progress = Progress()
    while (
        not reply["fresh"]
        and reply["index"] not in reply.get("refused", ())
        and time.monotonic() < end
    ):
        # The daemon answers at once if waiting is useless: a missing root, files that fail.
        time.sleep(SYNC_POLL_S)
        if progress.live:
            progress.show(
                next(client.stream(address.rpc_socket(env), "follow", {"index": reply["index"]}))
            )
        reply = _sync_once(
            env, params, min(end - time.monotonic(), SHORT_S if progress.live else LONG_S)
        )
    progress.close()
    return reply


def _print_freshness(reply: dict[str, Any]) -> None:
    names = reply["fresh"] and reply.get("indexes")
    refused = reply.get("refused") or {}
    if reply["index"] not in refused:
        output.line(f"{', '.join(names) if names else reply['index']}: {describe_freshness(reply)}")
    for name, reason in refused.items():
        output.line(f"{name}: not fresh: {output.printable(reason, keep='')}")


def _sync_once(env: Env, params: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    timeout_s = max(0.0, timeout_s)
    request = params | {"timeout_ms": int(timeout_s * 1000)}
    reply: dict[str, Any] = client.call(address.rpc_socket(env), "sync", request, timeout_s + 30.0)
    return reply


def reindex(args: argparse.Namespace, env: Env) -> int:
    """Index every file again with the current settings."""
    reply = client.call(
        address.rpc_socket(env),
        "reindex",
        daemon_calls.with_cwd(daemon_calls.given_parameters(index=args.name)),
    )
    progress = Progress()
    last = reply if args.no_wait else follow_progress(env, reply["index"], reply, progress)
    if args.json:
        output.document(last)
    else:
        output.line(f"{last['index']}: {last['state']}, {describe_counts(last)}")
    return exits.OK


def clear(args: argparse.Namespace, env: Env) -> int:
    """Delete an index, or all; on a terminal, ask for confirmation first."""
    if bool(args.name) == args.all:
        output.error("name one index, or give --all", "cocosearchctl list", as_json=args.json)
        return exits.USAGE
    names = _index_names(env) if args.all else [args.name]
    if not args.yes and (code := _confirm_clear(args, names)) != exits.OK:
        return code
    replies = [client.call(address.rpc_socket(env), "clear_index", {"index": n}) for n in names]
    if args.json:
        output.document({"cleared": replies} if args.all else replies[0])
        return exits.OK
    for reply in replies:
        output.line(
            f"{reply['index']} is deleted ({reply['files']:,} files, {reply['chunks']:,} chunks)"
        )
    if not replies:
        output.line("there is no index")
    return exits.OK


def _index_names(env: Env) -> list[str]:
    reply = client.call(address.rpc_socket(env), "list_indexes")
    return [index["name"] for index in reply["indexes"]]


def _confirm_clear(args: argparse.Namespace, names: Sequence[str]) -> int:
    """Ask for confirmation; return the exit code of a refusal, or `exits.OK`."""
    if not sys.stdin.isatty():
        hint = f"cocosearchctl clear {'--all' if args.all else shlex.quote(args.name)} --yes"
        output.error("clear needs a confirmation", hint, as_json=args.json)
        return exits.USAGE
    targets = f"the index {args.name}" if args.name else f"all {len(names)} indexes"
    if args.all:
        targets += f" ({output.printable(', '.join(names), keep='')})"
    output.note(f"Delete {targets}? Your files on disk are not touched. [y/N] ")
    return exits.OK if sys.stdin.readline().strip().lower() in ("y", "yes") else exits.FAILED
