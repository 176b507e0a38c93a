"""`query` with any of its options: filters, explanations, `--open`.

`main` answers a plain query without this module.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from cocosearch_ipc.cli import exits, query
from cocosearch_ipc.cli.questions import search_options
from cocosearch_ipc.cli.questions.question_text import read_question
from cocosearch_ipc.render import answers, output
from cocosearch_ipc.render.explain_view import explanation
from cocosearch_ipc.render.line_range import on_disk

Env = Mapping[str, str]

# Notations for "open PATH at LINE". All other editors accept `+LINE PATH`, like vi, emacs and nano.
GOTO = ("code", "code-insiders", "codium", "cursor", "windsurf", "positron")  # --goto PATH:LINE
COLON = ("subl", "sublime_text", "zed", "zeditor", "hx", "helix")  # PATH:LINE
JETBRAINS = (
    "idea",
    "pycharm",
    "charm",
    "goland",
    "webstorm",
    "phpstorm",
    "rubymine",
    "clion",
    "rustrover",
    "rider",
)
SHORT = ("mate", "kate", "xed")  # -l LINE PATH


def run(args: argparse.Namespace, env: Env) -> int:
    """Search; print the results and, with `--explain` or `--why-not`, the explanation."""
    params = search_params(args)
    if args.open is not None:
        return open_hit(params, env, args.open, as_json=args.json)
    how = "json" if args.json else args.format
    around = "lines_before" in params or "lines_after" in params
    reply = query.run(params, env, how, full=args.full or around)
    if how == "text":
        for line in explanation(reply, output.Style.of(sys.stdout, env)):
            output.line(line)
    return exits.OK


def open_hit(params: dict[str, Any], env: Env, number: int, *, as_json: bool = False) -> int:
    """Open `$VISUAL` or `$EDITOR` at the `number`th result, in place of this process."""
    reply = query.fetch_results(params, env)
    hits = reply["results"]
    if not 1 <= number <= len(hits):
        output.error(f"there is no result {number}", f"the answer has {len(hits)}", as_json=as_json)
        return exits.FAILED
    command = editor_command(hits[number - 1], reply["query"], env)
    output.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606 - the user's own editor
    except OSError as error:
        output.error(f"cannot start {command[0]}: {error.strerror}", "set EDITOR", as_json=as_json)
    return exits.FAILED


def editor_command(hit: Mapping[str, Any], question: str, env: Env) -> list[str]:
    """Return the command that opens a result in the user's editor."""
    path = os.path.join(query.roots(env)[hit["index"]], on_disk(hit["path"]))
    return goto_command(
        env.get("VISUAL") or env.get("EDITOR") or "vi", path, answers.line_to_open(hit, question)
    )


def goto_command(program: str, path: str, line: int) -> list[str]:
    """Return the command that opens `path` at `line`. `program` is a command with its options."""
    try:
        words = shlex.split(program) or ["vi"]
    except ValueError:  # an unclosed quotation
        words = [program]
    name = os.path.basename(words[0]).removesuffix(".sh")
    if name in GOTO:
        return [*words, "--goto", f"{path}:{line}"]
    if name in COLON:
        return [*words, f"{path}:{line}"]
    if name in JETBRAINS:
        return [*words, "--line", str(line), path]
    if name in SHORT:
        return [*words, "-l", str(line), path]
    return [*words, f"+{line}", path]


def search_params(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of `search`: only those that the user set."""
    params = {"query": read_question(args)}
    params |= search_options.parameters(args, search_options.SEARCH_OPTIONS)
    indexes = params.pop("indexes", ())
    if len(indexes) == 1:
        return params | {"index": indexes[0]}
    return params | ({"indexes": indexes} if indexes else {})
