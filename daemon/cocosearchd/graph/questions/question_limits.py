"""Limits of questions: at a limit no more files are read, and the answer is partial."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from cocosearchd.graph.code_files import CodeFile, CodeFiles, NameGraph

T = TypeVar("T")

IsOver = Callable[[], bool]
STEP = 64  # values between two checks of the clock
# Files that a question keeps in memory: one or two hundred megabytes.
MAX_KEPT_FILES = 10_000


class LimitReached(Exception):
    """The time of a question is over, or the question has reached another limit."""


class TimedFiles:
    """The files of a question: reads raise `LimitReached` when the time is over. Files are kept.

    They check the time because a search for uses may read a hundred thousand files before it finds
    a use, and because a file may import ten thousand modules from directories of any size.
    """

    def __init__(self, files: CodeFiles, is_over: IsOver) -> None:
        """`is_over` tells if the time is over."""
        self._files = files
        self._is_over = is_over
        self._kept: dict[str, CodeFile] = {}
        self._endings: dict[str, Sequence[str]] = {}

    def load(self, paths: Iterable[str]) -> Mapping[str, CodeFile]:
        """Return files by path."""
        self._check_time()
        requested = tuple(paths)
        unread = [path for path in requested if path not in self._kept]
        read = self._files.load(unread) if unread else {}
        if len(self._kept) < MAX_KEPT_FILES:
            self._kept |= read
        files = ((path, self._kept.get(path) or read.get(path)) for path in requested)
        return {path: file for path, file in files if file is not None}

    def files_defining(self, name: str) -> Sequence[str]:
        """Return the files that define a name."""
        self._check_time()
        return self._files.files_defining(name)

    def files_using(self, name: str) -> Sequence[str]:
        """Return the files that use, import or export a name."""
        self._check_time()
        return self._files.files_using(name)

    def has_path(self, path: str) -> bool:
        """Return True if a file is indexed."""
        return self._files.has_path(path)

    def paths_ending(self, suffix: str) -> Sequence[str]:
        """Return the paths with this end.

        Cached, because imports of a module in many files look it up.
        """
        paths = self._endings.get(suffix)
        if paths is None:
            self._check_time()
            paths = self._endings[suffix] = self._files.paths_ending(suffix)
        return paths

    def paths_in(self, directory: str) -> Sequence[str]:
        """Return the paths directly in a directory."""
        self._check_time()
        return self._files.paths_in(directory)

    def paths(self) -> Sequence[str]:
        """Return all paths."""
        return self._files.paths()

    def name_graph(self) -> NameGraph:
        """Return the names of all files."""
        return self._files.name_graph()

    def _check_time(self) -> None:
        if self._is_over():
            raise LimitReached


class TimedSearch:
    """Limits the results of a search by time. `is_complete` is False after a limit."""

    def __init__(self, is_over: IsOver) -> None:
        """`is_over` tells if the time is over."""
        self._is_over = is_over
        self.is_complete = True

    def limit(self, values: Iterable[T]) -> Iterator[T]:
        """Yield `values` until the time is over or they raise `LimitReached`."""
        try:
            for number, value in enumerate(values, 1):
                yield value
                if number % STEP == 0 and self._is_over():
                    raise LimitReached
        except LimitReached:
            self.is_complete = False
