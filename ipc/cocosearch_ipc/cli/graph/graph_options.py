"""The tables of options of the verbs about the code graph, in the form of those of `query`."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from cocosearch_ipc.cli import argument_types, daemon_calls
from cocosearch_ipc.cli.questions import search_options
from cocosearch_ipc.cli.questions.search_options import (
    FILE_FILTER_OPTIONS,
    SYNC_OPTIONS,
    SearchOption,
)
from cocosearch_ipc.graph_vocabulary import CONFIDENCES, REFERENCE_KINDS

INDEX_OPTION = SearchOption(
    ("--index",),
    ("index",),
    "the index; default: that of the current directory",
    metavar="NAME",
    type=argument_types.index,
    names="indexes",
)
CONFIDENCE_OPTION = SearchOption(
    ("--min-confidence",),
    ("min_confidence",),
    f"leave out what is less sure: {', '.join(CONFIDENCES)}; default: {CONFIDENCES[-1]}",
    metavar="CONFIDENCE",
    suggestions=CONFIDENCES,
)
LIMIT_OPTION = SearchOption(
    ("--limit",),
    ("limit",),
    "maximum number of entries, up to 1000; default: 100",
    metavar="N",
    type=argument_types.count,
)
BUDGET_OPTION = SearchOption(
    ("--budget",),
    ("budget_tokens",),
    "approximate size of the answer",
    metavar="TOKENS",
    type=argument_types.count,
)
CURSOR_OPTION = SearchOption(
    ("--cursor",), ("cursor",), "continue after an earlier page", metavar="CURSOR"
)
# The options of all verbs about the graph, by heading.
COMMON_OPTIONS: Mapping[str, tuple[SearchOption, ...]] = {
    "where": (
        INDEX_OPTION,
        *FILE_FILTER_OPTIONS,
        *SYNC_OPTIONS,
    ),
    "output": (CONFIDENCE_OPTION, LIMIT_OPTION, BUDGET_OPTION, CURSOR_OPTION),
}
KIND_OPTION = SearchOption(
    ("--kind",),
    ("kinds",),
    f"only these kinds of uses: {', '.join(REFERENCE_KINDS)}; repeatable",
    metavar="KIND",
    is_list=True,
    convert=search_options.split_values,
    suggestions=REFERENCE_KINDS,
)
COUNT_OPTION = SearchOption(
    ("--count-all",),
    ("count_all",),
    "count the uses in all files; default: those up to the end of the page, and some more",
    const=True,
)
DEPTH_OPTION = SearchOption(
    ("--depth",),
    ("depth",),
    "how far to follow the calls; default: 1",
    metavar="N",
    type=argument_types.count,
)
REFERENCE_OPTIONS = (KIND_OPTION, COUNT_OPTION)
TARGET_HELP = (
    "a name (retry, Client.retry), or a location (path:line or path:line:column); paths are "
    "relative to the root or to the current directory"
)


def add_definition(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `definition`."""
    _add(parser, ())


def add_references(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `references`."""
    _add(parser, REFERENCE_OPTIONS)


def add_calls(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `callers` and `callees`."""
    _add(parser, (DEPTH_OPTION,))


def add_scip(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `scip`."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "file", nargs="?", metavar="FILE", help="the SCIP index, such as index.scip"
    )
    source.add_argument("--remove", action="store_true", help="remove all that was imported")
    INDEX_OPTION.add_to(parser)


def read_parameters(
    args: argparse.Namespace, own_options: Iterable[SearchOption] = ()
) -> dict[str, Any]:
    """Return the parameters of a question about the graph: target, common and own options."""
    options = [option for group in COMMON_OPTIONS.values() for option in group]
    params = search_options.parameters(args, (*options, *own_options))
    # a path may be relative to the current directory, also with --index
    return daemon_calls.with_cwd({}) | params | ({"target": args.target} if args.target else {})


def _add(parser: argparse.ArgumentParser, own_options: Iterable[SearchOption]) -> None:
    parser.add_argument("target", metavar="TARGET", help=TARGET_HELP)
    add_options(parser, own_options)


def add_options(parser: argparse.ArgumentParser, own_options: Iterable[SearchOption]) -> None:
    """Add the common options and those of one verb."""
    for option in own_options:
        option.add_to(parser)
    for title, options in COMMON_OPTIONS.items():
        group = parser.add_argument_group(title)
        for option in options:
            option.add_to(group)
