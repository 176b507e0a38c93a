"""`grep`: prints the lines of indexed files that match a regular expression."""

import argparse
import os
import sys
from collections.abc import Mapping
from typing import Any

from cocosearch_ipc.cli import exits, query
from cocosearch_ipc.cli.questions import grep_options, search_options
from cocosearch_ipc.render import grep_lines, output

Env = Mapping[str, str]
FRESHNESS = ("fresh", "stale_code", "stale_reason", "as_of", "pending")  # fields of a reply


def run(args: argparse.Namespace, env: Env) -> int:
    """Print matches: grouped by file on a terminal, one per line on a pipe."""
    params = _params(args)
    limit = params.pop("limit", grep_options.DEFAULT_LIMIT)
    mode = params.setdefault("mode", "lines")
    reply = _all_pages(params, env, limit, mode)
    if args.json:
        output.document(reply)
    elif sys.stdout.isatty():
        for line in grep_lines.grouped(reply, output.Style.of(sys.stdout, env), mode):
            output.line(line)
    else:
        for line in grep_lines.plain(reply, mode, query.roots(env), os.getcwd()):
            output.line(line)
        for warning in grep_lines.warnings(reply):
            output.note(warning)
    return exits.OK


def _params(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of `grep` that the user set."""
    params = {"pattern": args.pattern} | search_options.parameters(args, grep_options.GREP_OPTIONS)
    if args.under:
        params |= {"under": args.under} | query.with_cwd({})  # it may be relative to the directory
    return query.with_cwd(params)


def _all_pages(params: dict[str, Any], env: Env, limit: int, mode: str) -> dict[str, Any]:
    """Return the pages of an answer as one reply, with the counts of the first page."""
    merged = query.call_and_wait(env, "grep", params | {"limit": min(grep_options.MAX_PAGE, limit)})
    remaining = limit - _size(merged, mode)
    while merged["cursor"] and remaining > 0 and "budget_tokens" not in params:
        page = query.call_and_wait(
            env,
            "grep",
            params | {"limit": min(grep_options.MAX_PAGE, remaining), "cursor": merged["cursor"]},
        )
        remaining -= _size(page, mode)
        merged = merge_pages(merged, page)
    return merged


def _size(reply: dict[str, Any], mode: str) -> int:
    files = reply["files"]
    return sum(len(file["lines"]) for file in files) if mode == "lines" else len(files)


def merge_pages(merged: dict[str, Any], page: dict[str, Any]) -> dict[str, Any]:
    """Return a reply with the next page added. It is stale if one of both is stale."""
    files = list(merged["files"])
    for file in page["files"]:
        last = files[-1] if files else None
        if last and (last["index"], last["path"]) == (file["index"], file["path"]):
            files[-1] = last | {"lines": last["lines"] + file["lines"]}
        else:
            files.append(file)
    stale = page if merged["fresh"] and not page["fresh"] else merged
    return (
        merged
        | {
            "files": files,
            "cursor": page["cursor"],
            "complete": merged["complete"] and page["complete"],
            "notes": list(dict.fromkeys([*merged["notes"], *page["notes"]])),
        }
        | {name: stale[name] for name in FRESHNESS}
    )
