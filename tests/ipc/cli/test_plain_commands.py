"""Plain `query` and `grep` mean the same without argparse; other command lines go to argparse."""

import itertools

import pytest

from cocosearch_ipc.cli import parser
from cocosearch_ipc.cli.plain_commands import GREP_FLAGS, plain_grep, plain_query
from cocosearch_ipc.cli.questions import grep_verb
from cocosearch_ipc.cli.questions.grep_options import GREP_OPTIONS

FLAGS = [*GREP_FLAGS, "--json"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["query", "a", "b"], ({"query": "a b"}, "text")),
        (
            ["query", "--json", "a", "--limit", "3", "--index", "x"],
            ({"query": "a", "limit": 3, "index": "x"}, "json"),
        ),
        (["query"], None),
        (["query", "a", "--limit", "x"], None),
        (["query", "a", "--limit"], None),
        (["query", "a", "--index"], None),
        (["query", "a", "--language", "go"], None),
        (["query", "a", "-i"], None),
        (["query", "--help"], None),
        (["grep", "a"], None),
        (["status"], None),
        ([], None),
    ],
)
def test_the_plain_query_leaves_everything_else_to_argparse(
    line: list[str], expected: object
) -> None:
    assert plain_query(line) == expected


def with_argparse(line: list[str]) -> tuple[dict[str, object], bool]:
    verb_parser = parser.parser("grep")
    args, late = verb_parser.parse_known_args(line)
    assert not late or not args.verb_parser.add_late_values(args, late)
    return grep_verb.grep_params(args), args.json


@pytest.mark.parametrize(
    "flags", [*itertools.permutations(FLAGS, 1), *itertools.permutations(FLAGS, 2)]
)
@pytest.mark.parametrize("words", [["a+"], ["a b", "src/x"], [""], ["a", ""]])
def test_a_plain_grep_means_what_argparse_reads(flags: list[str], words: list[str]) -> None:
    line = ["grep", *words, *flags]
    assert plain_grep(line) == with_argparse(line)
    line = ["grep", flags[0], words[0], "--limit", "7", *flags[1:], "--index", "x", *words[1:]]
    assert plain_grep(line) == with_argparse(line)


def test_all_flags_of_grep_without_a_value_are_plain() -> None:
    short_flags = {
        option.flags[0]: (option.parameters[0], option.const)
        for option in GREP_OPTIONS
        if option.const is not None and not option.flags[0].startswith("--")
    }
    assert short_flags == GREP_FLAGS


@pytest.mark.parametrize(
    "line",
    [
        "grep",
        "grep --help",
        "grep a b c",
        "grep a -C 2",
        "grep a --limit 0",
        "grep a --limit -1",
        "grep a --limit x",
        "grep a --limit",
        "grep a --limit 1 --limit 2",
        "grep a --index",
        "grep a --index x,y",
        "grep a --index x --index y",
        "grep a --all",
        "grep a --fixed-strings",
        "grep a -Fi",
        "grep -- -a",
        "query a",
    ],
)
def test_the_plain_grep_leaves_everything_else_to_argparse(line: str) -> None:
    assert plain_grep(line.split()) is None
