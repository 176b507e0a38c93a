"""Verbs about the files of an index: files, cat, related, watch; and languages, models."""

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from cocosearch_ipc import address, client, error_codes
from cocosearch_ipc.cli import daemon_calls, exits
from cocosearch_ipc.cli.answer_output import print_answer
from cocosearch_ipc.cli.questions import search_options, subscription
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.render import answers, output, tables
from cocosearch_ipc.render.line_range import parse_location

Env = Mapping[str, str]


def files(args: argparse.Namespace, env: Env) -> int:
    """Print indexed files, page by page up to the limit."""
    params = daemon_calls.with_cwd(daemon_calls.given_parameters(index=args.index))
    params |= {
        name: value for name, value in (("under", args.under), ("pattern", args.glob)) if value
    }
    reply = _fetch_pages(
        params | search_options.parameters(args, search_options.SYNC_OPTIONS), env, args.limit
    )
    if args.json:
        output.document(reply)
        return exits.OK
    entries = reply["files"]
    cursor = reply["cursor"]
    if not reply["fresh"]:
        state = output.describe_staleness(reply["stale_reason"], reply["pending"])
        output.note(f"not fresh: {state}")
    if cursor:
        output.note(f"there are more than {args.limit} files: raise --limit")
    if not entries:
        output.note(
            "no such file: globs are relative to the root, directories to the root or to the "
            "current directory"
        )
    else:
        for file in entries:
            output.line(output.printable(str(file["path"]), keep=""))
    return exits.OK


def _fetch_pages(params: dict[str, Any], env: Env, limit: int) -> dict[str, Any]:
    """Return the pages of a list as one reply.

    The clock is that of the first page. The reply is fresh only if all pages are.
    """
    merged: dict[str, Any] = {}
    entries = list[dict[str, object]]()
    cursor = None
    while cursor or not merged:
        page = (
            params
            | {"limit": min(1000, limit - len(entries))}
            | ({"cursor": cursor} if cursor else {})
        )
        reply = daemon_calls.call_and_wait(env, "list_files", page)
        entries = entries + reply["files"]
        cursor = reply["cursor"]
        if not merged:
            merged = reply
        elif merged["fresh"] and not reply["fresh"]:
            merged = reply | {"as_of": merged["as_of"]}
        if len(entries) >= limit:
            break
    return merged | {"files": entries, "cursor": cursor}


def cat(args: argparse.Namespace, env: Env) -> int:
    """Print a file of an index, or the lines FIRST-LAST of it."""
    reply, first = _read_file(args, env)
    is_behind_end = first is not None and first > reply["total_lines"]
    if args.json:
        output.document(reply)
        return exits.FAILED if is_behind_end else exits.OK
    if not reply["fresh"]:
        output.note(f"indexed content: {output.printable(reply['stale_reason'], keep='')}")
    if is_behind_end:
        path = output.printable(reply["path"], keep="")
        output.error(f"{path} has only {reply['total_lines']} lines")
        return exits.FAILED
    _print_content(reply["content"], is_exact=first is None and reply["fresh"])
    return exits.OK


def _read_file(args: argparse.Namespace, env: Env) -> tuple[dict[str, Any], int | None]:
    """Return the reply of `get_file`, and the first line if the location names lines.

    The name of a file may end as a location does.
    """
    index = daemon_calls.with_cwd(daemon_calls.given_parameters(index=args.index))
    path, first, last = parse_location(args.place)
    socket = address.rpc_socket(env)
    lines = {} if first is None else {"start_line": first, "end_line": last}
    try:
        return client.call(socket, "get_file", index | {"path": path} | lines), first
    except client.CallFailed as failure:
        if first is None or failure.code != error_codes.NOT_FOUND:
            raise
        missing = failure
    try:
        return client.call(socket, "get_file", index | {"path": args.place}), None
    except client.CallFailed:
        raise missing from None


def _print_content(content: str, *, is_exact: bool) -> None:
    """Print a file's content: escaped on a terminal, else unchanged, with a last newline."""
    if sys.stdout.isatty():
        output.line(output.printable(content.removesuffix("\n")))
    else:
        output.write_unchanged(content + ("" if is_exact else "\n"))


