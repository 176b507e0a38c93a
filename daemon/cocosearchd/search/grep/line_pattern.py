"""Patterns of `grep`: a regular expression in RE2's syntax, or a fixed string. Pure.

RE2 matches in linear time and bounds the size of its programs, so patterns may be untrusted. A
pattern matches within one line, as in grep(1) and ripgrep.
"""

import re
from dataclasses import dataclass

from cocosearchd.errors import InvalidInput

MAX_PATTERN = 10_000  # characters, like a question
_LINE_END = re.compile(r"(?<!\\)(?:\\\\)*\\n")
_PLAIN = re.compile(r"[^\\.^$*+?{}()|\[\]]+")
# `\C` is one byte of any kind, and a line end is one
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
# Ways to write a carriage return; a longer octal number may be one, which costs nothing
_CARRIAGE_RETURN = re.compile(r"\r|(?<!\\)(?:\\\\)*\\(?:r|x0[dD]|x\{0*[dD]\}|0?15)")
_SURROGATE = re.compile(r"[\ud800-\udfff]")  # a byte that is not UTF-8, from a client
_NO_WORD = r"[^\pL\pN_]"
SYNTAX_HINT = (
    "patterns are RE2 expressions, without backreferences and lookaround; "
    "-F (`fixed`) takes a pattern literally"
)


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A pattern. With `whole_words`, a letter, digit or underscore may not be next to a match."""

    text: str
    fixed: bool = False
    ignore_case: bool = False
    whole_words: bool = False

    @property
    def expression(self) -> str:
        """The pattern as a regular expression, without the conditions of `whole_words`."""
        return re.escape(self.text) if self.fixed else self.text

    @property
    def literal(self) -> bytes | None:
        """The only bytes that the pattern matches; None for a pattern that is not a plain literal."""
        if self.ignore_case or self.whole_words or not (self.fixed or _PLAIN.fullmatch(self.text)):
            return None
        return self.text.encode()

    @property
    def ignores_carriage_returns(self) -> bool:
        """True if a carriage return before a line end belongs to the line end.

        `$` then matches at the end of a line of a Windows file. A pattern that names carriage
        returns can still find them.
        """
        is_anchored = not self.fixed and "$" in self.text
        return is_anchored and _CARRIAGE_RETURN.search(self.text) is None

    @property
    def line_expression(self) -> str:
        """The expression that finds matching lines. `^` and `$` match at the ends of a line."""
        if not self.whole_words:
            return f"(?m){self.expression}"
        return f"(?m)(?:^|{_NO_WORD}){self.word_expression}"

    @property
    def word_expression(self) -> str:
        """The expression for a match that is not followed by a letter, digit or underscore."""
        return f"(?:{self.expression})(?:{_NO_WORD}|$)"


def check_pattern(pattern: LinePattern) -> None:
    """Raise `InvalidInput` for a pattern that is empty, too long, multi-line or not UTF-8.

    A pattern of single bytes is refused as well.
    """
    if not pattern.text:
        raise InvalidInput("the pattern is empty", "give a regular expression, for example TODO")
    if len(pattern.text) > MAX_PATTERN:
        raise InvalidInput(
            f"the pattern has {len(pattern.text):,} characters", f"use at most {MAX_PATTERN:,}"
        )
    if _SURROGATE.search(pattern.text):
        raise InvalidInput("the pattern is not UTF-8", "search for the text beside these bytes")
    if "\n" in pattern.text or (not pattern.fixed and _LINE_END.search(pattern.text)):
        raise InvalidInput(
            "the pattern has a line end, and a match lies within one line",
            "search for one of its lines",
        )
    if not pattern.fixed and _ANY_BYTE.search(pattern.text):
        raise InvalidInput(
            r"the pattern has \C, which matches a part of a character or a line end",
            "use . for a character",
        )
