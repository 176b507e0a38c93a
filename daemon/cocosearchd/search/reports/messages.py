"""Finds messages that a report quotes: errors and other output of programs. Pure.

Time is linear in the text: lines are cut, and every repetition of a pattern is bounded.
"""

import re
from collections.abc import Iterable, Iterator

from cocosearchd.search.reports.question_parts import QuestionPart

MAX_MESSAGES = 12  # if there are more: half from the beginning, half from the end
MAX_LINE = 1000  # characters of a line that are read
MIN_BLANKS = 2  # blanks of a quotation: with fewer it is a name

_ERROR = re.compile(
    r"(?<!\S)(?:[\w.]{0,80}(?:Error|Exception|Warning|Failure)|E|[Ee]rror|ERROR|fatal|panicked at)"
    r"\s{0,4}[:,]\s{0,4}(.{8,300})"
)
_QUOTATION = re.compile(r"[\"“`']([^\"“”`'\n]{12,200})[\"”`']")


def find_messages(parts: Iterable[QuestionPart]) -> tuple[str, ...]:
    """Find messages in the order of the text, without repeats."""
    messages = list(
        dict.fromkeys(
            message
            for part in parts
            if part.kind not in {"heading", "environment"}
            for line in part.text.splitlines()
            for message in _find_in_line(line[:MAX_LINE], part)
        )
    )
    if len(messages) <= MAX_MESSAGES:
        return tuple(messages)
    half = MAX_MESSAGES // 2
    return (*messages[:half], *messages[-half:])


def _find_in_line(line: str, part: QuestionPart) -> Iterator[str]:
    error = _ERROR.search(line)
    if error:
        yield error[1].strip()
    yield from (text for text in _QUOTATION.findall(line) if text.count(" ") >= MIN_BLANKS)
    if part.kind == "inline_code" and line.count(" ") > MIN_BLANKS:
        yield line
