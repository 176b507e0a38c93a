"""Parses the text of a receiver into steps: names, calls, indices. Pure, linear in the text."""

import re
from functools import lru_cache
from typing import Literal, NamedTuple

StepKind = Literal["name", "call", "index", "type"]
# People do not write longer chains.
MAX_TEXT = 400

_NAME = re.compile(r"[@$#]*[^\W\d][\w$]*[?!]?(?!\w)|[@$#]+[^\W\d][\w$]*")
_SEPARATOR = re.compile(r"\s*(?:\?\.|!\.|\.|::|->|\\)\s*#?")
_KEYWORD = re.compile(r"(?:await|yield from|\*|&&?|mut|ref|!)\s*(?=[\w(@$])")
_CAST = re.compile(r"\s(?:as|satisfies)\s")
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_QUOTES = "\"'`"


class ExpressionStep(NamedTuple):
    """A step of an expression: a name, a call or index of the previous steps, or a written type."""

    kind: StepKind
    text: str = ""


_BRACKET_STEPS = {"(": (ExpressionStep("call"),), "[": (ExpressionStep("index"),), "<": ()}


@lru_cache(4096)
def parse_expression(text: str) -> tuple[ExpressionStep, ...]:
    """Return the steps of an expression; empty if it is no chain of names, calls and indices.

    For example, `self.items[0].run()` has the steps name self, name items, index, name run, call.
    """
    if len(text) > MAX_TEXT:
        return ()
    tails: list[str] = []
    text = _strip_keywords(text)
    while text.startswith("("):
        end = find_closing(text, 0)
        if end < 0:
            return ()
        tails.append(text[end + 1 :])
        text = _strip_keywords(text[1:end])
    steps = _parse_head(text)
    for tail in reversed(tails):
        postfix = _parse_postfix(tail) if steps else None
        if postfix is None:
            return ()
        steps += postfix
    return tuple(steps)


def find_closing(text: str, start: int) -> int:
    """Return the position of the bracket that closes the one at `start`, or -1.

    Strings are skipped.
    """
    stack: list[str] = []
    quote = ""
    for position in range(start, len(text)):
        char = text[position]
        if quote:
            quote = "" if char == quote and text[position - 1] != "\\" else quote
        elif char in _QUOTES:
            quote = char
        elif char in _CLOSING and (char != "<" or not stack or stack[-1] == ">"):
            stack.append(_CLOSING[char])
        elif stack and char == stack[-1] and text[position - 1 : position + 1] != "=>":
            stack.pop()
            if not stack:
                return position
    return -1


def _strip_keywords(text: str) -> str:
    text = text.strip()
    while match := _KEYWORD.match(text):
        text = text[match.end() :]
    return text


def _parse_head(text: str) -> list[ExpressionStep]:
    cast = _CAST.search(text)
    cast_type = "" if cast is None else text[cast.end() :].lstrip()
    if cast_type:
        return [ExpressionStep("type", cast_type)]
    is_new = text.startswith("new ")
    text = text.removeprefix("new ").lstrip()
    name = _NAME.match(text)
    postfix = _parse_postfix(text[name.end() :]) if name is not None else None
    if name is None or postfix is None:
        return []
    steps = [ExpressionStep("name", name[0].rstrip("?!")), *postfix]
    if is_new and all(step.kind == "name" for step in steps):
        steps.append(ExpressionStep("call"))
    return steps


def _parse_postfix(text: str) -> list[ExpressionStep] | None:
    """Return the steps after the first name; None if the text has anything else."""
    steps: list[ExpressionStep] = []
    position = 0
    while position < len(text):
        char = text[position]
        separator = _SEPARATOR.match(text, position)
        name = _NAME.match(text, separator.end()) if separator else None
        if name is not None:
            steps.append(ExpressionStep("name", name[0].rstrip("?!")))
            position = name.end()
        elif separator:  # optional calls and indices: `a?.(b)`, `a?.[b]`
            position = separator.end()
            if text[position : position + 1] not in ("(", "[", "<"):
                return None
        elif char in "([<":
            end = find_closing(text, position)
            if end < 0:
                return None
            steps += _BRACKET_STEPS[char]
            position = end + 1
        elif char in "!? \n\t\r":
            position += 1
        else:
            return None
    return steps
