"""Parses plain `query` and `grep` without argparse, which would take half of their time."""

from __future__ import annotations

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# Digits. argparse refuses longer numbers: `int` accepts at most 4,300 digits.
LONGEST_NUMBER = 15
# Those of `questions.grep_options` that take no value. A test compares them.
GREP_FLAGS: dict[str, tuple[str, object]] = {
    "-F": ("fixed", True),
    "-i": ("ignore_case", True),
    "-w": ("whole_words", True),
    "-l": ("mode", "files"),
    "-c": ("mode", "counts"),
}


class PlainCommand:
    """The words and flags of a command line, and the parameters of `--index` and `--limit`."""

    def __init__(self, words: Sequence[str], flags: Sequence[str], params: dict[str, Any]) -> None:
        self.words = words
        self.flags = flags
        self.params = params

    @property
    def format(self) -> str:
        """The format of the answer: json or text."""
        return "json" if "--json" in self.flags else "text"


def plain_query(arguments: Sequence[str]) -> tuple[dict[str, Any], str] | None:
    """Parse `query WORDS... [--index NAME] [--limit N] [--json]` into parameters and a format.

    Return None for any other command line.
    """
    command = _plain_command("query", arguments, ("--json",))
    if not command or not command.words:
        return None
    return {"query": " ".join(command.words)} | command.params, command.format


def plain_grep(arguments: Sequence[str]) -> tuple[dict[str, Any], bool] | None:
    """Parse `grep PATTERN [PATH] [-F] [-i] [-w] [-l] [-c] [--index NAME] [--limit N] [--json]`.

    Return the parameters, and True for JSON; None for any other command line.
    """
    command = _plain_command("grep", arguments, ("--json", *GREP_FLAGS))
    if not command or len(command.words) not in (1, 2) or command.params.get("limit") == 0:
        return None
    pattern, *under = command.words
    params = {"pattern": pattern} | command.params
    params |= dict(GREP_FLAGS[flag] for flag in command.flags if flag in GREP_FLAGS)
    if "index" in params:
        params["indexes"] = [params.pop("index")]
    if any(under):
        params["under"] = under[0]
    return params, command.format == "json"


def _plain_command(
    verb: str, arguments: Sequence[str], flags: Sequence[str]
) -> PlainCommand | None:
    """Return the parts of a command line of `verb`; None if it has another option."""
    if len(arguments) < 2 or arguments[0] != verb:
        return None
    words: list[str] = []
    used_flags: list[str] = []
    values: dict[str, str] = {}
    rest = iter(arguments[1:])
    for argument in rest:
        if argument in flags:
            used_flags.append(argument)
        elif argument in ("--index", "--limit") and argument not in values:
            values[argument] = next(rest, "")
        elif argument.startswith("-"):
            return None
        else:
            words.append(argument)
    params = _plain_params(values)
    return None if params is None else PlainCommand(words, used_flags, params)


def _plain_params(values: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the parameters of one index name and a number; None for other values."""
    params: dict[str, Any] = {}
    if "--index" in values:
        params["index"] = values["--index"]
        if not params["index"] or "," in params["index"]:
            return None
    if "--limit" in values:
        limit = values["--limit"]
        if not limit.isdecimal() or len(limit) > LONGEST_NUMBER:
            return None
        params["limit"] = int(limit)
    return params
