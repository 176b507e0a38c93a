"""Reads records of structured logs: JSON objects with a message among many other fields. Pure.

Time is linear in the text.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

MAX_PREFIX = 200  # characters before the object, such as a time and the name of a container
MIN_BLANKS = 2  # blanks of a message: with fewer it is a code or a name
# Names of fields with a message or a trace, as the usual libraries and services write them: without
# case, blanks, `_`, `-` and the names of the objects around them.
_MESSAGE_FIELDS = frozenset(
    {
        *("message", "msg", "error", "err", "errormessage", "errormsg", "exception", "excinfo"),
        *("exceptionmessage", "reason", "detail", "details", "cause", "event", "description"),
        *("stack", "stacktrace", "traceback", "backtrace", "errorstack", "errorverbose", "panic"),
        *("log", "textpayload", "shortmessage", "fullmessage"),
    }
)
# Fields with the location of the statement that logs, such as `http/server.go:12`.
_LOCATION_FIELDS = frozenset({"caller", "source", "pathname", "location"})
_SEPARATORS = str.maketrans("", "", " _-@")


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record of a log.

    `messages` have one line each. `traces` are texts of several lines, and locations of code.
    """

    messages: tuple[str, ...]
    traces: tuple[str, ...]


def read_record(line: str) -> LogRecord | None:
    """Read a line as a record of a log; None for another line, or a record without a message."""
    start = line.find("{", 0, MAX_PREFIX)
    if start < 0 or not line.rstrip().endswith("}"):
        return None
    try:
        value = json.loads(line[start:])
    # `ValueError` for a number with thousands of digits as well
    except (ValueError, RecursionError):
        return None
    messages = dict[str, None]()
    traces = dict[str, None]()
    for name, text in _find_texts(value):
        if name in _LOCATION_FIELDS or (name in _MESSAGE_FIELDS and "\n" in text.strip()):
            traces[text] = None
        elif name in _MESSAGE_FIELDS and text.count(" ") >= MIN_BLANKS:
            messages[text.strip()] = None
    if not messages and not any("\n" in text for text in traces):
        return None
    return LogRecord(tuple(messages), tuple(traces))


def _find_texts(value: object) -> Iterator[tuple[str, str]]:
    """Yield the texts in a value of JSON, each with the plain name of its field, in their order."""
    stack: list[tuple[str, object]] = [("", value)]
    while stack:
        name, item = stack.pop()
        if isinstance(item, str):
            yield name, _as_question(item)
        elif isinstance(item, dict):
            stack += [(_plain_name(key), inner) for key, inner in reversed(item.items())]
        elif isinstance(item, list):
            stack += [(name, inner) for inner in reversed(item)]


def _as_question(text: str) -> str:
    """Replace characters that JSON can write and no question may have: NUL and half a character."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def _plain_name(name: str) -> str:
    return name.rpartition(".")[2].lower().translate(_SEPARATORS)
