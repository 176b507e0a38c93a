"""Numbers of words and of their terms, for counting many files at once

A word here is a run between ASCII characters that are part of no word. It is split and stemmed when
it first occurs. Text repeats itself, so most of it only needs a lookup of numbers.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cocosearchd.languages.identifiers import fold_name

Numbers = NDArray[np.int64]

# Bytes that UTF-8 does not have separate lines and texts: they become words without terms.
_LINE = 0xFF
_TEXT = 0xFE
_LINE_END = b" %c " % _LINE
_TEXT_START = b" %c " % _TEXT
LINE_END = 0  # the numbers of these two words
TEXT_START = 1
_WORDS = bytes(
    byte if chr(byte).isalnum() or byte > 127 or byte == ord("_") else ord(" ")
    for byte in range(256)
)
LIMIT_WORDS = 400_000  # about 120 MB, which no measured repository reaches
LIMIT_BYTES = 32 << 20  # size of the words, for long ones: text without blanks, data


class WordTable:
    """Table of words and their terms; it only grows, so that threads may use it at the same time.

    Nothing that it refers to may refer to it. A cycle would keep it, with its hundred
    megabytes, until the garbage collector looks at all objects, which a process with hardly any
    cycles does after hours or never.
    """

    def __init__(
        self,
        terms_of: Callable[[str], Iterable[str]],
        hash_of: Callable[[str], int],
        keywords: Iterable[str],
    ):
        """Enter the marks and the keywords. The numbers of both are below `marks`."""
        self._terms_of = terms_of
        self._hash_of = hash_of
        self._lock = threading.Lock()
        self._words = _WordNumbers(self._add)
        self._terms: dict[str, int] = {}
        self._names: dict[str, tuple[int, int]] = {}
        self._bytes = 0
        # numbers of the terms of all words, and the end of those of each word
        self._parts = _Column(np.int64, self._lock)
        self._ends = _Column(np.int64, self._lock)
        self._ends.append(0)  # the end of a word is the start of the next one
        self._hashes = _Column(np.uint64, self._lock)  # of each term
        for mark in (bytes([_LINE]), bytes([_TEXT])):
            self._enter(mark, ())
        for word in keywords:
            self._words[word.encode()]
        self.marks = len(self._words)

    def __len__(self) -> int:
        """Number of words and names."""
        return len(self._words) + len(self._names)

    @property
    def full(self) -> bool:
        """True if the table is due for replacement."""
        return len(self) >= LIMIT_WORDS or self._bytes >= LIMIT_BYTES

    def number(self, text: str) -> int:
        """Number of a text taken as one word."""
        return self._words[text.encode("utf-8", "surrogatepass")]

    def numbers(self, texts: Sequence[str]) -> Numbers:
        """Numbers of the words of texts.

        Each text begins with `TEXT_START`; each line but the last ends with `LINE_END`.
        """
        raw = [text.encode("utf-8", "surrogatepass") for text in texts]
        words = _TEXT_START.join([b"", *raw]).replace(b"\n", _LINE_END).translate(_WORDS).split()
        return np.fromiter(map(self._words.__getitem__, words), np.int64, len(words))

    def terms(self, words: Numbers) -> tuple[Numbers, Numbers]:
        """Numbers of the terms of words, concatenated, and the term count of each word."""
        ends = self._ends.rows
        starts = ends[words]
        lengths = ends[words + 1] - starts
        first = np.cumsum(lengths) - lengths
        positions = np.repeat(starts - first, lengths) + np.arange(lengths.sum())
        return self._parts.rows[positions], lengths

    def hashes(self, terms: Numbers) -> NDArray[np.uint64]:
        """Hashes of terms."""
        return self._hashes.rows[terms]

    def names(self, names: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Hashes of names: as written, and folded."""
        rows = [self._names.get(name) or self._name(name) for name in names]
        exact, folded = np.array(rows, np.uint64).reshape(-1, 2).T
        return exact, folded

    def _name(self, name: str) -> tuple[int, int]:
        hashes = self._names[name] = self._hash_of(name), self._hash_of(fold_name(name))
        self._bytes += len(name)
        return hashes

    def _add(self, word: bytes) -> int:
        with self._lock:
            number = self._words.get(word)
            return (
                self._enter(word, self._terms_of(word.decode("utf-8", "surrogatepass")))
                if number is None
                else number
            )

    def _enter(self, word: bytes, terms: Iterable[str]) -> int:
        numbers = [
            self._enter_term(term) if (number := self._terms.get(term)) is None else number
            for term in terms
        ]
        self._parts.extend(numbers)
        self._ends.append(len(self._parts))
        self._bytes += len(word) + self._parts.item_bytes * len(numbers)
        # Last, so that the rows of a number exist when a reader gets it.
        number = self._words[word] = len(self._words)
        return number

    def _enter_term(self, term: str) -> int:
        number = self._terms[term] = len(self._hashes)
        self._hashes.append(self._hash_of(term))
        self._bytes += len(term)
        return number


class _WordNumbers(dict[bytes, int]):
    """Words and their numbers; a missing word is entered by its table."""

    def __init__(self, enter: Callable[[bytes], int]) -> None:
        super().__init__()
        self._make = weakref.WeakMethod(enter)

    def __missing__(self, word: bytes) -> int:
        enter = self._make()
        assert enter is not None
        return enter(word)


class _Column:
    """Growing array: one thread at a time adds rows, while other threads read earlier rows.

    New rows are numbers of Python until the next read: to store one in an array takes five times as
    long as to append it to a list. `append` and `extend` need the lock.
    """

    def __init__(self, kind: DTypeLike, lock: threading.Lock) -> None:
        self._rows = np.zeros(1024, kind)
        self._count = 0  # rows in the array
        self._new = list[int]()
        self._lock = lock
        self.item_bytes = self._rows.itemsize
        self.append = self._new.append
        self.extend = self._new.extend

    def __len__(self) -> int:
        return self._count + len(self._new)

    @property
    def rows(self) -> NDArray[Any]:
        """All rows, and room for further ones."""
        if self._new:
            with self._lock:
                self._store_new()
        return self._rows

    def _store_new(self) -> None:
        count = len(self)
        if count > len(self._rows):
            larger = np.zeros(max(count, 2 * len(self._rows)), self._rows.dtype)
            larger[: self._count] = self._rows[: self._count]
            self._rows = larger
        self._rows[self._count : count] = self._new
        self._count = count
        self._new.clear()
