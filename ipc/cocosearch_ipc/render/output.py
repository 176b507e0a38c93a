"""Writes to standard output and standard error: text, JSON, errors; knows what a terminal can
show.
"""

from __future__ import annotations

import json
import os
import sys

from cocosearch_ipc.render import visible

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TextIO

# columns of a line of code
WIDEST = 160
NARROWEST = 60
BOLD = "1"
DIM = "2"
RED = "31"
GREEN = "32"
YELLOW = "33"
BLUE = "34"
MAGENTA = "35"
CYAN = "36"


class Style:
    """Colour and links, or plain text: `Style.of(stream, env)` decides. `columns` is where lines of
    code are cut.
    """

    def __init__(self, *, colour: bool, links: bool, columns: int = WIDEST) -> None:
        self.colour = colour
        self.links = links
        self.columns = columns

    @classmethod
    def of(cls, stream: TextIO, env: Mapping[str, str]) -> Style:
        """Both on a terminal that is not dumb. NO_COLOR (no-color.org), else FORCE_COLOR
        (force-color.org), decide.
        """
        terminal = stream.isatty() and env.get("TERM") != "dumb"
        colour = not env.get("NO_COLOR") and (terminal or bool(env.get("FORCE_COLOR")))
        return cls(colour=colour, links=terminal, columns=_columns(stream) if terminal else WIDEST)

    def paint(self, text: str, *codes: str) -> str:
        """`text` in the given SGR codes; as it is without any."""
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.colour and text and codes else text

    def link(self, text: str, target: str) -> str:
        """`text` that opens `target` when clicked (OSC 8)."""
        return f"\x1b]8;;{target}\x1b\\{text}\x1b]8;;\x1b\\" if self.links and target else text


def _columns(stream: TextIO) -> int:
    try:
        return min(WIDEST, max(NARROWEST, os.get_terminal_size(stream.fileno()).columns or WIDEST))
    except OSError:  # a terminal without a size, or what only claims to be one
        return WIDEST


def printable(text: str, *, keep: str = "\n\t") -> str:
    """`text` with control characters escaped: code in an index must not drive the reader's
    terminal.

    Neither are the ends of lines in files from Windows shown, nor a byte order mark.
    """
    if "\n" in keep:
        text = text.removeprefix("\ufeff").removesuffix("\r")
    return visible.printable(text, keep=keep)


def line(text: str = "") -> None:
    """One line on standard output; bytes that are no UTF-8 go out as they came from the file
    system.
    """
    sys.stdout.write(_encodable(text, sys.stdout) + "\n")


def exactly(text: str) -> None:
    """`text` on standard output as it is, ends of lines included: for files and pipes."""
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def note(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(_encodable(text, sys.stderr) + "\n")
    sys.stderr.flush()


def document(value: Any) -> None:
    """`value` as one line of JSON on standard output; indented on a terminal."""
    line(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def compact(value: Any) -> str:
    """`value` as JSON on one line, for those that read line by line."""
    return json.dumps(value, separators=(",", ":"))


def error(message: str, hint: str = "", *, as_json: bool = False, **more: Any) -> None:
    """One line on standard error: `error: ... — hint: ...`, or a JSON object."""
    if as_json:
        note(json.dumps({"error": message, "hint": hint, **more}))
    else:
        single = " ".join(f"error: {message}{f' — hint: {hint}' if hint else ''}".split())
        note(printable(single))


def flush() -> None:
    """Hand everything to the system; raises BrokenPipeError when the reader is gone."""
    sys.stdout.flush()


def stand_in() -> None:
    """Where a standard stream was closed, one that goes nowhere: else the next file would take its
    number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - until the process ends


def silence() -> None:
    """After a broken pipe: let the interpreter's own last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _encodable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
