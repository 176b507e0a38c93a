"""Numbers of words and of their terms, for counting many files at once

A word here is a run between ASCII characters that are part of no word. It is split and stemmed when
it first occurs. Text repeats itself, so most of it only needs a lookup of numbers.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence

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
        # slice of each word in `_parts`
        self._starts = _Column(np.int64)
        self._lengths = _Column(np.int64)
        self._parts = _Column(np.int64)
        self._hashes = _Column(np.uint64)  # of each term
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
        lengths = self._lengths.rows[words]
        first = np.cumsum(lengths) - lengths
        positions = np.repeat(self._starts.rows[words] - first, lengths) + np.arange(lengths.sum())
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
        start = self._parts.count
        for term in terms:
            number = self._terms.get(term)
            if number is None:
                number = self._terms[term] = self._hashes.count
                self._hashes.add(self._hash_of(term))
                self._bytes += len(term)
            self._parts.add(number)
        self._lengths.add(self._parts.count - start)
        self._starts.add(start)
        self._bytes += len(word) + self._parts.rows.itemsize * (self._parts.count - start)
        # Last, so that the rows of a number exist when a reader gets it.
        number = self._words[word] = len(self._words)
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
    """Growing array: one thread at a time adds rows, while other threads read earlier rows."""

    def __init__(self, kind: DTypeLike) -> None:
        self.rows = np.zeros(1024, kind)
        self.count = 0

    def add(self, value: int) -> None:
        if self.count == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        self.rows[self.count] = value
        self.count += 1
