"""A cache of the parsed ignore files of one root: equal files are one object, and all are bounded.

The author of a repository decides how many ignore files there are and what is in them.
"""

import hashlib
import threading
import weakref
from collections import deque

from cocosearchd.watching.ignore.patterns import EMPTY, Patterns, parse

# Bounds on the different ignore files of one root. At these bounds the worst lines take about
# 150 MB. The largest public repositories have some thousand lines; 20,000 files of 25 lines each
# reach half of the bound.
MAX_ROOT_LINES = 1_000_000
MAX_ROOT_BYTES = 8 << 20

_Key = tuple[bytes, bool]  # a hash of the text, and whether case is ignored


class _CountedFile(weakref.ref[Patterns]):
    """A reference to patterns that count until nothing else refers to them."""

    __slots__ = ("key", "lines", "size")
    key: _Key
    lines: int
    size: int


class PatternCache:
    """The ignore files of one scope and of scopes made from it. Safe to use from several threads.

    A file counts while a scope refers to its patterns.
    """

    def __init__(self) -> None:
        self._shared: weakref.WeakValueDictionary[_Key, Patterns] = weakref.WeakValueDictionary()
        self._counted: dict[_Key, _CountedFile] = {}
        self._released = deque[_CountedFile]()  # appended to by any thread
        self._lock = threading.Lock()
        self._lines = 0
        self._size = 0

    def renewed(self) -> "PatternCache":
        """Return a cache that counts anew, for a scope that replaces another.

        Files that did not change are shared with the scope that is replaced.
        """
        cache = PatternCache()
        cache._shared = self._shared
        return cache

    def parse(self, text: bytes, *, ignore_case: bool) -> Patterns:
        """Return the patterns of a text; none if they bring the root above its bounds."""
        if not text.strip():
            return EMPTY
        key = (hashlib.blake2b(text, digest_size=16).digest(), ignore_case)
        with self._lock:
            self._count_released()
            patterns = self._shared.get(key)
            reference = self._counted.get(key)
            if patterns is not None and reference is not None and reference() is patterns:
                return patterns
            lines = text.count(b"\n") + 1
            if self._lines + lines > MAX_ROOT_LINES or self._size + len(text) > MAX_ROOT_BYTES:
                return without_patterns(text)
            if patterns is None:
                patterns = self._shared[key] = parse(text, ignore_case=ignore_case)
            self._count(key, patterns)
        return patterns

    def _count(self, key: _Key, patterns: Patterns) -> None:
        reference = _CountedFile(patterns, self._released.append)
        reference.key = key
        reference.lines = patterns.lines
        reference.size = patterns.size
        self._counted[key] = reference
        self._lines += reference.lines
        self._size += reference.size

    def _count_released(self) -> None:
        """Subtract the files that no scope refers to any more."""
        while self._released:
            reference = self._released.popleft()
            self._lines -= reference.lines
            self._size -= reference.size
            if self._counted.get(reference.key) is reference:
                del self._counted[reference.key]


def without_patterns(text: bytes) -> Patterns:
    """Return an empty set of patterns that counts all lines of a file as omitted."""
    return Patterns(omitted=text.count(b"\n") + 1)
