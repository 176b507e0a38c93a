"""Reads the frames of stack traces, and the lines that compilers and tests name. Pure.

Time is linear in the text: each line is read by itself, and every repetition of a pattern is
bounded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

MAX_LINE = 2000  # characters: a longer line is data
_PATH = r"(?<![\w.+@/\\-])([\w.+@/\\-]{1,400}\.[A-Za-z]{1,6})"
_PYTHON = re.compile(r'File "([^"\n]{1,400})", line (\d{1,7})(?:, in (\S{1,100}))?')
_COLON = re.compile(rf"{_PATH}:(\d{{1,7}})(?!\w)")
# `a.php(12)`, `a.ts(12,5)`, `A.java:[12,5]`, `A.cs:line 12`, `a.php on line 12`
_OTHER = re.compile(
    rf"{_PATH}(?:\((\d{{1,7}})(?:,\d{{1,7}})?\)|:\[(\d{{1,7}})(?:,\d{{1,7}})?\]"
    r"|(?::| on )line (\d{1,7}))"
)
# After the line of a file, for mypy, flake8 and compilers: `: error: …`, `:5: E501 …`.
_DIAGNOSTIC = re.compile(
    r"(?::\d{1,7})?: (?:(?:fatal )?error|warning|note|info|[A-Z]{1,6}\d{1,5})(?!\w)"
)
_FUNCTIONS = (
    re.compile(r"\s{0,80}at (?:async |new ){0,2}([^\s(:/\\]{1,300})\s?\("),  # Java, C#, JavaScript
    re.compile(
        r"\s{0,8}#\d{1,4}\s{1,8}(?:0x[0-9a-f]{1,16} in )?([^\s(/\\]{1,300}) ?\("
    ),  # gdb, lldb
    re.compile(r"\s{0,8}#\d{1,4} \[internal function\]: ([^\s(/]{1,300})\("),  # PHP
    re.compile(r"\s{0,8}\d{1,4}: ([\w<][^\s(/\\]{1,300})$"),  # Rust
    # Go, which writes %2e for a dot of the last directory
    re.compile(r"(?:[\w.~-]{1,100}/){1,12}[\w~%-]{1,100}\.((?:\(\*?\w{1,80}\)\.)?\w{1,80})\("),
    re.compile(r"(?:[A-Za-z]:)?[^\n:]{1,400}:\d{1,7}:in [`']([^'\s]{1,200})'"),  # Ruby
)
_TYPE_ARGUMENTS = re.compile(r"<[^<>]{0,100}>|\[[^\[\]]{0,100}\]")
_NAME = re.compile(r"[^\W\d]\w{0,100}")
_ANONYMOUS = "(anonymous namespace)::"  # of C++: the bracket would end the name of a function
_CONSTRUCTORS = frozenset({"ctor", "cctor"})


@dataclass(frozen=True, slots=True)
class Frame:
    """A line in a stack trace or in the output of a compiler.

    `path` is "" and `line` 0 for a frame that names its function alone. `function` is "" if
    unknown; `owner` is the type or module in front of it, "" if there is none. A line of a checker or
    compiler (`is_diagnostic`) belongs to no trace.
    """

    path: str
    line: int
    function: str = ""
    owner: str = ""
    is_diagnostic: bool = field(default=False, compare=False)


def find_frames(text: str) -> Iterator[Frame]:
    """Yield the frames of a text, line by line.

    Go and Rust write the function of a frame on the line above its path. A frame without a path
    needs an owner: a function by itself can be any.
    """
    above: Frame | None = None
    for line in text.splitlines():
        frame = _read_line(line)
        is_located = frame is not None and frame.path != ""
        if above and frame and is_located and not frame.function:
            frame = replace(frame, function=above.function, owner=above.owner)
        else:
            yield from _with_owner(above)
        if frame and is_located:
            yield frame
        above = None if is_located else frame
    yield from _with_owner(above)


def _with_owner(frame: Frame | None) -> tuple[Frame, ...]:
    """Return a frame without a path if its function has an owner, else nothing."""
    return (frame,) if frame and frame.owner else ()


def _read_line(line: str) -> Frame | None:
    """Read the frame of a line: a path and a line with their function, or a function alone."""
    if len(line) > MAX_LINE:
        return None
    python = _PYTHON.search(line)
    if python:
        return Frame(_local_path(python[1]), int(python[2]), python[3] or "")
    owner, function = _read_function(line)
    match = _COLON.search(line) or _OTHER.search(line)
    if match:
        number = next(group for group in match.groups()[1:] if group)
        is_diagnostic = _DIAGNOSTIC.match(line, match.end()) is not None
        return Frame(_local_path(match[1]), int(number), function, owner, is_diagnostic)
    return Frame("", 0, function, owner) if function else None


def _local_path(path: str) -> str:
    return path.replace("\\", "/")


def _read_function(line: str) -> tuple[str, str]:
    """Return the owner and the name of the function that a line of a trace names, "" if unknown."""
    line = line.replace(_ANONYMOUS, "")
    matches = (pattern.match(line) for pattern in _FUNCTIONS)
    qualified = next((match[1] for match in matches if match), "")
    names = _NAME.findall(_TYPE_ARGUMENTS.sub("", qualified))
    if names and names[-1] in _CONSTRUCTORS:
        names = [*names[:-1], *names[-2:-1]]
    owner, function = ("", "", *names)[-2:]
    return owner, function
