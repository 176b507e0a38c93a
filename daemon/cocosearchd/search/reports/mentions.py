"""Finds names, paths and stack frames that a report mentions, by group of parts. Pure.

Time is linear in the text: tokens are split at blanks and brackets first, and no pattern runs over
more than one token or line.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cocosearchd.search.reports.question_parts import PartKind, QuestionPart

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
_PYTHON_FRAME = re.compile(r'File "([^"\n]{1,400})", line (\d{1,7})(?:, in (\S{1,100}))?')
_FRAME = re.compile(r"(?<![\w.+@/\\-])([\w.+@/\\-]{1,400}\.[A-Za-z]{1,6}):(\d{1,7})(?!\w)")
_PHP_FRAME = re.compile(
    r"(?<![\w.+@/\\-])([\w.+@/\\-]{1,400}\.[A-Za-z]{1,6})(?:\((\d{1,7})\)|:line (\d{1,7}))"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """A line in a stack trace or in the output of a compiler. `function` is "" if unknown."""

    path: str
    line: int
    function: str = ""


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
    frames = list[Frame]()
    for part in parts:
        group = GROUPS.get(part.kind)
        if group is None:
            continue
        text = _ADDRESS.sub(" ", part.text)
        names[group] |= dict.fromkeys(_NAME.findall(text))
        paths[group] |= dict.fromkeys(_find_paths(part.text))
        dotted[group] |= dict.fromkeys(tuple(name.split(".")) for name in _DOTTED.findall(text))
        frames += _innermost_first(list(_find_frames(part.text)), part.text)
    return Mentions(
        names={group: list(values)[:MAX_NAMES] for group, values in names.items()},
        paths={group: list(values)[:MAX_PATHS] for group, values in paths.items()},
        dotted={group: list(values)[:MAX_PATHS] for group, values in dotted.items()},
        frames=frames[:MAX_FRAMES],
    )


def _innermost_first(frames: list[Frame], text: str) -> list[Frame]:
    """Order the frames of a part, innermost first: Python writes the innermost last, others first."""
    is_python = "most recent call last" in text or any(
        frame.path.endswith((".py", ".pyx")) for frame in frames
    )
    return frames[::-1] if is_python else frames


def _find_paths(text: str) -> Iterator[str]:
    """Yield the paths and file names of a text, with `/` between their parts."""
    for match in _BLOB.finditer(text):
        yield match[1]
    for match in _TOKEN.finditer(text):
        token = match[0]
        if len(token) > MAX_TOKEN or "://" in token:
            continue
        path = token.replace("\\", "/").strip("/.:!?")
        path = path.partition("::")[0]  # pytest names a test after its file
        path = _LINE_SUFFIX.sub("", path)
        name = path.rpartition("/")[2]
        if "/" in path or _FILE_NAME.fullmatch(name):
            yield path


def _find_frames(text: str) -> Iterator[Frame]:
    """Yield the frames of a text, line by line."""
    for line in text.splitlines():
        if len(line) > MAX_TOKEN * 4:
            continue
        python = _PYTHON_FRAME.search(line)
        if python:
            yield Frame(python[1].replace("\\", "/"), int(python[2]), python[3] or "")
            continue
        match = _FRAME.search(line) or _PHP_FRAME.search(line)
        if match:
            number = next(group for group in match.groups()[1:] if group)
            yield Frame(match[1].replace("\\", "/"), int(number))
