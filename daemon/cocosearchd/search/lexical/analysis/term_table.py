"""Text to the numbers of its words, and these to the numbers of their terms, for counting many
files at once.

A word here is what stands between ASCII characters that are part of no word. It is split and
stemmed when it is met for the first time: text repeats itself, and what is left to do for most of
it is to look up a number.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

Numbers = NDArray[np.int64]

# Bytes that UTF-8 does not have, to tell lines and texts apart: they become words of their own,
# without terms.
_LINE, _TEXT = 0xFF, 0xFE
_LINE_END, _TEXT_START = b" %c " % _LINE, b" %c " % _TEXT
LINE_END, TEXT_START = 0, 1  # their numbers
_WORDS = bytes(
    byte if chr(byte).isalnum() or byte > 127 or byte == ord("_") else ord(" ")
    for byte in range(256)
)
LIMIT_WORDS = 400_000  # about 120 MB, reached by no repository that was measured
LIMIT_BYTES = 32 << 20  # of the words themselves, where they are long: text without blanks, data


class WordTable:
    """The terms of every word it has met. Only grows, so that threads may use it at the same time.

    Nothing that it holds may hold it: it would stay, with its hundred megabytes, until somebody
    looks for garbage among all objects, which a process that makes hardly any cycles does after
    hours or never.
    """

    def __init__(
        self,
        terms_of: Callable[[str], Iterable[str]],
        hash_of: Callable[[str], int],
        known: Iterable[str],
    ):
        """`known` are the words whose numbers are below `marks`, with those of the ends of lines
        and texts.
        """
        self._terms_of, self._hash_of = terms_of, hash_of
        self._lock = threading.Lock()
        self._words = _WordNumbers(self._add)
        self._terms: dict[str, int] = {}
        self._names: dict[str, tuple[int, int]] = {}
        self._bytes = 0
        # of each word in `_parts`
        self._starts, self._lengths = _Column(np.int64), _Column(np.int64)
        self._parts = _Column(np.int64)
        self._hashes = _Column(np.uint64)  # of each term
        for mark in (bytes([_LINE]), bytes([_TEXT])):
            self._enter(mark, ())
        for word in known:
            self._words[word.encode()]
        self.marks = len(self._words)

    def __len__(self) -> int:
        """How many words and names it knows."""
        return len(self._words) + len(self._names)

    @property
    def full(self) -> bool:
        """Whether it is time for a new one."""
        return len(self) >= LIMIT_WORDS or self._bytes >= LIMIT_BYTES

    def number(self, text: str) -> int:
        """Of a text as one word, whatever is in it."""
        return self._words[text.encode("utf-8", "surrogatepass")]

    def numbers(self, texts: Sequence[str]) -> Numbers:
        """Of the words of texts; each text begins with `TEXT_START`, each line but the last ends
        with `LINE_END`.
        """
        raw = [text.encode("utf-8", "surrogatepass") for text in texts]
        words = _TEXT_START.join([b"", *raw]).replace(b"\n", _LINE_END).translate(_WORDS).split()
        return np.fromiter(map(self._words.__getitem__, words), np.int64, len(words))

    def terms(self, words: Numbers) -> tuple[Numbers, Numbers]:
        """The numbers of the terms of words, one word after the other; and how many terms each of
        the words has.
        """
        lengths = self._lengths.rows[words]
        first = np.cumsum(lengths) - lengths
        places = np.repeat(self._starts.rows[words] - first, lengths) + np.arange(lengths.sum())
        return self._parts.rows[places], lengths

    def hashes(self, terms: Numbers) -> NDArray[np.uint64]:
        """Under which terms are kept."""
        return self._hashes.rows[terms]

    def names(self, names: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Under which names are kept: as they are, and in lower case."""
        rows = [self._names.get(name) or self._name(name) for name in names]
        exact, folded = np.array(rows, np.uint64).reshape(-1, 2).T
        return exact, folded

    def _name(self, name: str) -> tuple[int, int]:
        found = self._names[name] = self._hash_of(name), self._hash_of(name.lower())
        self._bytes += len(name)
        return found

    def _add(self, word: bytes) -> int:
        with self._lock:
            known = self._words.get(word)
            return (
                self._enter(word, self._terms_of(word.decode("utf-8", "surrogatepass")))
                if known is None
                else known
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
        # Last: who reads this number finds the rows of it.
        number = self._words[word] = len(self._words)
        return number


class _WordNumbers(dict[bytes, int]):
    """Words and their numbers; has those made that it does not have, by what holds it."""

    def __init__(self, make: Callable[[bytes], int]) -> None:
        super().__init__()
        self._make = weakref.WeakMethod(make)

    def __missing__(self, word: bytes) -> int:
        make = self._make()
        assert make is not None
        return make(word)


class _Column:
    """An array that rows are added to by one thread at a time, while others read those that are
    there.
    """

    def __init__(self, kind: DTypeLike) -> None:
        self.rows = np.zeros(1024, kind)
        self.count = 0

    def add(self, value: int) -> None:
        if self.count == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        self.rows[self.count] = value
        self.count += 1
