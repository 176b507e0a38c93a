"""The table of search options: one row for each option of `query`.

Flags with their help, parameters of `search`, inline filters and completion are derived from it.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from cocosearch_ipc.cli import argument_types

LONGEST_SYNC_S = 540.0  # the daemon cancels a call after ten minutes
# Lists of the daemon, for help and completion: the command line does not import it. A test compares
# them, so that a new word is in both.
RERANKERS = ("auto", "functional", "spacy", "disabled")
PROFILES = ("code", "classic")
SYMBOL_KINDS = (
    *("actor", "backend", "build", "check", "class", "concept", "constant", "constructor"),
    *("contract", "data", "enum", "ephemeral", "extension", "function", "group", "impl", "import"),
    *("index", "interface", "job", "keyframes", "locals", "macro", "method", "module", "moved"),
    *("namespace", "object", "output", "packer", "property", "protocol", "prototype", "provider"),
    *("record", "removed", "resource", "rule", "run", "source", "stage", "struct", "table", "task"),
    *("terraform", "test", "trait", "type", "union", "variable", "view", "volume"),
)


def to_wait_ms(wait_s: float) -> int:
    """Convert the time to wait for changes, in seconds, to milliseconds: at most `LONGEST_SYNC_S`."""
    return round(min(wait_s, LONGEST_SYNC_S) * 1000)


def split_values(values: list[str]) -> list[str]:
    """Split the values of a repeatable option at commas."""
    return [part for value in values for part in value.split(",") if part]


class SearchOption(NamedTuple):  # no dataclass: its module would cost each verb 8 ms
    """An option of `search`: its flags, and the parameters that get its value.

    If another option has set a parameter already, that value stays. With `const`, the flag takes no
    value. `convert` converts the parsed value to the parameter. `inline_keys` are the keys of the
    filter inside a query, and `command` is the command of the REPL. The REPL completes the `choices`,
    or the daemon's names of the kind `names`.
    """

    flags: tuple[str, ...]
    parameters: tuple[str, ...]
    help: str
    metavar: str | None = None
    is_list: bool = False
    const: object = None
    type: Callable[[str], object] = str
    convert: Callable[[Any], object] | None = None
    inline_keys: tuple[str, ...] = ()
    command: str = ""
    suggestions: tuple[str, ...] = ()
    names: Literal["indexes", "topics", "languages", ""] = ""

    @property
    def dest(self) -> str:
        """The name of the value among parsed arguments."""
        return "_and_".join(self.parameters)

    def add_to(self, container: argparse._ActionsContainer) -> None:
        """Add the option to a parser or a group."""
        if self.const is not None:
            container.add_argument(
                *self.flags, action="store_const", const=self.const, dest=self.dest, help=self.help
            )
            return
        container.add_argument(
            *self.flags,
            action="append" if self.is_list else "store",
            type=self.type,
            metavar=self.metavar,
            dest=self.dest,
            help=self.help,
        )


INDEX_OPTION = SearchOption(
    ("--index",),
    ("indexes",),
    "one or more indexes: a,b; repeatable",
    metavar="NAME",
    is_list=True,
    type=argument_types.index,
    convert=split_values,
    inline_keys=("index",),
    command="/index",
    names="indexes",
)
SCOPE_OPTIONS = (
    INDEX_OPTION,
    SearchOption(
        ("--topic",),
        ("topics",),
        "all indexes of a topic; repeatable",
        metavar="TOPIC",
        is_list=True,
        inline_keys=("topic",),
        command="/topic",
        names="topics",
    ),
    SearchOption(("--all",), ("all_indexes",), "all indexes", const=True),
    SearchOption(
        ("--no-linked",),
        ("linked",),
        "exclude the indexes that the project links to",
        const=False,
    ),
)
FILTER_OPTIONS = (
    SearchOption(("--limit",), ("limit",), "maximum number of results", metavar="N", type=int),
    SearchOption(
        ("--lang", "--language"),
        ("languages",),
        "only these languages: a,b; repeatable",
        metavar="LANGUAGE",
        is_list=True,
        inline_keys=("lang", "language"),
        command="/lang",
        names="languages",
    ),
    SearchOption(
        ("--path",),
        ("paths",),
        "only paths that match; repeatable",
        metavar="GLOB",
        is_list=True,
        inline_keys=("path",),
    ),
    SearchOption(
        ("--not-path",),
        ("not_paths",),
        "exclude paths that match; repeatable",
        metavar="GLOB",
        is_list=True,
        inline_keys=("-path",),
    ),
    SearchOption(
        ("--symbol-type",),
        ("symbol_types",),
        "only these kinds of symbols: a,b; class includes struct, enum and the like; repeatable",
        metavar="TYPE",
        is_list=True,
        inline_keys=("sym",),
        suggestions=SYMBOL_KINDS,
    ),
    SearchOption(
        ("--symbol-name",),
        ("symbol_name",),
        "only symbols of this name; * and ? are wildcards, leading underscores may be left out",
        metavar="NAME",
        inline_keys=("name",),
    ),
    SearchOption(
        ("--min-relevance", "--min-score"),
        ("min_relevance",),
        "minimum relevance of a result, 0 to 1",
        metavar="X",
        type=argument_types.number,
    ),
    SearchOption(
        ("--all-chunks",), ("all_chunks",), "print single chunks, not places by file", const=True
    ),
    SearchOption(
        ("--no-collapse",), ("collapse",), "print all files that are alike, not one", const=False
    ),
    SearchOption(
        ("--cursor",), ("cursor",), "continue a list of symbols after this page", metavar="CURSOR"
    ),
)
# Filters that verbs about whole files have as well.
FILE_FILTER_OPTIONS = tuple(
    option
    for option in FILTER_OPTIONS
    if {"languages", "paths", "not_paths"}.issuperset(option.parameters)
)
SYNC_OPTIONS = (
    SearchOption(
        ("--sync-timeout",),
        ("sync_timeout_ms",),
        "maximum time to wait for pending changes",
        metavar="SECONDS",
        type=argument_types.seconds,
        convert=to_wait_ms,
    ),
    SearchOption(
        ("--no-sync",),
        ("sync_timeout_ms",),
        "do not wait for pending changes",
        const=0.0,
        convert=to_wait_ms,
    ),
)
RANKING_OPTIONS = (
    SearchOption(
        ("--profile",), ("profile",), f"ranking profile: {', '.join(PROFILES)}", metavar="NAME"
    ),
    SearchOption(
        ("--reranker",),
        ("reranker",),
        f"reranker: {', '.join(RERANKERS)}",
        metavar="NAME",
        command="/reranker",
        suggestions=RERANKERS,
    ),
    SearchOption(
        ("--hybrid",), ("use_hybrid",), "words and vectors, with classic for all words", const=True
    ),
    SearchOption(("--no-hybrid",), ("use_hybrid",), "vector search only", const=False),
    SearchOption(("--no-cache",), ("use_cache",), "do not use cached answers", const=False),
    *SYNC_OPTIONS,
    SearchOption(
        ("--explain",), ("explain",), "also print how results were found and ranked", const=True
    ),
    SearchOption(
        ("--why-not",),
        ("why_not",),
        "explain why this path is not among the results",
        metavar="PATH",
    ),
)
VIEW_OPTIONS = (
    SearchOption(
        ("-B", "--lines-before"),
        ("lines_before",),
        "lines before each result",
        metavar="N",
        type=int,
    ),
    SearchOption(
        ("-A", "--lines-after"), ("lines_after",), "lines after each result", metavar="N", type=int
    ),
    SearchOption(
        ("-C", "--lines-around"),
        ("lines_before", "lines_after"),
        "lines before and after each result",
        metavar="N",
        type=int,
    ),
    SearchOption(
        ("--no-smart", "--no-smart-context"),
        ("smart_context",),
        "print chunks only, not the enclosing definitions",
        const=False,
    ),
    SearchOption(
        ("--budget",),
        ("budget_tokens",),
        "approximate size of all results",
        metavar="TOKENS",
        type=int,
    ),
    SearchOption(
        ("--budget-chars",),
        ("budget_chars",),
        "maximum size of all code",
        metavar="CHARACTERS",
        type=int,
    ),
)
# Headings of the help of `query`.
OPTION_GROUPS = {
    "where": SCOPE_OPTIONS,
    "filters": FILTER_OPTIONS,
    "search": RANKING_OPTIONS,
    "output": VIEW_OPTIONS,
}
SEARCH_OPTIONS = tuple(option for options in OPTION_GROUPS.values() for option in options)
# Filters inside a question, each with its shortest key.
INLINE_FILTERS = tuple(
    f"{option.inline_keys[0]}:"
    for option in (*FILTER_OPTIONS, *SCOPE_OPTIONS)
    if option.inline_keys
)
COMPLETED_OPTIONS: Mapping[str, SearchOption] = {
    key: option for option in SEARCH_OPTIONS for key in (*option.inline_keys, option.command) if key
}


def parameters(args: argparse.Namespace, options: Iterable[SearchOption]) -> dict[str, Any]:
    """Return the parameters of `search` that the user set with some of its options."""
    params: dict[str, Any] = {}
    for option in options:
        value = getattr(args, option.dest)
        if value is not None:
            converted = option.convert(value) if option.convert else value
            for parameter in option.parameters:
                params.setdefault(parameter, converted)
    return params
