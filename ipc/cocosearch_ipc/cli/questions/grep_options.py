"""The table of options of `grep`, in the form of those of `query`."""

from cocosearch_ipc.cli import argument_types
from cocosearch_ipc.cli.grep_command import DEFAULT_LIMIT
from cocosearch_ipc.cli.questions.search_options import (
    FILE_FILTER_OPTIONS,
    SCOPE_OPTIONS,
    SYNC_OPTIONS,
    SearchOption,
)

PATTERN_OPTIONS = (
    SearchOption(
        ("-F", "--fixed-strings"), ("fixed",), "the pattern is a text, no expression", const=True
    ),
    SearchOption(
        ("-i", "--ignore-case"), ("ignore_case",), "upper and lower case match alike", const=True
    ),
    SearchOption(
        ("-w", "--word-regexp"), ("whole_words",), "match only complete words", const=True
    ),
)
MATCH_OPTIONS = (
    SearchOption(
        ("-C", "--context"),
        ("context",),
        "lines before and after each match",
        metavar="N",
        type=int,
    ),
    SearchOption(
        ("--limit",),
        ("limit",),
        f"maximum number of lines, or of files; default: {DEFAULT_LIMIT}",
        metavar="N",
        type=argument_types.count,
    ),
    SearchOption(("-l", "--files-with-matches"), ("mode",), "print only the paths", const="files"),
    SearchOption(
        ("-c", "--count"),
        ("mode",),
        "print the number of matching lines of each file",
        const="counts",
    ),
    SearchOption(
        ("--budget",),
        ("budget_tokens",),
        "approximate size of all lines",
        metavar="TOKENS",
        type=argument_types.count,
    ),
)
# Headings of the help of `grep`.
OPTION_GROUPS = {
    "pattern": PATTERN_OPTIONS,
    "where": tuple(option for option in SCOPE_OPTIONS if option.parameters != ("linked",)),
    "files": (
        *FILE_FILTER_OPTIONS,
        *SYNC_OPTIONS,
    ),
    "output": MATCH_OPTIONS,
}
GREP_OPTIONS = tuple(option for options in OPTION_GROUPS.values() for option in options)
