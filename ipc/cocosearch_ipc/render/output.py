"""Standard output and standard error: text, JSON, errors, and the abilities of the terminal."""

from __future__ import annotations

import json
import os
import sys

from cocosearch_ipc.render import visible

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, TextIO

# Columns of a line of code.
WIDEST = 160
NARROWEST = 60
PENDING = 3  # paths that a doubt about freshness names
BOLD = "1"
DIM = "2"
RED = "31"
GREEN = "32"
YELLOW = "33"
BLUE = "34"
MAGENTA = "35"
CYAN = "36"


class Style:
    """Colour and links, or plain text. Lines of code are cut at `columns`."""

    def __init__(self, *, colour: bool, links: bool, columns: int = WIDEST) -> None:
        self.colour = colour
        self.links = links
        self.columns = columns

    @classmethod
    def of(cls, stream: TextIO, env: Mapping[str, str]) -> Style:
        """Choose the style for a stream: colour and links on a terminal that is not dumb.

        NO_COLOR (no-color.org) and then FORCE_COLOR (force-color.org) override the colour.
        """
        terminal = stream.isatty() and env.get("TERM") != "dumb"
        colour = not env.get("NO_COLOR") and (terminal or bool(env.get("FORCE_COLOR")))
        return cls(colour=colour, links=terminal, columns=_columns(stream) if terminal else WIDEST)

    def paint(self, text: str, *codes: str) -> str:
        """Return `text` with the SGR codes, or unchanged if there are none."""
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.colour and text and codes else text

    def link(self, text: str, target: str) -> str:
        """Return `text` as a link to `target` (OSC 8)."""
        return f"\x1b]8;;{target}\x1b\\{text}\x1b]8;;\x1b\\" if self.links and target else text


def _columns(stream: TextIO) -> int:
    try:
        return min(WIDEST, max(NARROWEST, os.get_terminal_size(stream.fileno()).columns or WIDEST))
    except OSError:  # a terminal without a size, or a stream that only claims to be one
        return WIDEST


def printable(text: str, *, keep: str = "\n\t") -> str:
    """Escape control characters: code in an index must not control the reader's terminal.

    Carriage returns of Windows files and a byte order mark are removed.
    """
    if "\n" in keep:
        text = text.removeprefix("\ufeff").removesuffix("\r")
    return visible.printable(text, keep=keep)


def line(text: str = "") -> None:
    """Print one line to standard output. Characters that its encoding lacks become `?`."""
    sys.stdout.write(_encodable(text, sys.stdout) + "\n")


def lines(texts: Iterable[str]) -> None:
    """Print lines to standard output, each as soon as it is made."""
    for text in texts:
        line(text)


def write_unchanged(text: str) -> None:
    """Write `text` to standard output unchanged, including line ends: for files and pipes."""
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def note(text: str) -> None:
    """Print one line to standard error."""
    sys.stderr.write(_encodable(text, sys.stderr) + "\n")
    sys.stderr.flush()


def document(value: Any) -> None:
    """Print `value` as JSON to standard output: on one line, or indented on a terminal."""
    line(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def compact(value: Any) -> str:
    """Return `value` as JSON on one line."""
    return json.dumps(value, separators=(",", ":"))


def error(message: str, hint: str = "", *, as_json: bool = False, **more: Any) -> None:
    """Print `error: ... — hint: ...` on one line, or a JSON object, to standard error."""
    if as_json:
        note(json.dumps({"error": message, "hint": hint, **more}))
    else:
        single = " ".join(f"error: {message}{f' — hint: {hint}' if hint else ''}".split())
        note(printable(single))


def flush() -> None:
    """Flush standard output; raise BrokenPipeError if the reader is gone."""
    sys.stdout.flush()


def replace_closed_streams() -> None:
    """Replace closed standard streams by streams to the null device.

    Otherwise the next opened file would get the descriptor number of the closed stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - stays open until the process ends


def discard_output() -> None:
    """Redirect standard output to the null device, for the flush after a broken pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _encodable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def format_number(number: int) -> str:
    """Return a number with thousands separators; "?" for -1: PostgreSQL does not answer."""
    return "?" if number < 0 else f"{number:,}"


def format_quantity(number: int, noun: str) -> str:
    """Return a number with its noun: "1 file", "2 files"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def describe_staleness(reason: str, pending: Sequence[str]) -> str:
    """Return the reason why an answer may be outdated, and the first pending paths."""
    paths = ", ".join(printable(path, keep="") for path in pending[:PENDING])
    more = ", …" if len(pending) > PENDING else ""
    return printable(reason, keep="") + (f" ({paths}{more})" if paths else "")
