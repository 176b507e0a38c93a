"""The arguments of the verbs about the structure of code: impact, dependencies, outline, map."""

import argparse

from cocosearch_ipc.cli import argument_types
from cocosearch_ipc.cli.graph import graph_options
from cocosearch_ipc.cli.questions.search_options import SearchOption
from cocosearch_ipc.graph_vocabulary import DIRECTIONS

FORMATS = ("text", "mermaid", "dot")
PATH_HELP = "a file or a directory; relative to the root or to the current directory"

IMPACT_OPTIONS = (
    SearchOption(
        ("--depth",),
        ("depth",),
        "number of uses to follow backwards; default: 3",
        metavar="N",
        type=argument_types.count,
    ),
)
DEPENDENCY_OPTIONS = (
    SearchOption(
        ("--direction",),
        ("direction",),
        f"{', '.join(DIRECTIONS)}; default: both",
        metavar="DIRECTION",
        suggestions=DIRECTIONS,
    ),
    SearchOption(
        ("--depth",),
        ("depth",),
        "number of imports to follow from a file; default: 1",
        metavar="N",
        type=argument_types.count,
    ),
    SearchOption(
        ("--level",),
        ("level",),
        "depth of the modules of a directory below it; default: 1",
        metavar="N",
        type=argument_types.count,
    ),
)
OUTLINE_OPTIONS = (
    SearchOption(
        ("--depth",),
        ("depth",),
        "levels of definitions; default: all that fit",
        metavar="N",
        type=argument_types.count,
    ),
)
MAP_OPTIONS = (
    SearchOption(
        ("--query",),
        ("query",),
        "draw the map to the results of a query",
        metavar="TEXT",
    ),
)


def add_impact(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `impact`."""
    parser.add_argument(
        "target",
        metavar="TARGET",
        help=f"{graph_options.TARGET_HELP}; a file stands for all its definitions",
    )
    graph_options.add_options(parser, IMPACT_OPTIONS)


def add_changes(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `changes`."""
    parser.add_argument(
        "revisions",
        nargs="?",
        metavar="REVISIONS",
        help="a commit to compare the files with, or a range such as main...HEAD; default: HEAD",
    )
    parser.add_argument("target", nargs="?", metavar="PATH", help=f"only in {PATH_HELP}")
    graph_options.add_options(parser, IMPACT_OPTIONS)


def add_dependencies(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `dependencies`."""
    _add_place(parser)
    graph_options.add_options(parser, DEPENDENCY_OPTIONS)
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="mermaid and dot print a diagram"
    )


def add_outline(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `outline`."""
    _add_place(parser)
    graph_options.add_options(parser, OUTLINE_OPTIONS)


def add_map(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `map`."""
    _add_place(parser)
    graph_options.add_options(parser, MAP_OPTIONS)


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", nargs="?", metavar="PATH", help=f"{PATH_HELP}; default: the whole index"
    )
