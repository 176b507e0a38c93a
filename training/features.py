"""Texts as bags of weighted rows: what the trained matrix is multiplied with. Shared by training and evaluation."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.embedding.tokens import pieces, words


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Known words in the order of their rows, then `buckets` rows for the pieces of all other words."""

    words: tuple[str, ...]
    buckets: int

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return len(self.words) + self.buckets


def count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs in all texts."""
    counts = Counter[str]()
    for text in texts:
        counts.update(words(text))
    return counts


def choose_vocabulary(counts: Counter[str], size: int, minimum: int, buckets: int) -> Vocabulary:
    """The most frequent words; ties in alphabetical order, so that the choice is deterministic."""
    known = sorted((word for word, count in counts.items() if count >= minimum), key=lambda w: (-counts[w], w))
    return Vocabulary(tuple(known[:size]), buckets)


@dataclass(frozen=True, slots=True)
class Bags:
    """Texts as word numbers, compressed by row: text i has `ids[starts[i]:starts[i + 1]]` with as many `counts`.

    A number is an index into `lexicon`: all words of all texts, known or not.
    """

    starts: NDArray[np.int64]
    ids: NDArray[np.int64]
    counts: NDArray[np.float32]

    def take(self, texts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """(ids, counts, lengths) of some texts, in their order."""
        lengths = self.starts[texts + 1] - self.starts[texts]
        begin = np.repeat(self.starts[texts] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
        at = begin + np.arange(lengths.sum())
        return self.ids[at], self.counts[at], lengths


class Lexicon:
    """Numbers for words in order of first use, and for each number its rows: one if known, else those of its pieces."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._numbers = {word: number for number, word in enumerate(vocabulary.words)}

    def bags(self, texts: Sequence[str]) -> Bags:
        """Texts -> bags; unseen words get new numbers."""
        starts, ids, counts = [0], list[int](), list[int]()
        for text in texts:
            bag = Counter(words(text))
            ids.extend(self._numbers.setdefault(word, len(self._numbers)) for word in bag)
            counts.extend(bag.values())
            starts.append(len(ids))
        return Bags(np.array(starts), np.array(ids, dtype=np.int64), np.array(counts, dtype=np.float32))

    def piece_rows(self) -> Bags:
        """For every number so far the bucket rows of its word's pieces; their counts are the shares that make 1."""
        starts, rows, shares = [0], list[int](), list[float]()
        offset = len(self.vocabulary.words)
        for word in self._numbers:
            found = pieces(word, self.vocabulary.buckets) if self.vocabulary.buckets else []
            rows.extend(offset + bucket for bucket in found)
            shares.extend([1 / len(found)] * len(found) if found else [])
            starts.append(len(rows))
        return Bags(np.array(starts), np.array(rows, dtype=np.int64), np.array(shares, dtype=np.float32))
