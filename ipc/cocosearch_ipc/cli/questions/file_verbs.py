"""Verbs about files of an index: files, cat, related, watch; and which languages are known."""

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits, query
from cocosearch_ipc.cli.questions import query_options, subscription
from cocosearch_ipc.render import answers, output, tables
from cocosearch_ipc.render.line_range import place

Env = Mapping[str, str]


def files(args: argparse.Namespace, env: Env) -> int:
    """Indexed files, page by page until the limit."""
    params = query.with_place({"index": args.index} if args.index else {})
    params |= {
        name: value for name, value in (("under", args.under), ("pattern", args.glob)) if value
    }
    reply = _listed(params | query_options.patience(args), env, args.limit)
    if args.json:
        output.document(reply)
        return exits.OK
    found = reply["files"]
    cursor = reply["cursor"]
    if not reply.get("fresh"):
        output.note(
            f"not fresh: {answers.lacking(reply.get('stale_reason'), reply.get('pending') or ())}"
        )
    if cursor:
        output.note(f"there are more than {args.limit}: --limit N")
    if not found:
        output.note("no such file: globs are relative to the root, directories to it or to here")
    else:
        for file in found:
            output.line(output.printable(str(file["path"]), keep=""))
    return exits.OK


def _listed(params: dict[str, Any], env: Env, limit: int) -> dict[str, Any]:
    """The pages of a list as one reply. Of several clocks the first holds for all, and one that is
    not fresh speaks.
    """
    whole: dict[str, Any] = {}
    found = list[dict[str, object]]()
    cursor = None
    while cursor or not whole:
        page = (
            params
            | {"limit": min(1000, limit - len(found))}
            | ({"cursor": cursor} if cursor else {})
        )
        reply = query.waited(env, "list_files", page)
        found = found + reply["files"]
        cursor = reply["cursor"]
        if not whole:
            whole = reply
        elif whole.get("fresh") and not reply.get("fresh"):
            whole = reply | {"as_of": whole["as_of"]}
        if len(found) >= limit:
            break
    return whole | {"files": found, "cursor": cursor}


def cat(args: argparse.Namespace, env: Env) -> int:
    """A file of an index, or the lines FIRST-LAST of it."""
    path, first, last = place(args.place)
    params = query.with_place({"index": args.index} if args.index else {}) | {"path": path}
    params |= {
        name: line for name, line in (("start_line", first), ("end_line", last)) if line is not None
    }
    reply = client.call(address.rpc_socket(env), "get_file", params)
    if args.json:
        output.document(reply)
        return exits.OK
    if not reply["fresh"]:
        output.note(f"as indexed: {reply['stale_reason'] or 'the file has changed since'}")
    if first and first > reply["total_lines"]:
        output.error(f"{path} ends at line {reply['total_lines']}")
        return exits.FAILED
    if sys.stdout.isatty():
        output.line(output.printable(reply["content"].removesuffix("\n")))
    else:
        output.exactly(reply["content"] + ("" if first is None and reply["fresh"] else "\n"))
    return exits.OK


def related(args: argparse.Namespace, env: Env) -> int:
    """Code in other files like the definition at PATH:LINE."""
    path, line, _ = place(args.place)
    params = query.with_place({"index": args.index} if args.index else {}) | {
        "path": path,
        "line": 1 if line is None else line,
    }
    reply = client.call(
        address.rpc_socket(env),
        "find_related",
        params | ({"limit": args.limit} if args.limit else {}),
    )
    if args.json:
        output.document(reply)
    else:
        for shown in answers.text(reply, output.Style.of(sys.stdout, env), {}):
            output.line(shown)
    return exits.OK


def watch(args: argparse.Namespace, env: Env) -> int:
    """One line (or JSON object) for each batch that became searchable, or new match, until
    interrupted.

    A daemon that goes is waited for.
    """
    given = ("index", "query", "limit", "min_score", "all_chunks")
    params = {name: value for name in given if (value := getattr(args, name)) not in (None, False)}
    if args.since is not None:
        epoch, _, number = args.since.rpartition(":")
        if not number.isdecimal() or len(number) > 15:
            output.error(
                f"{args.since} is no clock",
                "EPOCH:SEQ, as `cocosearchctl sync --json` has it",
                as_json=args.json,
            )
            return exits.USAGE
        params = query.with_place(params | {"since": {"epoch": epoch, "seq": int(number)}})
    if sys.stdout.isatty() and not args.json:
        output.note("what becomes searchable is shown as it does; Ctrl-C ends it")
    for event in subscription.events(address.rpc_socket(env), params, output.note):
        if args.json:
            output.line(json.dumps(event))
        else:
            _print_event(event)
        output.flush()  # a pipe would hold it until the next one
    return exits.OK


def _print_event(event: dict[str, Any]) -> None:
    where = f"{event['index']} {event['as_of']['seq']}"
    if event.get("kind") == "missed":
        output.note(
            f"{where}: the clock is too old, or of another run of the daemon: anything may have changed"
        )
    if event.get("matches"):
        for found in answers.grep({"results": event["matches"]}, {}, ""):
            output.line(f"{where} {found}")
        return
    for sign, paths in (("+", event["changed"]), ("-", event["removed"])):
        for path in paths:
            output.line(f"{where} {sign} {output.printable(path, keep='')}")


def languages(args: argparse.Namespace, env: Env) -> int:
    """Every supported language."""
    reply = client.call(address.rpc_socket(env), "languages")
    if args.json:
        output.document(reply)
        return exits.OK
    rows = [("language", "chunking", "symbols", "extensions")]
    for entry in reply["languages"]:
        names = " ".join((*entry["extensions"], *entry["file_names"]))
        rows.append((entry["name"], entry["chunking"], "yes" if entry["symbols"] else "", names))
    for row in tables.table(rows):
        output.line(row)
    return exits.OK


def models(args: argparse.Namespace, env: Env) -> int:
    """Models that could be used, and the one of each index."""
    reply = client.call(address.rpc_socket(env), "models")
    if args.json:
        output.document(reply)
        return exits.OK
    rows = [("provider", "model", "state", "")]
    rows += [
        (each["provider"], each["model"], each["state"], each["detail"]) for each in reply["models"]
    ]
    for row in tables.table(rows):
        output.line(row)
    uses = [("index", "made by", "dimension", "")]
    for use in reply["indexes"]:
        note = f"until {use['following']} is complete" if use["following"] else ""
        note = note or ("" if use["configured"] else f"cocosearchctl reindex {use['index']}")
        uses.append(
            (use["index"], f"{use['provider']}/{use['model']}", str(use["dimension"]), note)
        )
    for row in tables.table(uses) if reply["indexes"] else ():
        output.line(row)
    return exits.OK
