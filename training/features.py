"""Texts as bags of numbered words: what the trained matrix is multiplied with."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from cocosearchd.embedding.providers.static_model import ComputedDict, letter_runs, run_words
from cocosearchd.embedding.providers.word_tokens import pieces

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
BagRows = tuple[Ints, Floats, Ints]  # word numbers, what each counts, how many each text has


@dataclass(frozen=True, slots=True)
class Bags:
    """Texts as word numbers, compressed by row: text i has `ids[starts[i]:starts[i + 1]]` with as
    many `counts`.
    """

    starts: Ints
    ids: Ints
    counts: Floats

    def take(self, texts: Ints) -> BagRows:
        """(ids, counts, lengths) of some texts, in their order."""
        lengths = self.starts[texts + 1] - self.starts[texts]
        begin = np.repeat(
            self.starts[texts] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths
        )
        at = begin + np.arange(lengths.sum())
        return self.ids[at], self.counts[at], lengths


def bags(counters: Iterable[Mapping[int, float]]) -> Bags:
    """Counted texts, compressed."""
    starts, ids, counts = [0], list[int](), list[float]()
    for counter in counters:
        ids.extend(counter.keys())
        counts.extend(counter.values())
        starts.append(len(ids))
    return Bags(np.array(starts), np.array(ids, dtype=np.int64), np.array(counts, dtype=np.float32))


class Lexicon:
    """Numbers for words, in order of first use."""

    def __init__(self) -> None:
        self._numbers = dict[str, int]()
        self._runs = ComputedDict(lambda run: tuple(self._number(word) for word in run_words(run)))

    def counter(self, text: str) -> Counter[int]:
        """Count the occurrences of each word, by its number."""
        return Counter(chain.from_iterable(map(self._runs.__getitem__, letter_runs(text))))

    def header(self, path: str, names: str, path_share: float) -> dict[int, float]:
        """Count the words of a header; each word of the path counts `path_share`."""
        counts = dict[int, float](self.counter(names))
        for number, count in self.counter(path).items():
            counts[number] = counts.get(number, 0.0) + count * path_share
        return counts

    @property
    def words(self) -> tuple[str, ...]:
        """All words so far; the place is the number."""
        return tuple(self._numbers)

    def _number(self, word: str) -> int:
        return self._numbers.setdefault(word, len(self._numbers))


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`known` words have a row each, after them come `buckets` rows; `row_of` gives a word number
    its row or -1.
    """

    known: tuple[str, ...]
    row_of: Ints
    shares: Floats  # of all words of all texts, for each known word
    buckets: int

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return len(self.known) + self.buckets


def choose_vocabulary(
    lexicon: Lexicon, texts: Sequence[Bags], size: int, minimum: int, buckets: int
) -> Vocabulary:
    """The most frequent words; ties in alphabetical order, so that the choice is deterministic."""
    every = lexicon.words
    totals = sum(np.bincount(bag.ids, weights=bag.counts, minlength=len(every)) for bag in texts)
    assert isinstance(totals, np.ndarray)
    order = sorted(
        np.flatnonzero(totals >= minimum).tolist(),
        key=lambda number: (-totals[number], every[number]),
    )
    chosen = np.array(order[:size], dtype=np.int64)
    row_of = np.full(len(every), -1, dtype=np.int64)
    row_of[chosen] = np.arange(len(chosen))
    shares = (totals[chosen] / totals.sum()).astype(np.float32)
    return Vocabulary(tuple(every[number] for number in chosen), row_of, shares, buckets)


def piece_rows(lexicon: Lexicon, vocabulary: Vocabulary) -> Bags:
    """For every word number the rows of its word's pieces; the counts are shares that make 1."""
    starts, rows, shares = [0], list[int](), list[float]()
    for word in lexicon.words:
        buckets = pieces(word, vocabulary.buckets) if vocabulary.buckets else []
        rows.extend(len(vocabulary.known) + bucket for bucket in buckets)
        shares.extend([1 / len(buckets)] * len(buckets) if buckets else [])
        starts.append(len(rows))
    return Bags(
        np.array(starts), np.array(rows, dtype=np.int64), np.array(shares, dtype=np.float32)
    )
