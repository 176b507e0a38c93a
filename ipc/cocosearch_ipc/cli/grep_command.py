"""Runs `grep` and prints its matches: grouped by file on a terminal, one per line on a pipe.

This module is on the hot path, so it imports almost nothing.
"""

from __future__ import annotations

import os
import sys

from cocosearch_ipc.cli import daemon_calls
from cocosearch_ipc.render import grep_lines, output

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Lines of one call: workspace_protocol.GREP_MAX_LIMIT. Importing that module would slow each start.
MAX_PAGE = 1000
DEFAULT_LIMIT = MAX_PAGE  # lines, or files: one page
FRESHNESS = ("fresh", "stale_code", "stale_reason", "as_of", "pending")  # fields of a reply


def run(params: dict[str, Any], env: Mapping[str, str], *, as_json: bool) -> None:
    """Search for the parameters of `grep` and print the matches."""
    mode = params.get("mode", "lines")
    reply = _all_pages(_with_directory(params) | {"mode": mode}, env, mode)
    if as_json:
        output.document(reply)
    elif sys.stdout.isatty():
        output.lines(grep_lines.grouped(reply, output.Style.of(sys.stdout, env), mode))
    else:
        output.lines(grep_lines.plain(reply, mode, _roots(reply, env), os.getcwd()))
        for warning in grep_lines.warnings(reply):
            output.note(warning)


def _roots(reply: dict[str, Any], env: Mapping[str, str]) -> dict[str, str]:
    """Return the root directory of each index of a reply with files."""
    if not reply["files"]:
        return {}
    # an older daemon sends none
    roots: dict[str, str] = reply.get("roots") or daemon_calls.roots(env)
    return roots


def _with_directory(params: dict[str, Any]) -> dict[str, Any]:
    """Add the current directory where the index, or a path below it, may depend on it."""
    if "under" in params:
        params = daemon_calls.with_cwd({}) | params
    return daemon_calls.with_cwd(params)


def _all_pages(params: dict[str, Any], env: Mapping[str, str], mode: str) -> dict[str, Any]:
    """Return the pages of an answer as one reply, with the counts of the first page."""
    limit = params.get("limit", DEFAULT_LIMIT)
    merged = daemon_calls.call_and_wait(env, "grep", params | {"limit": min(MAX_PAGE, limit)})
    remaining = limit - _size(merged, mode)
    while merged["cursor"] and remaining > 0 and "budget_tokens" not in params:
        page = daemon_calls.call_and_wait(
            env,
            "grep",
            params | {"limit": min(MAX_PAGE, remaining), "cursor": merged["cursor"]},
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
