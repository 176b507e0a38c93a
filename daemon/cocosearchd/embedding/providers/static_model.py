"""Applies a static model: a text's vector is the weighted sum of its words' vectors, at length 1.

NumPy only, one thread.

A document is a header line and a body. The names of a chunk say more than its content: the header
therefore has a fixed share of the body's weight, for a body of any length. In the header, the path
(up to the first blank) weighs less than the names after it.

Files of a model `NAME` in a directory, all made by `training`:
- `NAME.json`: version, dimension, `TermWeights`, buckets and the SHA-256 over the weights and the
  other three files, in this order;
- `NAME.words`: one word per line; the number of the line is the row of the word;
- `NAME.rows.npy`: int8 ``(words + buckets, dimension)``, mapped, not read: it stays in the page
  cache;
- `NAME.scales.npy`: float32 ``(words + buckets,)``; a row's vector is row x scale.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cocosearchd.embedding.base import Vectors
from cocosearchd.embedding.providers.word_pieces import BATCH_WORDS, number_pieces
from cocosearchd.embedding.providers.word_tokens import words
from cocosearchd.errors import EmbedderUnavailable

PARTS = (".words", ".rows.npy", ".scales.npy")
# ASCII characters that are no letters or digits become blanks.
_BLANKS = bytes(code if code > 127 or chr(code).isalnum() else ord(" ") for code in range(256))
# Limits of the caches, about 10 MB and 4 MB: identifiers repeat within a project, not in others.
CACHED_RUNS = 60_000
CACHED_UNKNOWN_WORDS = 4096
# Bytes of a cached run. A longer run is a sentence without blanks, which seldom repeats.
LONGEST_CACHED_RUN = 64
_BLOCK_TEXTS = 16  # the vectors of their words, about 1 MB, stay in a core's cache
_BLOCK_WORDS = 64  # limited for the same reason
# Word number -> number of occurrences, in the body and in the header.
Counts = tuple[Mapping[int, float], Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class TermWeights:
    """The weights of words: n ** power for n occurrences, separately in body and header."""

    power: float
    header: float  # the sum of a header's weights, as a multiple of the body's sum + 1
    path: float  # weight of an occurrence in the path; one in a name has 1


@dataclass(frozen=True, slots=True)
class StaticModel:
    """The contents of the files."""

    version: str
    sha256: str
    weighing: TermWeights
    buckets: int
    words: tuple[str, ...]
    rows: NDArray[np.int8]
    scales: NDArray[np.float32]

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        return int(self.rows.shape[1])


def load(home: Path, name: str) -> StaticModel:
    """Map the model.

    Raises `EmbedderUnavailable` when a file is missing or is not the trained one.
    """
    try:
        about = json.loads((home / f"{name}.json").read_text("utf-8"))
        weighing = TermWeights(about["power"], about["header"], about["path"])
        digest = model_digest(home, name, weighing)
        if digest != about["sha256"]:
            raise EmbedderUnavailable(
                f"the built-in model {name} is damaged: {digest[:12]}…",
                "install cocosearchd again",
            )
        vocabulary = tuple((home / f"{name}.words").read_text("utf-8").split("\n"))
        rows = np.load(home / f"{name}.rows.npy", mmap_mode="r", allow_pickle=False)
        scales = np.load(home / f"{name}.scales.npy", allow_pickle=False)
    except OSError as error:
        raise EmbedderUnavailable(
            f"the built-in model {name} cannot be read: {error}", "install cocosearchd again"
        ) from error
    return StaticModel(
        about["version"], digest, weighing, about["buckets"], vocabulary, rows, scales
    )


def model_digest(home: Path, name: str, weighing: TermWeights) -> str:
    """Return SHA-256 over everything that shapes a vector, as in `NAME.json`."""
    digest = hashlib.sha256(repr((weighing.power, weighing.header, weighing.path)).encode())
    for part in PARTS:
        digest.update((home / f"{name}{part}").read_bytes())
    return digest.hexdigest()


def letter_runs(text: str) -> list[bytes]:
    """Split a text at the ASCII characters that are no letters or digits, in order, as UTF-8.

    Words never extend beyond a run. Splitting bytes is four times as fast as splitting text with
    characters that are not ASCII.
    """
    return text.encode("utf-8", "surrogatepass").translate(_BLANKS).split()


def run_words(run: bytes) -> list[str]:
    """Split a run into words, as `word_tokens.words` does."""
    return words(run.decode("utf-8", "surrogatepass"))


class ComputedDict(dict[bytes, tuple[int, ...]]):
    """A dictionary that computes missing values, and stores those of short keys."""

    def __init__(self, compute: Callable[[bytes], tuple[int, ...]]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: bytes) -> tuple[int, ...]:
        value = self._compute(key)
        if len(key) <= LONGEST_CACHED_RUN:
            self[key] = value
        return value


class _NumberedWords(dict[str, int]):
    """Numbers of words. Words outside of the vocabulary are numbered as they appear."""

    def __init__(self, vocabulary: Sequence[str], first_unknown: int) -> None:
        super().__init__(zip(vocabulary, range(len(vocabulary)), strict=True))
        self.first_unknown = first_unknown
        self.unknown = list[str]()  # in the order of their numbers

    def __missing__(self, word: str) -> int:
        number = self[word] = self.first_unknown + len(self.unknown)
        self.unknown.append(word)
        return number

    def forget_unknown(self) -> None:
        """Forget all words outside of the vocabulary. Their numbers are given again."""
        for word in self.unknown:
            del self[word]
        self.unknown.clear()


class _UnknownVectors:
    """Vectors of the words outside of the vocabulary.

    The vector of a word is the mean of its pieces' vectors; zero if the model has no pieces. Vectors
    are computed when they are needed, many at a time: one by one took a sixth of all the time.
    """

    def __init__(
        self, model: StaticModel, rows: NDArray[np.int8], scales: Vectors, words: _NumberedWords
    ) -> None:
        self._rows = rows
        self._scales = scales
        self._words = words
        self._first_piece = len(model.words)
        self._buckets = model.buckets
        self._count = 0  # words whose vectors are computed: the first ones
        self._vectors = np.zeros((_BLOCK_WORDS, model.dimension), np.float32)

    def vectors(self, numbers: NDArray[np.int64]) -> Vectors:
        """Return the vectors of words by number."""
        if self._count < len(self._words.unknown):
            self._compute_missing()
        return self._vectors.take(numbers - self._words.first_unknown, axis=0)

    def clear(self) -> None:
        """Drop all vectors."""
        self._count = 0

    def _compute_missing(self) -> None:
        first = self._count
        missing = self._words.unknown[first:]
        self._count += len(missing)
        self._vectors = _with_room(self._vectors, self._count)
        self._vectors[first : self._count] = 0
        for start in range(0, len(missing) if self._buckets else 0, BATCH_WORDS):
            batch = missing[start : start + BATCH_WORDS]
            numbers, sizes = number_pieces(batch, self._buckets)
            vectors = self._vectors[first + start : first + start + len(batch)]
            self._write_means(numbers + self._first_piece, sizes, vectors)

    def _write_means(
        self, numbers: NDArray[np.int64], sizes: NDArray[np.int64], vectors: Vectors
    ) -> None:
        """Write the mean of the rows of each word to its vector. The rows of a word are adjacent."""
        weights = self._scales.take(numbers) / np.repeat(sizes, sizes).astype(np.float32)
        ends = np.cumsum(sizes).tolist()
        starts = [0, *ends[:-1]]
        for first in range(0, len(vectors), _BLOCK_WORDS):
            words_of_block = range(first, min(first + _BLOCK_WORDS, len(vectors)))
            offset = starts[first]
            rows = self._rows.take(numbers[offset : ends[words_of_block[-1]]], axis=0)
            rows = rows.astype(np.float32)
            for word in words_of_block:
                start, end = starts[word], ends[word]
                np.dot(weights[start:end], rows[start - offset : end - offset], out=vectors[word])


def _with_room(rows: Vectors, count: int) -> Vectors:
    """Return the rows in an array of at least `count` rows, which seldom has to grow."""
    if count <= len(rows):
        return rows
    larger = np.zeros((max(count, 2 * len(rows)), rows.shape[1]), np.float32)
    larger[: len(rows)] = rows
    return larger


class Encoder:
    """Turns texts into vectors with a model.

    Caches the words of identifiers; threads must not share it.
    """

    def __init__(self, model: StaticModel) -> None:
        self._model = model
        # Plain arrays: with the class of mapped arrays, each call costs more than twice as much.
        self._rows = np.asarray(model.rows)
        self._scales = np.asarray(model.scales)
        self._words = _NumberedWords(model.words, len(model.rows))
        self._unknown_vectors = _UnknownVectors(model, self._rows, self._scales, self._words)
        self._runs = ComputedDict(self._word_numbers)
        self._unknown_runs = list[bytes]()  # those with unknown words

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Encode queries: shape ``(len(texts), dimension)``, L2-normalised rows.

        A text without a letter or digit gives a zero row.
        """
        return self._encode(texts, self._query)

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Encode documents as `queries` does.

        Their first line is a header: a path, and names after a blank.
        """
        return self._encode(texts, self._document)

    def _encode(self, texts: Sequence[str], count: Callable[[str], Counts]) -> Vectors:
        vectors = np.zeros((len(texts), self._model.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BLOCK_TEXTS):
            unknown_count = len(self._words.unknown)
            if len(self._runs) > CACHED_RUNS or unknown_count > CACHED_UNKNOWN_WORDS:
                self._forget()
            block = slice(start, start + _BLOCK_TEXTS)
            self._add([count(text) for text in texts[block]], vectors[block])
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        vectors /= np.where(lengths > 0, lengths, 1)[:, None]
        return vectors

    def _query(self, text: str) -> Counts:
        return Counter(self._numbers(text)), {}

    def _document(self, text: str) -> Counts:
        header, _, body = text.partition("\n")
        return Counter(self._numbers(body)), self._header(header)

    def _header(self, text: str) -> dict[int, float]:
        path, _, names = text.partition(" ")
        counts = dict[int, float](Counter(self._numbers(names)))
        for number in self._numbers(path):
            counts[number] = counts.get(number, 0.0) + self._model.weighing.path
        return counts

    def _numbers(self, text: str) -> Iterable[int]:
        """Return the words in order, as numbers.

        Half of all the time is spent here, so this function has no Python loop.
        """
        return chain.from_iterable(map(self._runs.__getitem__, letter_runs(text)))

    def _word_numbers(self, run: bytes) -> tuple[int, ...]:
        numbers = tuple(map(self._words.__getitem__, run_words(run)))
        if max(numbers, default=0) >= self._words.first_unknown:
            self._unknown_runs.append(run)
        return numbers

    def _add(self, texts: Sequence[Counts], sums: Vectors) -> None:
        """Add to each row the vectors of its text's words.

        All steps except the last handle all texts at once, because calls of NumPy cost most.
        """
        parts = [part for text in texts for part in text]
        sizes = [len(part) for part in parts]
        numbers = np.fromiter(chain.from_iterable(parts), dtype=np.int64, count=sum(sizes))
        counts = chain.from_iterable(part.values() for part in parts)
        weights = (
            np.fromiter(counts, dtype=np.float32, count=len(numbers)) ** self._model.weighing.power
        )
        if any(header for _, header in texts):  # queries have none
            self._weigh_headers(sizes, weights)
        vectors = self._vectors(numbers, weights)
        ends = np.cumsum(sizes)[1::2].tolist()
        for row, start, end in zip(sums, [0, *ends], ends, strict=False):
            np.dot(weights[start:end], vectors[start:end], out=row)

    def _weigh_headers(self, sizes: Sequence[int], weights: Vectors) -> None:
        """Multiply the share of each header into the weights of its words.

        `sizes` are the numbers of words: of a body and of its header in turn.
        """
        part_of = np.repeat(np.arange(len(sizes)), sizes)
        body, header = np.bincount(part_of, weights, len(sizes)).reshape(-1, 2).T
        shares = np.ones((len(body), 2), dtype=np.float32)
        shares[:, 1] = self._model.weighing.header * (body + 1) / np.where(header > 0, header, 1)
        weights *= shares.ravel()[part_of]

    def _vectors(self, numbers: NDArray[np.int64], weights: Vectors) -> Vectors:
        """Return the unscaled rows of words; multiply their scales into the `weights`."""
        unknown = np.flatnonzero(numbers >= self._words.first_unknown)
        if not len(unknown):
            weights *= self._scales.take(numbers)
            return self._rows.take(numbers, axis=0).astype(np.float32)
        unknown_vectors = self._unknown_vectors.vectors(numbers[unknown])
        numbers[unknown] = 0
        scales = self._scales.take(numbers)
        vectors = self._rows.take(numbers, axis=0).astype(np.float32)
        scales[unknown] = 1
        vectors[unknown] = unknown_vectors
        weights *= scales
        return vectors

    def _forget(self) -> None:
        if len(self._runs) > CACHED_RUNS:
            self._runs.clear()
        # Runs of vocabulary words stay, because their numbers are not reused.
        for run in self._unknown_runs:
            self._runs.pop(run, None)
        self._unknown_runs.clear()
        self._words.forget_unknown()
        self._unknown_vectors.clear()
