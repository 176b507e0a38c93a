"""The text of a question: words of the command line, a file, or standard input."""

import argparse
import sys
from typing import BinaryIO

from cocosearch_ipc import client
from cocosearch_ipc.cli import exits

STANDARD_INPUT = "-"
MAX_CHARACTERS = 200_000  # what the daemon takes: search.request_limits.MAX_QUESTION
MAX_QUESTION_BYTES = 4 * MAX_CHARACTERS  # of UTF-8


def read_question(args: argparse.Namespace) -> str:
    """Return the question that the arguments give. Raises `client.CallFailed`."""
    words = " ".join(args.words)
    if args.file is not None:
        if args.words:
            raise _usage_error("there are words and a file", "give one of them as the question")
        try:
            with open(args.file, "rb") as stream:
                return _read_text(stream, args.file)
        except OSError as error:
            raise _usage_error(f"{args.file}: {error.strerror}", "name a file of text") from error
    if words != STANDARD_INPUT:
        return words
    if sys.stdin is None or sys.stdin.isatty():
        raise _usage_error("there is no text on standard input", "cocosearchctl query - < FILE")
    return _read_text(sys.stdin.buffer, "standard input")


def _read_text(stream: BinaryIO, name: str) -> str:
    data = stream.read(MAX_QUESTION_BYTES + 1)
    try:
        text = data[:MAX_QUESTION_BYTES].decode("utf-8")
    except UnicodeDecodeError:
        text = "\0" if len(data) <= MAX_QUESTION_BYTES else data.decode("utf-8", "replace")
    if "\0" in text:
        raise _usage_error(f"{name} is no text", "give text in UTF-8: an issue, a log, a trace")
    if len(data) > MAX_QUESTION_BYTES or len(text) > MAX_CHARACTERS:
        raise _usage_error(
            f"{name} has more than {MAX_CHARACTERS:,} characters",
            "give the part that says what is wrong",
        )
    if not text.strip():
        raise _usage_error(f"{name} is empty", "give text: an issue, a log, a trace")
    return text


def _usage_error(message: str, hint: str) -> client.CallFailed:
    error = client.CallFailed(message, hint)
    error.exit_code = exits.USAGE
    return error
