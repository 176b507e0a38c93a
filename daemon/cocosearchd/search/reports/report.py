"""A report as a value: its parts, what they mention, and a summary for other searches. Pure."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cocosearchd.search.reports.mentions import Mentions, find_mentions
from cocosearchd.search.reports.messages import find_messages
from cocosearchd.search.reports.question_parts import QuestionPart, split_question

# Characters of title and prose that stand for the question where one text is needed: for its
# vector, in `classic`, and for the words that choose among results that are alike.
MAX_SUMMARY = 2000
# An address is not what a question is about: its words are names of sites and pages.
_ADDRESS = re.compile(r"https?://[^\s<>\"')\]]+")


@dataclass(frozen=True)
class Report:
    """A question that is read as a document. Reports with equal digests are equal."""

    digest: str
    parts: tuple[QuestionPart, ...] = field(compare=False, repr=False)

    @cached_property
    def mentions(self) -> Mentions:
        """Mentions of the parts. The first call takes some 30 ms for 200 kB."""
        return find_mentions(self.parts)

    @cached_property
    def messages(self) -> tuple[str, ...]:
        """Messages of programs that the parts quote."""
        return find_messages(self.parts)

    @property
    def title(self) -> str:
        """The first sentence of prose, or the first text of any other kind."""
        by_title = sorted(self.parts, key=lambda part: part.kind != "title")
        return without_addresses(by_title[0].text) if by_title else ""

    @property
    def summary(self) -> str:
        """Title and prose in one line, at most `MAX_SUMMARY` characters."""
        texts = [part.text for part in self.parts if part.kind in {"title", "prose"}]
        text = without_addresses(" ".join(texts)) if texts else self.title
        return " ".join(text.split())[:MAX_SUMMARY]


def read_report(text: str) -> Report:
    """Read a long question as a report. The time grows with its length: 200 kB take some 20 ms."""
    parts = _with_title(split_question(text))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return Report(digest, parts)


def without_addresses(text: str) -> str:
    """Return a text without the addresses in it, or as it is if it has nothing else."""
    rest = _ADDRESS.sub(" ", text)
    return rest if rest.strip() else text


def _with_title(parts: Sequence[QuestionPart]) -> tuple[QuestionPart, ...]:
    """Read everything else as prose where there is no prose, such as in a log."""
    if not parts or any(part.kind == "title" for part in parts):
        return tuple(parts)
    first = next((line for line in parts[0].text.splitlines() if line.strip()), "")
    return (QuestionPart("title", first, parts[0].line), *parts)
