"""`query`: asks, and shows hits for people, editors or programs. On the hot path: imports next to nothing."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits
from cocosearch_ipc.render import answers, out


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
