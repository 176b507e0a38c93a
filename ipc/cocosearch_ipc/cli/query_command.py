"""Runs a plain `query` and prints its results for people, editors or programs.

This module is on the hot path, so it imports almost nothing.
"""

from __future__ import annotations

import os
import sys

from cocosearch_ipc import client
from cocosearch_ipc.cli.daemon_calls import fetch_results, roots
from cocosearch_ipc.render import answers, output

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def run(
    params: dict[str, Any],
    env: Mapping[str, str],
    answer_format: str = "text",
    *,
    full: bool = False,
) -> dict[str, Any]:
    """Search and print the results; return the reply.

    `answer_format` is text, compact, json or grep.
    """
    reply = fetch_results(params, env, None if answer_format == "json" else _hint_upgrade)
    if answer_format == "json":
        output.document(reply)
    elif answer_format == "compact":
        output.lines(answers.compact(reply))
    elif answer_format == "grep":
        _print_places(reply, env)
    else:
        style = output.Style.of(sys.stdout, env)
        output.lines(answers.text(reply, style, roots(env) if style.links else {}, full=full))
    return reply


def _print_places(reply: dict[str, Any], env: Mapping[str, str]) -> None:
    """Print places for an editor, and remarks about them to standard error."""
    output.lines(answers.grep(reply, roots(env), os.getcwd()))
    if reply.get("weak"):
        output.note(answers.WEAK_NOTICE)
    for line in answers.remarks(reply):
        output.note(line)


def _hint_upgrade(version: str) -> None:
    output.note(f"hint: {client.upgrade(version)}")