def related(args: argparse.Namespace, env: Env) -> int:
    """Print code in other files that is similar to the definition at PATH:LINE."""
    path, line, _ = parse_location(args.place)
    params = daemon_calls.given_parameters(index=args.index, limit=args.limit) | {
        "path": path,
        "line": 1 if line is None else line,
    }
    reply = client.call(address.rpc_socket(env), "find_related", daemon_calls.with_cwd(params))
    return print_answer(args, env, reply, partial(answers.text, roots={}))


def watch(args: argparse.Namespace, env: Env) -> int:
    """Print one line or JSON object per searchable batch, or per new match, until interrupted.

    If the daemon stops, wait for the next one.
    """
    try:
        params = _watch_params(args)
    except Failure as error:
        output.error(error.message, error.hint, as_json=args.json)
        return exits.USAGE
    if sys.stdout.isatty() and not args.json:
        output.note("printing changes as they become searchable; Ctrl-C stops")
    for event in subscription.events(address.rpc_socket(env), params, output.note):
        if args.json:
            output.line(json.dumps(event))
        else:
            _print_event(event)
        output.flush()  # a pipe would buffer the event
    return exits.OK


def _watch_params(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of `watch`. Raises `Failure` for options that do not fit together."""
    names = ("index", "query", "limit", "min_evidence", "all_chunks")
    params = {name: value for name in names if (value := getattr(args, name)) not in (None, False)}
    extra = {"limit", "min_evidence", "all_chunks"} & params.keys()
    if extra and args.query is None:
        option = min(extra).replace("_", "-")
        raise Failure(f"--{option} is for results of a query", "add --query TEXT")
    if args.since is None:
        return params
    epoch, _, number = args.since.rpartition(":")
    if not number.isdecimal() or len(number) > 15:
        raise Failure(
            f"{args.since} is not a clock",
            "write EPOCH:SEQ; `cocosearchctl sync --json` prints both",
        )
    return daemon_calls.with_cwd(params | {"since": {"epoch": epoch, "seq": int(number)}})


def _print_event(event: dict[str, Any]) -> None:
    where = f"{event['index']} {event['as_of']['seq']}"
    if event.get("kind") == "missed":
        output.note(
            f"{where}: the clock is too old, or of another run of the daemon: anything may have "
            "changed"
        )
    if event.get("matches"):
        for match in answers.grep({"results": event["matches"]}, {}, ""):
            output.line(f"{where} {match}")
        return
    for sign, paths in (("+", event["changed"]), ("-", event["removed"])):
        for path in paths:
            output.line(f"{where} {sign} {output.printable(path, keep='')}")


def languages(args: argparse.Namespace, env: Env) -> int:
    """Print every name that `--lang` accepts."""
    reply = client.call(address.rpc_socket(env), "languages")
    if args.json:
        output.document(reply)
        return exits.OK
    rows = [("language", "also", "chunking", "symbols", "files")]
    for entry in reply["languages"]:
        symbols = "yes" if entry["symbols"] else ""
        aliases = " ".join(entry["aliases"])
        rows.append((entry["name"], aliases, entry["chunking"], symbols, _file_types(entry)))
    output.lines(tables.table(rows))
    return exits.OK


def _file_types(entry: dict[str, Any]) -> str:
    if kind_of := entry.get("kind_of"):
        return f"a kind of {', '.join(kind_of)}"
    return " ".join((*entry["extensions"], *entry["file_names"]))


def models(args: argparse.Namespace, env: Env) -> int:
    """Print the available embedding models and the model of each index."""
    reply = client.call(address.rpc_socket(env), "models")
    if args.json:
        output.document(reply)
        return exits.OK
    rows = [("provider", "model", "state", "")]
    rows += [
        (entry["provider"], entry["model"], entry["state"], entry["detail"])
        for entry in reply["models"]
    ]
    output.lines(tables.table(rows))
    uses = [("index", "built with", "dimension", "")]
    for use in reply["indexes"]:
        note = f"until {use['following']} is complete" if use["following"] else ""
        note = note or (
            "" if use["configured"] else f"cocosearchctl reindex {shlex.quote(use['index'])}"
        )
        uses.append(
            (use["index"], f"{use['provider']}/{use['model']}", str(use["dimension"]), note)
        )
    output.lines(tables.table(uses) if reply["indexes"] else ())
    return exits.OK
