"""Encodes requests to a grep process, and its responses, as bytes. Pure.

Both ends run the same code (`sandbox.code_digest`), so `marshal` is safe for requests from the
daemon. A response is not trusted and is checked, because the process has read untrusted files.
"""

import marshal
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TypeVar

from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.values import read_values
from cocosearchd.search.grep.line_pattern import LinePattern
from cocosearchd.search.grep.matching_lines import LineMatches, LineOptions, MatchingLine

T = TypeVar("T")
# `astuple` would cost ten times as much: it copies each value.
_PATTERN_VALUES = attrgetter(*(entry.name for entry in fields(LinePattern)))
_OPTION_VALUES = attrgetter(*(entry.name for entry in fields(LineOptions)))


@dataclass(frozen=True, slots=True)
class GrepTask:
    """Files below a root, and the pattern to find in them.

    Files are numbered by their position in `paths`. An object per file would take a third of the
    time of a task. Files with an entry in `texts` are not read: this unsaved text is searched
    instead. Lines of the first file up to `after_line` are skipped. The results of the files in
    `without_bloom` have their Bloom filters.

    All files together return at most `options.max_lines` lines. Files over `max_file_bytes` are not
    read. The first `max_files` matching files are returned; the others are counted.
    """

    root: bytes
    pattern: LinePattern
    options: LineOptions
    max_file_bytes: int
    max_files: int
    paths: tuple[str, ...]
    after_line: int = 0
    without_bloom: frozenset[int] = frozenset()
    texts: Mapping[int, bytes] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Encode the task."""
        return marshal.dumps(
            (
                self.root,
                _PATTERN_VALUES(self.pattern),
                _OPTION_VALUES(self.options),
                self.max_file_bytes,
                self.max_files,
                self.paths,
                self.after_line,
                self.without_bloom,
                dict(self.texts),
            )
        )

    @classmethod
    def from_bytes(cls, body: bytes) -> "GrepTask":
        """Decode the result of `to_bytes`."""
        root, pattern, options, *values = marshal.loads(body)  # noqa: S302 - from the daemon
        return cls(root, LinePattern(*pattern), LineOptions(*options), *values)


@dataclass(frozen=True, slots=True)
class SearchedFile:
    """The result of one file that matched, has a new Bloom filter, or could not be searched.

    `number` is the position of the file in the task. `content_hash` is the hash of the searched
    bytes. `problem` says why the file was not searched.
    """

    number: int
    matches: LineMatches
    content_hash: bytes = b""
    bloom: bytes = b""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class GrepResult:
    """The result of a task by file. `more_files` other files matched, with `more_lines` lines."""

    files: tuple[SearchedFile, ...] = ()
    more_files: int = 0
    more_lines: int = 0

    @property
    def matching(self) -> tuple[SearchedFile, ...]:
        """The files that matched, in their order."""
        return tuple(file for file in self.files if file.matches.count)


def pack_response(result: GrepResult, error: str = "") -> bytes:
    """Encode a response. `error` says why the pattern is not a valid expression."""
    rows = [_file_values(file) for file in result.files]
    return marshal.dumps((error, rows, result.more_files, result.more_lines))


def unpack_response(body: bytes, count: int) -> tuple[str, GrepResult]:
    """Decode a response to a task of `count` files. Raises `InvalidFrame`."""
    try:
        error, rows, more_files, more_lines = read_values(body)
        files = tuple(_searched_file(row, count) for row in rows)
    except (ValueError, TypeError) as failure:
        raise InvalidFrame(f"no response of grep: {failure}") from failure
    if (
        not 0
        <= _check_type(more_files, int)
        <= min(count - len(files), _check_type(more_lines, int))
    ):
        raise InvalidFrame("a response of grep that counts other files than those of its task")
    return _check_type(error, str), GrepResult(files, more_files, more_lines)


def _file_values(file: SearchedFile) -> tuple[object, ...]:
    """Return the values of a file as a tuple."""
    lines = tuple(
        (line.number, line.column, line.text, line.lines_before, line.lines_after)
        for line in file.matches.lines
    )
    matches = (file.matches.count, lines)
    return file.number, matches, file.content_hash, file.bloom, file.problem


def _searched_file(row: object, count: int) -> SearchedFile:
    number, (matching, lines), content_hash, bloom, problem = _check_type(row, tuple)
    size = len(_check_type(bloom, bytes))
    if not 0 <= _check_type(number, int) < count or size & (size - 1):
        raise InvalidFrame("a response of grep that points beyond its files")
    return SearchedFile(
        number,
        LineMatches(_check_type(matching, int), tuple(_matching_line(line) for line in lines)),
        _check_type(content_hash, bytes),
        bloom,
        _check_type(problem, str),
    )


def _matching_line(row: tuple[object, ...]) -> MatchingLine:
    number, column, text, lines_before, lines_after = row
    return MatchingLine(
        _check_type(number, int),
        _check_type(column, int),
        _check_type(text, str),
        _checked_texts(lines_before),
        _checked_texts(lines_after),
    )


def _checked_texts(values: object) -> tuple[str, ...]:
    return tuple(_check_type(value, str) for value in _check_type(values, tuple))


def _check_type(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise InvalidFrame(f"a response of grep with a {type(value).__name__}")
    return value
