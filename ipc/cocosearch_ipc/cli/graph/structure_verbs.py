"""The verbs `impact`, `changes`, `dependencies`, `outline` and `map`."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from cocosearch_ipc.cli import daemon_calls, exits
from cocosearch_ipc.cli.answer_output import Env, Render, print_answer
from cocosearch_ipc.cli.graph import graph_options, structure_options
from cocosearch_ipc.cli.questions.search_options import SearchOption
from cocosearch_ipc.render import output
from cocosearch_ipc.render.graph import diagrams, structure_text

DIAGRAMS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "mermaid": diagrams.mermaid,
    "dot": diagrams.dot,
}


def impact(args: argparse.Namespace, env: Env) -> int:
    """Print what a change of a definition or a file affects, and the tests to run."""
    return _run(args, env, "impact", structure_options.IMPACT_OPTIONS, structure_text.impact)


def changes(args: argparse.Namespace, env: Env) -> int:
    """Print the definitions that a change in git touches, and what it affects."""
    params = graph_options.read_parameters(args, structure_options.IMPACT_OPTIONS)
    if args.revisions:
        params |= {"revisions": args.revisions}
    return print_answer(
        args, env, daemon_calls.call_and_wait(env, "changes", params), structure_text.changes
    )


def dependencies(args: argparse.Namespace, env: Env) -> int:
    """Print what files or modules import, as text or as a diagram."""
    params = graph_options.read_parameters(args, structure_options.DEPENDENCY_OPTIONS)
    reply = daemon_calls.call_and_wait(env, "dependencies", params)
    if args.json or args.format == "text":
        return print_answer(args, env, reply, structure_text.dependencies)
    output.lines(DIAGRAMS[args.format](reply))
    for warning in structure_text.warnings(reply):
        output.note(warning)
    return exits.OK


def outline(args: argparse.Namespace, env: Env) -> int:
    """Print the definitions of a file, or of each file of a directory."""
    return _run(args, env, "outline", structure_options.OUTLINE_OPTIONS, structure_text.outline)


def code_map(args: argparse.Namespace, env: Env) -> int:
    """Print the central definitions of an index."""
    return _run(args, env, "map", structure_options.MAP_OPTIONS, structure_text.repository_map)


def _run(
    args: argparse.Namespace,
    env: Env,
    method: str,
    options: Iterable[SearchOption],
    render: Render,
) -> int:
    params = graph_options.read_parameters(args, options)
    return print_answer(args, env, daemon_calls.call_and_wait(env, method, params), render)
