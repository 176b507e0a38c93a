"""Parses targets of questions as people write them: a name, a location in a file, or a path. Pure."""

import re
from dataclasses import dataclass

from cocosearchd.errors import InvalidInput

MAX_TARGET = 4096  # characters
MAX_NUMBER = 1 << 31  # lines and columns are smaller

_PLACE = re.compile(r"(?P<path>.+?):(?P<line>[0-9]{1,10})(?::(?P<column>[0-9]{1,10}))?:?")
# `r#` begins a name of Rust that is a keyword as well
_SEPARATOR = re.compile(r"::|\\|->|\.|(?<!\br)#|/")
# An operator of C++, as the name of a function: it may have a separator. `()` may stand for a call.
_OPERATOR = re.compile(r"(?<!\w)operator ?(?:\(\)|[^\w\s().:]{1,3})(?=(?:\(\))?$)")


@dataclass(frozen=True, slots=True)
class Target:
    """A target as written.

    `paths` are the files that the target may mean: first relative to the root, then relative to the
    user's directory. Line and column count from 1; 0 if they are not given.
    """

    text: str
    path: str
    line: int = 0
    column: int = 0
    paths: tuple[str, ...] = ()

    @property
    def is_location(self) -> bool:
        """True for a line of a file."""
        return self.line > 0

    @property
    def is_path(self) -> bool:
        """True if the target must be a path. A name without slashes may also be a path."""
        is_operator = _OPERATOR.search(self.text) is not None
        return self.is_location or ("/" in self.path and not is_operator)

    @property
    def name_parts(self) -> list[str]:
        """The parts of a qualified name: `A::b()` has A and b."""
        return split_name(self.text)


def parse_target(text: str) -> Target:
    """Parse a target. "" stands for no target. Raises `InvalidInput`."""
    text = text.strip()
    if len(text) > MAX_TARGET:
        raise InvalidInput(
            f"the target has {len(text):,} characters", f"use {MAX_TARGET:,} at most"
        )
    match = _PLACE.fullmatch(text)
    if match is None:
        return Target(text, text)
    line = int(match["line"])
    column = int(match["column"] or 0)
    is_valid = 0 < line < MAX_NUMBER and column < MAX_NUMBER and match["column"] != "0"
    if not is_valid:
        raise InvalidInput(f"{text!r} names no line", "lines and columns begin with 1")
    return Target(text, match["path"], line, column)


def require_target(target: Target) -> None:
    """Raise `InvalidInput` if the target is empty."""
    if not target.text:
        raise InvalidInput(
            "the target is empty",
            "give a name, as in Client.retry, or a location, as in src/a.py:12",
        )


def split_name(text: str) -> list[str]:
    """Split a qualified name at the separators of any language.

    >>> split_name("ns::Client.retry()")
    ['ns', 'Client', 'retry']
    >>> split_name("Pointer::operator->")
    ['Pointer', 'operator->']
    """
    text = text.strip()
    operator = _OPERATOR.search(text)
    end = operator.start() if operator else len(text.rstrip("()"))
    parts = _SEPARATOR.split(text[:end].strip())
    return [part for part in (*parts, operator[0] if operator else "") if part]
