"""`definition`, `references`, `callers` and `callees`: who defines, uses and calls what."""

import argparse
import os
import sys

from cocosearch_ipc.cli import daemon_calls, exits
from cocosearch_ipc.cli.answer_output import Env, Render, print_answer
from cocosearch_ipc.cli.graph import graph_options
from cocosearch_ipc.render import output
from cocosearch_ipc.render.graph import reference_answers


def definition(args: argparse.Namespace, env: Env) -> int:
    """Print the definitions of a name, or of the name at a location."""
    reply = daemon_calls.call_and_wait(env, "definition", graph_options.read_parameters(args))
    return print_answer(args, env, reply, reference_answers.definition)


def references(args: argparse.Namespace, env: Env) -> int:
    """Print all uses: grouped by file on a terminal, one per line on a pipe.

    On a pipe, standard error says if there is none: an empty list is not a failure.
    """
    params = graph_options.read_parameters(args, graph_options.REFERENCE_OPTIONS)
    reply = daemon_calls.call_and_wait(env, "references", params)
    if args.json or sys.stdout.isatty():
        return print_answer(args, env, reply, reference_answers.references)
    output.lines(reference_answers.plain_references(reply, daemon_calls.roots(env), os.getcwd()))
    if not reply["total"]:
        output.note(reference_answers.reference_summary(reply))
    for warning in reference_answers.warnings(reply):
        output.note(warning)
    return exits.OK


def callers(args: argparse.Namespace, env: Env) -> int:
    """Print the tree of callers."""
    return _print_calls(args, env, "callers", reference_answers.callers)


def callees(args: argparse.Namespace, env: Env) -> int:
    """Print the tree of the called definitions."""
    return _print_calls(args, env, "callees", reference_answers.callees)


def _print_calls(args: argparse.Namespace, env: Env, method: str, render: Render) -> int:
    params = graph_options.read_parameters(args, (graph_options.DEPTH_OPTION,))
    return print_answer(args, env, daemon_calls.call_and_wait(env, method, params), render)
