"""Finds names, paths and stack frames that a report mentions, by group of parts. Pure.

Time is linear in the text: tokens are split at blanks and brackets first, and no pattern runs over
more than one token or line.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import attrgetter
from typing import Literal

from cocosearchd.search.reports.question_parts import PartKind, QuestionPart
from cocosearchd.search.reports.stack_frames import Frame, find_frames

# Groups of parts: mentions in parts of one group have the same weight.
Group = Literal["title", "inline", "prose", "code", "output"]
GROUPS: Mapping[PartKind, Group] = {
    "title": "title",
    "inline_code": "inline",
    "prose": "prose",
    "code": "code",
    "output": "output",
}
MAX_NAMES = 2000  # names of each group: a lookup of a name takes some microseconds
MAX_PATHS = 500
MAX_FRAMES = 200
MAX_GAP = 3  # lines between two lines of one trace: repeated and blank lines are no parts
_FRAME_KINDS = frozenset({"title", "prose", "code", "output"})
MAX_TOKEN = 500  # characters: a longer token is data

_NAME = re.compile(r"[^\W\d]\w{2,80}")
_TOKEN = re.compile(r"[^\s\"'`()<>\[\]{},;=*|]{3,}")
_LINE_SUFFIX = re.compile(r"(?::\d{1,7}){1,2}$")
_FILE_NAME = re.compile(r"[\w.+@-]{1,100}\.[A-Za-z]{1,6}")
_DOTTED = re.compile(r"(?<![\w.])[^\W\d]\w{0,80}(?:\.[^\W\d]\w{0,80}){1,20}")
_ADDRESS = re.compile(r"https?://\S+")
_BLOB = re.compile(
    r"https?://[^\s/]{1,100}/(?:[^\s/]{1,100}/){1,4}(?:blob|blame|tree|raw)/[^\s/]{1,100}/([^\s#?]{1,300})"
)
# Schemes of addresses that name a file of this machine or of a bundle: `file:///srv/app/a.js`.
_LOCAL_SCHEME = re.compile(r"(?:file|app|webpack(?:-internal)?)://")


@dataclass(frozen=True, slots=True)
class Mentions:
    """The mentions of a question, without repeats. A dotted name is a tuple of its parts.

    `frames` begin with the innermost frame of the first trace.
    """

    names: Mapping[Group, Sequence[str]]
    paths: Mapping[Group, Sequence[str]]
    dotted: Mapping[Group, Sequence[tuple[str, ...]]]
    frames: Sequence[Frame]


def find_mentions(parts: Iterable[QuestionPart]) -> Mentions:
    """Find the names, paths and frames in the parts of a question."""
    names = {group: dict[str, None]() for group in GROUPS.values()}
    paths = {group: dict[str, None]() for group in GROUPS.values()}
    dotted = {group: dict[tuple[str, ...], None]() for group in GROUPS.values()}
    parts = tuple(parts)
    for part in parts:
        group = GROUPS.get(part.kind)
        if group is None:
            continue
        text = _ADDRESS.sub(" ", part.text)
        names[group] |= dict.fromkeys(_NAME.findall(text))
        paths[group] |= dict.fromkeys(_find_paths(part.text))
        dotted[group] |= dict.fromkeys(tuple(name.split(".")) for name in _DOTTED.findall(text))
    return Mentions(
        names={group: list(values)[:MAX_NAMES] for group, values in names.items()},
        paths={group: list(values)[:MAX_PATHS] for group, values in paths.items()},
        dotted={group: list(values)[:MAX_PATHS] for group, values in dotted.items()},
        frames=list(islice(_frames_of_parts(parts), MAX_FRAMES)),
    )


def _frames_of_parts(parts: Iterable[QuestionPart]) -> Iterator[Frame]:
    """Yield the frames of all traces, the innermost first in each."""
    for text in _join_lines(part for part in parts if part.kind in _FRAME_KINDS):
        yield from _innermost_first(list(find_frames(text)), text)


def _join_lines(parts: Iterable[QuestionPart]) -> Iterator[str]:
    """Yield the texts of blocks, and of neighbouring lines outside of blocks.

    A trace that is not in a block is in many parts: its lines may be output, code and prose.
    """
    lines = list[str]()
    previous = 0
    for part in parts:
        is_block = "\n" in part.text
        if lines and (is_block or part.line - previous > MAX_GAP):
            yield "\n".join(lines)
            lines = []
        if is_block:
            yield part.text
        else:
            lines.append(part.text)
            previous = part.line
    if lines:
        yield "\n".join(lines)


def _innermost_first(frames: list[Frame], text: str) -> list[Frame]:
    """Order the frames of a part, innermost first: Python writes the innermost last, others first.

    Lines of a checker stay as they are, beside a trace too.
    """
    is_python = "most recent call last" in text or any(
        frame.path.endswith((".py", ".pyx")) for frame in frames
    )
    if not is_python:
        return frames
    ordered = list[Frame]()
    for is_diagnostic, neighbours in groupby(frames, attrgetter("is_diagnostic")):
        run = list(neighbours)
        ordered += run if is_diagnostic else run[::-1]
    return ordered


def _find_paths(text: str) -> Iterator[str]:
    """Yield the paths and file names of a text, with `/` between their parts."""
    for match in _BLOB.finditer(text):
        yield match[1]
    for match in _TOKEN.finditer(text):
        token = _LOCAL_SCHEME.sub("", match[0])
        if len(token) > MAX_TOKEN or "://" in token:
            continue
        path = token.replace("\\", "/").strip("/.:!?")
        path = path.partition("::")[0]  # pytest names a test after its file
        path = _LINE_SUFFIX.sub("", path)
        name = path.rpartition("/")[2]
        if "/" in path or _FILE_NAME.fullmatch(name):
            yield path
