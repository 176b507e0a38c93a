"""A report as a value: its parts, their mentions and messages, and a summary. Pure."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cocosearchd.search.reports.mentions import Mentions, find_mentions
from cocosearchd.search.reports.messages import find_messages
from cocosearchd.search.reports.question_parts import QuestionPart, split_question

# Characters of title and prose in the summary. The summary replaces the question for its vector, in
# `classic`, and for the words that choose among alike results.
MAX_SUMMARY = 2000
# Characters of prose of a trace: its error, and a few words of a person.
MAX_TRACE_PROSE = 200
# Addresses are removed: their words are names of sites and pages, not the topic of a question.
_ADDRESS = re.compile(r"https?://[^\s<>\"')\]]+")


@dataclass(frozen=True)
class Report:
    """A long question that is read in parts. Reports with equal digests are equal."""

    digest: str
    parts: tuple[QuestionPart, ...] = field(compare=False, repr=False)

    @cached_property
    def mentions(self) -> Mentions:
        """The mentions of the parts. The first access takes some 30 ms for 200 kB."""
        return find_mentions(self.parts)

    @cached_property
    def messages(self) -> tuple[str, ...]:
        """The messages of programs that the parts quote."""
        return find_messages(self.parts)

    @property
    def is_trace(self) -> bool:
        """True if a program wrote nearly all of the report: frames, and hardly any prose."""
        prose = sum(len(part.text) for part in self.parts if part.kind == "prose")
        return prose <= MAX_TRACE_PROSE and bool(self.mentions.frames)

    @property
    def is_pasted_trace(self) -> bool:
        """True for a trace alone: no heading, and no code but the lines that a trace quotes."""
        is_written = any(
            part.kind == "heading" or (part.kind == "code" and not _is_quoted_line(part.text))
            for part in self.parts
        )
        return self.is_trace and not is_written

    @property
    def title(self) -> str:
        """The title part of the report without addresses; without one, the text of the first part."""
        by_title = sorted(self.parts, key=lambda part: part.kind != "title")
        return without_addresses(by_title[0].text) if by_title else ""

    @property
    def summary(self) -> str:
        """Title and prose in one line, at most `MAX_SUMMARY` characters."""
        texts = [part.text for part in self.parts if part.kind in {"title", "prose"}]
        text = without_addresses(" ".join(texts)) if texts else self.title
        return " ".join(text.split())[:MAX_SUMMARY]


def _is_quoted_line(text: str) -> bool:
    """Return True for a line of code as traces quote it: by itself and indented."""
    return "\n" not in text and text.startswith("    ")


def read_report(text: str) -> Report:
    """Read a long question as a report. The time grows with its length: 200 kB take some 20 ms."""
    parts = _with_title(split_question(text))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return Report(digest, parts)


def without_addresses(text: str) -> str:
    """Remove the addresses from a text; a text that has only addresses stays as it is."""
    rest = _ADDRESS.sub(" ", text)
    return rest if rest.strip() else text


def _with_title(parts: Sequence[QuestionPart]) -> tuple[QuestionPart, ...]:
    """Make the first line the title if there is no title, for example in a log."""
    if not parts or any(part.kind == "title" for part in parts):
        return tuple(parts)
    first = next((line for line in parts[0].text.splitlines() if line.strip()), "")
    return (QuestionPart("title", first, parts[0].line), *parts)
