"""`query`: asks, and shows hits for people, editors or programs. On the hot path: imports next to nothing."""

from __future__ import annotations

import os
import sys

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits
from cocosearch_ipc.render import answers, out

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any


def run(params: dict[str, Any], env: Mapping[str, str], how: str = "text", *, full: bool = False) -> int:
    """Ask and print; `how` is text, json or grep."""
    reply = client.call(address.rpc_socket(env), "search", with_place(params))
    if how == "json":
        out.document(reply)
    elif how == "grep":
        for line in answers.grep(reply, _roots(env), os.getcwd()):
            out.line(line)
    else:
        style = out.Style.of(sys.stdout, env)
        for line in answers.text(reply, style, _roots(env) if style.links else {}, full=full):
            out.line(line)
    return exits.OK


def open_hit(params: dict[str, Any], env: Mapping[str, str], number: int) -> int:
    """Open `$VISUAL` or `$EDITOR` at the `number`th hit's first line, in place of this process."""
    reply = client.call(address.rpc_socket(env), "search", with_place(params))
    hits = reply["results"]
    if not 1 <= number <= len(hits):
        out.error(f"there is no hit {number}", f"there are {len(hits)}")
        return exits.FAILED
    hit = hits[number - 1]
    path = os.path.join(_roots(env)[hit["index"]], hit["path"])
    command = editor(env.get("VISUAL") or env.get("EDITOR") or "vi", path, hit["start_line"])
    out.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606 - the user's own editor
    except OSError as error:
        out.error(f"cannot start {command[0]}: {error.strerror}", "set EDITOR")
    return exits.FAILED


def editor(program: str, path: str, line: int) -> list[str]:
    """How `program` is told to go to a line."""
    words = program.split()
    name = os.path.basename(words[0])
    if name in ("code", "codium", "cursor", "windsurf"):
        return [*words, "--goto", f"{path}:{line}"]
    if name in ("subl", "zed", "hx", "helix", "mate"):
        return [*words, f"{path}:{line}"]
    return [*words, f"+{line}", path]  # vi and its kin, emacs, nano, kak


def with_place(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters, and the current directory where they name no index."""
    if any(params.get(name) for name in ("index", "indexes", "topics", "all_indexes")):
        return params
    try:
        return params | {"cwd": os.getcwd()}
    except FileNotFoundError:  # the directory is gone; the daemon takes the only index, or lists them
        return params


def _roots(env: Mapping[str, str]) -> dict[str, str]:
    found = client.call(address.rpc_socket(env), "list_indexes")
    return {index["name"]: index["root"] for index in found["indexes"]}


def run_parsed(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """`query` with any of its options."""
    params = query_params(args)
    if args.open is not None:
        return open_hit(params, env, args.open)
    return run(params, env, "json" if args.json else args.format, full=args.full)


def query_params(args: argparse.Namespace) -> dict[str, Any]:
    """Parameters of `search`: only those that were given."""
    several = ("language", "path", "not_path", "symbol_type", "topic")
    plain: tuple[str, ...] = ("limit", "symbol_name", "min_score", "profile", "reranker", "why_not")
    plain += ("lines_before", "lines_after", "budget_chars")
    found: dict[str, Any] = {"query": " ".join(args.words)}
    found |= {f"{name}s": getattr(args, name) for name in several if getattr(args, name)}
    found |= {name: getattr(args, name) for name in plain if getattr(args, name) is not None}
    found |= {name: True for name in ("all_indexes", "all_chunks", "explain") if getattr(args, name)}
    if args.sync_timeout is not None:
        found["sync_timeout_ms"] = round(args.sync_timeout * 1000)
    if args.lines_around is not None:
        found = {"lines_before": args.lines_around, "lines_after": args.lines_around} | found
    if indexes := [name for given in args.index for name in given.split(",") if name]:
        found |= {"index": indexes[0]} if len(indexes) == 1 else {"indexes": indexes}
    off = (("no_hybrid", "use_hybrid"), ("no_cache", "use_cache"), ("no_smart_context", "smart_context"))
    return found | {name: False for flag, name in off if getattr(args, flag)}
