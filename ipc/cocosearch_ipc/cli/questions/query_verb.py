"""`query` with any of its options: filters, explanations, `--open`.

`main` answers a plain query without this module.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from typing import Any

from cocosearch_ipc.cli import daemon_calls, exits, query_command
from cocosearch_ipc.cli.questions import editor, search_options
from cocosearch_ipc.cli.questions.question_text import read_question
from cocosearch_ipc.render import output
from cocosearch_ipc.render.explain_view import explanation

Env = Mapping[str, str]


def run(args: argparse.Namespace, env: Env) -> int:
    """Search; print the results and, with `--explain` or `--why-not`, the explanation."""
    params = search_params(args)
    if args.open is not None:
        return open_hit(params, env, args.open, as_json=args.json)
    answer_format = "json" if args.json else args.format
    if answer_format in ("grep", "compact") and ("explain" in params or "why_not" in params):
        output.error(
            f"--format {answer_format} prints no explanation", "leave out --format, or use --json"
        )
        return exits.USAGE
    around = "lines_before" in params or "lines_after" in params
    reply = query_command.run(params, env, answer_format, full=args.full or around)
    if answer_format == "text":
        output.lines(explanation(reply, output.Style.of(sys.stdout, env)))
    return exits.OK


def open_hit(params: dict[str, Any], env: Env, number: int, *, as_json: bool) -> int:
    """Open `$VISUAL` or `$EDITOR` at the `number`th result, in place of this process."""
    reply = daemon_calls.fetch_results(params, env)
    hits = reply["results"]
    if not 1 <= number <= len(hits):
        output.error(f"there is no result {number}", f"the answer has {len(hits)}", as_json=as_json)
        return exits.FAILED
    command = editor.editor_command(hits[number - 1], reply["query"], env)
    output.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606 - the user's own editor
    except OSError as error:
        output.error(f"cannot start {command[0]}: {error.strerror}", "set EDITOR", as_json=as_json)
    return exits.FAILED


def search_params(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of `search`: only those that the user set."""
    params = {"query": read_question(args)}
    params |= search_options.parameters(args, search_options.SEARCH_OPTIONS)
    indexes = params.pop("indexes", ())
    if len(indexes) == 1:
        return params | {"index": indexes[0]}
    return params | ({"indexes": indexes} if indexes else {})
