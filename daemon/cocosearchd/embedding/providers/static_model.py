"""Applies a static model: a text is the weighted sum of its words' vectors, at length 1. NumPy
only, one thread.

A document is a header line and a body. What a chunk is called says more than what is in it, so the
header weighs a fixed share of the body however long that is, and in it the path, up to the first
blank, less than the names after it.

Files of a model `NAME` in a directory, all made by `training`:
- `NAME.json`: version, dimension, `TermWeights`, buckets and the SHA-256 over the weighing and the other three
  in the order given here;
- `NAME.words`: one known word a line, the number of the line is its row;
- `NAME.rows.npy`: int8 ``(words + buckets, dimension)``, stays in the page cache: it is mapped, not read;
- `NAME.scales.npy`: float32 ``(words + buckets,)``; a row's vector is row x scale.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from cocosearchd.embedding.base import Vectors
from cocosearchd.embedding.providers.word_tokens import pieces, strip_accents, words
from cocosearchd.errors import EmbedderUnavailable

PARTS = (".words", ".rows.npy", ".scales.npy")
_RUN = re.compile(r"[^\W_]+")
_BLANKS = {code: " " for code in range(128) if not chr(code).isalnum()}
# Both bound memory, about 10 MB and 4 MB: identifiers repeat within a project, not for ever.
CACHED_RUNS, CACHED_UNKNOWN_WORDS = 60_000, 4096
_BLOCK = 16  # texts at a time: the vectors of their words, about 1 MB, stay in a core's cache
_LEARNED = 64  # words at a time, for the same reason
# word number -> how often: in the body, in the header
Counts = tuple[Mapping[int, float], Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class TermWeights:
    """What a word counts: n ** power if it occurs n times, in a document's body and in its header
    by themselves.
    """

    power: float
    header: float  # sum of the weights of a header for each 1 of the body's sum + 1
    path: float  # of an occurrence in a name, one in the path counts so much


@dataclass(frozen=True, slots=True)
class StaticModel:
    """What the files hold."""

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
    """Map the model. Raises `EmbedderUnavailable` when a file is missing or not the one that was
    trained.
    """
    try:
        about = json.loads((home / f"{name}.json").read_text("utf-8"))
        weighing = TermWeights(about["power"], about["header"], about["path"])
        digest = model_digest(home, name, weighing)
        if digest != about["sha256"]:
            raise EmbedderUnavailable(
                f"the built-in model {name} is damaged: {digest[:12]}…", "install cocosearchd again"
            )
        known = tuple((home / f"{name}.words").read_text("utf-8").split("\n"))
        rows = np.load(home / f"{name}.rows.npy", mmap_mode="r", allow_pickle=False)
        scales = np.load(home / f"{name}.scales.npy", allow_pickle=False)
    except OSError as error:
        raise EmbedderUnavailable(
            f"the built-in model {name} cannot be read: {error}", "install cocosearchd again"
        ) from error
    return StaticModel(about["version"], digest, weighing, about["buckets"], known, rows, scales)


def model_digest(home: Path, name: str, weighing: TermWeights) -> str:
    """SHA-256 over all that shapes a vector, as `NAME.json` records it."""
    digest = hashlib.sha256(repr((weighing.power, weighing.header, weighing.path)).encode())
    for part in PARTS:
        digest.update((home / f"{name}{part}").read_bytes())
    return digest.hexdigest()


def letter_runs(text: str) -> list[str]:
    """The stretches of letters and digits of a text without accents, in order. Words never reach
    across them.
    """
    if text.isascii():
        return text.translate(_BLANKS).split()  # four times as fast as the pattern
    return _RUN.findall(strip_accents(text))


class ComputedDict(dict[str, tuple[int, ...]]):
    """A dictionary that finds out what it is asked for the first time."""

    def __init__(self, find_out: Callable[[str], tuple[int, ...]]) -> None:
        super().__init__()
        self._find_out = find_out

    def __missing__(self, key: str) -> tuple[int, ...]:
        value = self[key] = self._find_out(key)
        return value


class _UnknownWords:
    """Words that are not in the vocabulary, numbered beyond the matrix in order of appearance, and
    their vectors.

    A word's is the mean of those of its pieces, zero where the model has none. They are made when
    they are asked for, many at a time: one by one, that was a sixth of all the time.
    """

    def __init__(self, model: StaticModel, rows: NDArray[np.int8], scales: Vectors) -> None:
        self.first = len(rows)  # number
        self._rows, self._scales = rows, scales
        self._pieces, self._buckets = len(model.words), model.buckets
        self._numbers = dict[str, int]()
        self._waiting = list[str]()  # without a vector yet, the last ones
        self._vectors = np.zeros((_LEARNED, model.dimension), np.float32)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, word: str) -> int:
        """Of a word that is not in the vocabulary."""
        number = self._numbers.get(word)
        if number is None:
            number = self._numbers[word] = self.first + len(self._numbers)
            self._waiting.append(word)
        return number

    def vectors(self, numbers: NDArray[np.int64]) -> Vectors:
        """Of words by number."""
        if self._waiting:
            self._learn()
        return self._vectors.take(numbers - self.first, axis=0)

    def clear(self) -> None:
        """Forget them all."""
        self._numbers.clear()
        self._waiting.clear()

    def _learn(self) -> None:
        number, self._vectors = len(self) - len(self._waiting), _with_room(self._vectors, len(self))
        self._vectors[number : len(self)] = 0
        for start in range(0, len(self._waiting) if self._buckets else 0, _LEARNED):
            found = [
                pieces(word, self._buckets) for word in self._waiting[start : start + _LEARNED]
            ]
            sizes = [len(each) for each in found]
            places = np.fromiter(chain.from_iterable(found), np.int64, sum(sizes)) + self._pieces
            weights = self._scales.take(places) / np.repeat(np.array(sizes, np.float32), sizes)
            rows = self._rows.take(places, axis=0).astype(np.float32)
            ends = np.cumsum(sizes).tolist()
            for row, (first, last) in enumerate(
                zip([0, *ends], ends, strict=False), number + start
            ):
                np.dot(weights[first:last], rows[first:last], out=self._vectors[row])
        self._waiting.clear()


def _with_room(rows: Vectors, count: int) -> Vectors:
    """The rows in an array that has at least `count` of them, and seldom has to grow."""
    if count <= len(rows):
        return rows
    larger = np.zeros((max(count, 2 * len(rows)), rows.shape[1]), np.float32)
    larger[: len(rows)] = rows
    return larger


class Encoder:
    """Texts -> vectors with one model. Remembers what identifiers consist of; not to be shared
    between threads.
    """

    def __init__(self, model: StaticModel) -> None:
        self._model = model
        # As plain arrays: the class of a mapped one costs more in each call than the call itself.
        self._rows, self._scales = np.asarray(model.rows), np.asarray(model.scales)
        self._known = {word: number for number, word in enumerate(model.words)}
        self._unknown = _UnknownWords(model, self._rows, self._scales)
        # runs, and those with unknown words
        self._runs, self._strange = ComputedDict(self._words_of), list[str]()

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Shape ``(len(texts), dimension)``, L2-normalised rows; a text without a letter or digit
        gives a zero row.
        """
        return self._encoded(texts, self._query)

    def documents(self, texts: Sequence[str]) -> Vectors:
        """As `queries`, of texts whose first line is a header: a path, and names after a blank."""
        return self._encoded(texts, self._document)

    def _encoded(self, texts: Sequence[str], counted: Callable[[str], Counts]) -> Vectors:
        vectors = np.zeros((len(texts), self._model.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BLOCK):
            if len(self._runs) > CACHED_RUNS or len(self._unknown) > CACHED_UNKNOWN_WORDS:
                self._forget()
            block = slice(start, start + _BLOCK)
            self._add([counted(text) for text in texts[block]], vectors[block])
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
        """The words in order, as numbers. Half of all the time goes here: no loop of ours
        inside.
        """
        return chain.from_iterable(map(self._runs.__getitem__, letter_runs(text)))

    def _words_of(self, run: str) -> tuple[int, ...]:
        found = words(run)
        numbers = tuple(map(self._known.get, found))
        if None not in numbers:
            return cast(tuple[int, ...], numbers)
        self._strange.append(run)
        return tuple(
            self._unknown.number(word) if number is None else number
            for word, number in zip(found, numbers, strict=True)
        )

    def _add(self, texts: Sequence[Counts], sums: Vectors) -> None:
        """Add to each row the vectors of its text's words. All at once but the last step: calls of
        NumPy cost most.
        """
        parts = [part for text in texts for part in text]
        sizes = [len(part) for part in parts]
        numbers = np.fromiter(chain.from_iterable(parts), dtype=np.int64, count=sum(sizes))
        counts = chain.from_iterable(part.values() for part in parts)
        weights = (
            np.fromiter(counts, dtype=np.float32, count=len(numbers)) ** self._model.weighing.power
        )
        part_of = np.repeat(np.arange(len(parts)), sizes)
        inside, above = np.bincount(part_of, weights, len(parts)).reshape(-1, 2).T
        shares = np.ones((len(texts), 2), dtype=np.float32)
        shares[:, 1] = self._model.weighing.header * (inside + 1) / np.where(above > 0, above, 1)
        weights *= shares.ravel()[part_of]
        vectors = self._vectors(numbers, weights)
        ends = np.cumsum(sizes)[1::2].tolist()
        for row, start, end in zip(sums, [0, *ends], ends, strict=False):
            np.dot(weights[start:end], vectors[start:end], out=row)

    def _vectors(self, numbers: NDArray[np.int64], weights: Vectors) -> Vectors:
        """The unscaled rows of words; their scales go into `weights`, which are fewer."""
        unknown = np.flatnonzero(numbers >= self._unknown.first)
        if not len(unknown):
            weights *= self._scales.take(numbers)
            return self._rows.take(numbers, axis=0).astype(np.float32)
        given = self._unknown.vectors(numbers[unknown])
        numbers[unknown] = 0
        scales, vectors = (
            self._scales.take(numbers),
            self._rows.take(numbers, axis=0).astype(np.float32),
        )
        scales[unknown], vectors[unknown] = 1, given
        weights *= scales
        return vectors

    def _forget(self) -> None:
        if len(self._runs) > CACHED_RUNS:
            self._runs.clear()
        # Runs of known words alone stay: no number of theirs is given anew.
        for run in self._strange:
            self._runs.pop(run, None)
        self._strange.clear()
        self._unknown.clear()
