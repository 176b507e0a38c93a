"""Grep process: it reads files and finds the lines that match a pattern

Its parent is a `grep_processes.GrepProcesses`. A pattern that is slow to compile or to match costs
the daemon nothing, and ends with this process.
"""

import errno
import os
import stat
from dataclasses import replace

import re2

from cocosearchd.model import decode_path, hash_content
from cocosearchd.runtime.files.nofollow import ABSENT, LOOKUP, open_absolute, open_below
from cocosearchd.sandbox.worker_loop import Handler, run_worker
from cocosearchd.search.grep.grep_messages import FileTask, GrepTask, SearchedFile, pack_response
from cocosearchd.search.grep.line_matching import LineMatcher
from cocosearchd.search.grep.line_pattern import LinePattern
from cocosearchd.search.grep.matching_lines import LineMatches
from cocosearchd.search.grep.trigram_bloom import make_bloom

_ATTEMPTS = 3  # a file that grows during three reads is a log in use
_NO_MATCHES = LineMatches(0, ())


class _UnsearchableError(Exception):
    """The file cannot be searched, for a reason that people should know."""


class _Matchers:
    """The matcher of the latest pattern: the tasks of one request have the same."""

    def __init__(self) -> None:
        self._latest: tuple[LinePattern, LineMatcher] | None = None

    def get(self, pattern: LinePattern) -> LineMatcher:
        """Return the matcher of a pattern. Raises `re2.error`."""
        if self._latest is None or self._latest[0] != pattern:
            self._latest = (pattern, LineMatcher(pattern))
        return self._latest[1]


def open_handler() -> Handler:
    """Return the handler of tasks."""
    matchers = _Matchers()

    def handle(body: bytes) -> bytes:
        task = GrepTask.from_bytes(body)
        try:
            matcher = matchers.get(task.pattern)
        except re2.error as error:
            return pack_response((), _describe_error(error))
        return pack_response(_search_files(task, matcher))

    return handle


def _describe_error(error: Exception) -> str:
    reason = error.args[0] if error.args else "unknown"
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _search_files(task: GrepTask, matcher: LineMatcher) -> list[SearchedFile]:
    try:
        folder = open_absolute(task.root, LOOKUP)
    except OSError as error:
        reason = f"the root cannot be opened: {error.strerror}"
        return [
            SearchedFile(number, _NO_MATCHES, problem=reason) for number in range(len(task.files))
        ]
    search = _TaskSearch(folder, task, matcher)
    try:
        results = [search.search_file(number, file) for number, file in enumerate(task.files)]
    finally:
        os.close(folder)
    return [result for result in results if result is not None]


class _TaskSearch:
    """Searches the files of a task below an open folder, and counts down its limits."""

    def __init__(self, folder: int, task: GrepTask, matcher: LineMatcher) -> None:
        self._folder = folder
        self._matcher = matcher
        self._max_file_bytes = task.max_file_bytes
        self._options = task.options
        self._files_left = task.max_files

    def search_file(self, number: int, file: FileTask) -> SearchedFile | None:
        """Search one file; None if there is nothing to say about it."""
        try:
            content = file.text
            if content is None:
                content = _read(self._folder, decode_path(file.path), self._max_file_bytes)
        except _UnsearchableError as error:
            return SearchedFile(number, _NO_MATCHES, problem=str(error))
        if content is None:
            return None
        matches = self._matcher.find(content, self._options, file.after_line)
        if not matches.count and not file.wants_bloom:
            return None
        # A hash costs as much as the search; of a frequent word, most files are only counted.
        is_hashed = self._files_left > 0 or file.wants_bloom
        self._count_down(matches)
        return SearchedFile(
            number,
            matches,
            hash_content(content) if is_hashed else b"",
            make_bloom(content) if file.wants_bloom else b"",
        )

    def _count_down(self, matches: LineMatches) -> None:
        self._files_left -= bool(matches.count)
        if matches.lines:
            lines_left = self._options.max_lines - len(matches.lines)
            self._options = replace(self._options, max_lines=lines_left)


def _read(folder: int, path: bytes, limit: int) -> bytes | None:
    """Read a text file; None if it is gone. Raises `_UnsearchableError`."""
    try:
        handle = open_below(folder, path, os.O_RDONLY)
    except OSError as error:
        if error.errno in ABSENT or error.errno == errno.ENXIO:
            return None
        raise _UnsearchableError(error.strerror) from None
    try:
        return _read_open(handle, limit)
    except OSError as error:
        raise _UnsearchableError(error.strerror) from None
    finally:
        os.close(handle)


def _read_open(handle: int, limit: int) -> bytes | None:
    for _ in range(_ATTEMPTS):
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > limit:
            raise _UnsearchableError(f"it has grown beyond {limit:,} bytes")
        content = os.pread(handle, status.st_size + 1, 0)
        if len(content) == status.st_size:
            if b"\0" in content:
                raise _UnsearchableError("it is no longer text")
            return content
    raise _UnsearchableError("it changes while it is read")


if __name__ == "__main__":
    run_worker(open_handler)
