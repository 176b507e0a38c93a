"""Numbers words and their terms, so that many files can be counted at once.

In this module, a word is a run of characters between ASCII separators. A word is split and stemmed
when it first occurs. Text repeats itself, so most words only need a lookup.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, count
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cocosearchd.languages.identifiers import fold_name

Numbers = NDArray[np.int64]

# Bytes that do not occur in UTF-8 separate lines and texts. They become words without terms.
_LINE = 0xFF
_TEXT = 0xFE
_LINE_END = b" %c " % _LINE
_TEXT_START = b" %c " % _TEXT
LINE_END = 0  # numbers of these two words
TEXT_START = 1
_WORDS = bytes(
    byte if chr(byte).isalnum() or byte > 127 or byte == ord("_") else ord(" ")
    for byte in range(256)
)
LIMIT_WORDS = 400_000  # about 120 MB; no measured repository reaches it
# Total size of the words; matters for long words, such as data without blanks
LIMIT_BYTES = 32 << 20


class WordTable:
    """A table of words and their terms. It only grows, so that several threads may use it.

    No object in the table may refer to the table. Such a cycle would keep its hundred megabytes
    until a full garbage collection, and in a process with few cycles that comes after hours or
    never.
    """

    def __init__(
        self,
        split_texts: Callable[[Sequence[str]], Iterable[Sequence[str]]],
        hash_of: Callable[[str], int],
        keywords: Iterable[str],
    ):
        """Enter the two marks and the keywords: their numbers are below `marks`.

        `split_texts` returns the terms of each text.
        """
        self._split_texts = split_texts
        self._hash_of = hash_of
        self._lock = threading.Lock()
        self._words = _WordNumbers()
        self._terms: dict[str, int] = {}
        self._names: dict[str, tuple[int, int]] = {}
        self._bytes = 0
        # term numbers of all words, and the end of the terms of each word
        self._parts = _Column(np.int64)
        self._ends = _Column(np.int64)
        self._hashes = _Column(np.uint64)  # of each term
        self._words.update({bytes([_LINE]): LINE_END, bytes([_TEXT]): TEXT_START})
        self._ends.extend([0, 0, 0])  # the end of a word is the start of the next one
        for word in keywords:
            self._words[word.encode()]
        self.marks = len(self._words)

    def __len__(self) -> int:
        """Return the number of words and names."""
        return len(self._words) + len(self._names)

    @property
    def full(self) -> bool:
        """True if the table is due for replacement."""
        return len(self) >= LIMIT_WORDS or self._words.size + self._bytes >= LIMIT_BYTES

    def number(self, text: str) -> int:
        """Return the number of a text that counts as one word."""
        return self._words[text.encode("utf-8", "surrogatepass")]

    def numbers(self, texts: Sequence[str]) -> Numbers:
        """Return the numbers of the words of texts, concatenated.

        Each text begins with `TEXT_START`; each line but the last ends with `LINE_END`.
        """
        raw = [text.encode("utf-8", "surrogatepass") for text in texts]
        words = _TEXT_START.join([b"", *raw]).replace(b"\n", _LINE_END).translate(_WORDS).split()
        return np.fromiter(map(self._words.__getitem__, words), np.int64, len(words))

    def terms(self, words: Numbers) -> tuple[Numbers, Numbers]:
        """Return the term numbers of words, concatenated, and the term count of each word."""
        if self._words.new_words:
            with self._lock:
                self._enter_terms(self._words.take_new_words())
        ends = self._ends.rows
        starts = ends[words]
        lengths = ends[words + 1] - starts
        first = np.cumsum(lengths) - lengths
        positions = np.repeat(starts - first, lengths) + np.arange(lengths.sum())
        return self._parts.rows[positions], lengths

    def hashes(self, terms: Numbers) -> NDArray[np.uint64]:
        """Return the hashes of terms."""
        return self._hashes.rows[terms]

    def names(self, names: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the hashes of names: as written, and folded."""
        rows = [self._names.get(name) or self._name(name) for name in names]
        exact, folded = np.array(rows, np.uint64).reshape(-1, 2).T
        return exact, folded

    def _name(self, name: str) -> tuple[int, int]:
        hashes = self._names[name] = self._hash_of(name), self._hash_of(fold_name(name))
        self._bytes += len(name)
        return hashes

    def _enter_terms(self, words: Sequence[bytes]) -> None:
        """Split new words into terms, in the order of their numbers. Callers hold the lock."""
        texts = [word.decode("utf-8", "surrogatepass") for word in words]
        terms = list(self._split_texts(texts))
        flat = list(chain.from_iterable(terms))
        new_terms = [term for term in dict.fromkeys(flat) if term not in self._terms]
        self._terms.update(zip(new_terms, count(len(self._terms)), strict=False))
        self._hashes.extend(map(self._hash_of, new_terms))
        first = len(self._parts)
        self._parts.extend(map(self._terms.__getitem__, flat))
        ends = accumulate(map(len, terms), initial=first)
        next(ends)
        self._bytes += sum(map(len, new_terms)) + self._parts.item_bytes * len(flat)
        self._ends.extend(ends)


class _WordNumbers(dict[bytes, int]):
    """Words and their numbers. A missing word gets the next number at once, and its terms later."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0  # bytes of all words
        self.new_words = list[bytes]()  # without terms, in the order of their numbers
        self._lock = threading.Lock()

    def __missing__(self, word: bytes) -> int:
        with self._lock:
            number = self.get(word)
            if number is None:
                number = self[word] = len(self)
                self.new_words.append(word)
                self.size += len(word)
        return number

    def take_new_words(self) -> list[bytes]:
        """Return the words without terms, and clear the list."""
        with self._lock:
            new_words, self.new_words = self.new_words, []
        return new_words


class _Column:
    """A growing array. One thread at a time adds rows, while other threads read earlier rows."""

    def __init__(self, kind: DTypeLike) -> None:
        self._rows = np.zeros(1024, kind)
        self._count = 0
        self.item_bytes = self._rows.itemsize

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> NDArray[Any]:
        """All rows, followed by unused room."""
        return self._rows

    def extend(self, values: Iterable[int]) -> None:
        """Add rows, many at a time: one call of NumPy costs as much as a hundred rows."""
        added = np.array(list(values), self._rows.dtype)
        end = self._count + len(added)
        if end > len(self._rows):
            larger = np.zeros(max(end, 2 * len(self._rows)), self._rows.dtype)
            larger[: self._count] = self._rows[: self._count]
            self._rows = larger
        self._rows[self._count : end] = added
        self._count = end
