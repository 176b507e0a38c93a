"""The worker process of `grep`: reads files and finds the lines that match a pattern.

`grep_processes.GrepProcesses` starts it. A pattern that is slow to compile or to match does not
slow down the daemon: its cost ends with this process.
"""

import errno
import os
import stat
from dataclasses import replace

import re2

from cocosearchd.forms.path_forms import path_bytes
from cocosearchd.model import hash_content
from cocosearchd.runtime.files.nofollow import ABSENT, LOOKUP, FilesBelow, open_absolute
from cocosearchd.sandbox.worker_loop import Handler, run_worker
from cocosearchd.search.grep.grep_messages import (
    GrepResult,
    GrepTask,
    SearchedFile,
    pack_response,
)
from cocosearchd.search.grep.line_matching import LineMatcher
from cocosearchd.search.grep.line_pattern import LinePattern
from cocosearchd.search.grep.matching_lines import LineMatches
from cocosearchd.search.grep.trigram_bloom import make_bloom

# Most files are smaller. One call reads such a file to its end, without a look at its size.
_SMALL_BYTES = 1 << 16
_ATTEMPTS = 3  # a file that grows during three reads is a log that is being written
_NO_MATCHES = LineMatches(0, ())


class _UnsearchableError(Exception):
    """A file cannot be searched. The message is a reason for people."""


class _Matchers:
    """A cache of the matcher for the latest pattern.

    One matcher is enough, since all tasks of one request have the same pattern.
    """

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
            return pack_response(GrepResult(), _describe_error(error))
        return pack_response(_search_files(task, matcher))

    return handle


def _describe_error(error: Exception) -> str:
    reason = error.args[0] if error.args else "unknown"
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _search_files(task: GrepTask, matcher: LineMatcher) -> GrepResult:
    try:
        folder = open_absolute(task.root, LOOKUP)
    except OSError as error:
        reason = f"the root cannot be opened: {error.strerror}"
        return GrepResult(
            tuple(
                SearchedFile(number, _NO_MATCHES, problem=reason)
                for number in range(len(task.paths))
            )
        )
    files = FilesBelow(folder)
    try:
        return _TaskSearch(files, task, matcher).run()
    finally:
        files.close()
        os.close(folder)


class _TaskSearch:
    """Searches the files of a task below an open folder, within the limits of the task."""

    def __init__(self, files: FilesBelow, task: GrepTask, matcher: LineMatcher) -> None:
        self._files = files
        self._task = task
        self._matcher = matcher
        self._options = task.options
        self._files_left = task.max_files
        self._results = list[SearchedFile]()
        self._more_files = 0
        self._more_lines = 0

    def run(self) -> GrepResult:
        """Search all files. Return their matches, Bloom filters and problems."""
        task = self._task
        for number, path in enumerate(task.paths):
            try:
                content = task.texts.get(number)
                if content is None:
                    content = self._read(path_bytes(path))
                if content is not None:
                    self._search(number, content, 0 if number else task.after_line)
            except _UnsearchableError as error:
                self._results.append(SearchedFile(number, _NO_MATCHES, problem=str(error)))
        return GrepResult(tuple(self._results), self._more_files, self._more_lines)

    def _search(self, number: int, content: bytes, after_line: int) -> None:
        """Search one content. Raises `_UnsearchableError` if it matches and is no text."""
        wants_bloom = number in self._task.without_bloom
        if self._files_left <= 0 and not wants_bloom:
            # Beyond the limit, files are only counted: hashing a content costs as much as searching
            # it.
            if count := self._matcher.count(content, self._options, after_line):
                _check_text(content)
                self._more_files += 1
                self._more_lines += count
            return
        matches = self._matcher.find(content, self._options, after_line)
        if matches.count or wants_bloom:
            _check_text(content)
            bloom = make_bloom(content) if wants_bloom else b""
            self._results.append(SearchedFile(number, matches, hash_content(content), bloom))
            self._count_down(matches)

    def _count_down(self, matches: LineMatches) -> None:
        self._files_left -= bool(matches.count)
        if matches.lines:
            lines_left = self._options.max_lines - len(matches.lines)
            self._options = replace(self._options, max_lines=lines_left)
            if not lines_left:
                self._files_left = 0

    def _read(self, path: bytes) -> bytes | None:
        """Read a text file; None if it is gone. Raises `_UnsearchableError`."""
        try:
            handle = self._files.open(path)
        except OSError as error:
            if error.errno in ABSENT or error.errno == errno.ENXIO:
                return None
            raise _UnsearchableError(error.strerror) from None
        try:
            return _read_open(handle, self._task.max_file_bytes)
        except OSError as error:
            if error.errno in (errno.ESPIPE, errno.EISDIR):  # a pipe or a directory now
                return None
            raise _UnsearchableError(error.strerror) from None
        finally:
            os.close(handle)


def _read_open(handle: int, limit: int) -> bytes | None:
    content = os.pread(handle, _SMALL_BYTES, 0)
    if len(content) < min(_SMALL_BYTES, limit):
        return content
    for _ in range(_ATTEMPTS):
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > limit:
            raise _UnsearchableError(f"it is larger than {limit:,} bytes")
        content = os.pread(handle, status.st_size + 1, 0)
        if len(content) == status.st_size:
            return content
    raise _UnsearchableError("it changes while it is read")


def _check_text(content: bytes) -> None:
    """Raise `_UnsearchableError` for a binary content: its matches are no lines."""
    if b"\0" in content:
        raise _UnsearchableError("it is no longer text")


if __name__ == "__main__":
    run_worker(open_handler)
