"""Step 4: measures how well a sentence finds the function it documents, in held-out packages.

`python -m training.evaluate HOLDOUT MODEL.npz`. Prints MRR@10 of the model, of the product's
lexical index, and of both together, over one index of all held-out packages, for each language, and
within the sentence's own package.

*Both* is one linear score of all that the product knows of a function: of its chunk and of its file, as the profile
`code` scores files. Its weights are learned as those are: half of the packages is asked with
weights from the other half. *Mean* is simpler: a weighted mean of the two scores.
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.corpus import Question
from cocosearchd.embedding.providers.static_model import Encoder, StaticModel, TermWeights
from cocosearchd.search.code.code_profile import compute_signals
from cocosearchd.search.lexical import ranking_signals
from cocosearchd.search.lexical.analysis.documents import ChunkText, FileText, make_documents
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    SignalMatrix,
    compute_signal_matrix,
    make_snapshot,
)
from cocosearchd.search.lexical.segments.segment import SegmentView, build_segment
from training.export import HEADER, PATH, quantised
from training.ranking.fit import fit
from training.ranking.sentences import SENTENCE
from training.ranking.signals import Row

DEPTH = 200  # of each list, for the fusion
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)  # of the lexical side
NOWHERE = -1e9  # the score of what was not compared
OF_CHUNKS, OF_FILES = (
    ("words", "coverage", "vector"),
    ("file_words", "name_coverage"),
)  # what `both` weighs
Scores = NDArray[np.float32]
Function = dict[str, Any]  # a line of holdout.jsonl: see `mine.Pair`


@dataclass(frozen=True, slots=True)
class Collection:
    """A corpus of functions and the sentences that document some of them: query i is about function
    `targets[i]`.
    """

    functions: tuple[Function, ...]
    texts: tuple[str, ...]  # as they are embedded: header line and body
    packages: NDArray[np.int64]
    queries: tuple[str, ...]
    targets: NDArray[np.int64]
    languages: tuple[str, ...]


def collect(path: Path, caps: dict[str, int]) -> Collection:
    """All functions with their header line; the first `caps[language]` sentences that document one
    function only.
    """
    with path.open(encoding="utf-8") as file:
        functions = [json.loads(line) for line in file]
    names = {
        name: number
        for number, name in enumerate(sorted({function["package"] for function in functions}))
    }
    docs = Counter(function["doc"] for function in functions)
    taken_by_language = Counter[str]()
    queries = list[str]()
    targets = list[int]()
    languages = list[str]()
    for number in np.random.default_rng(1).permutation(len(functions)):
        function = functions[number]
        if (
            function["doc"]
            and docs[function["doc"]] == 1
            and taken_by_language[function["language"]]
            < caps.get(function["language"], caps["other"])
        ):
            taken_by_language[function["language"]] += 1
            queries.append(function["doc"])
            targets.append(int(number))
            languages.append(function["language"])
    texts = tuple(
        f"{function['path']} {function['parent']} {function['name']}\n{function['text']}"
        for function in functions
    )
    packages = np.array([names[function["package"]] for function in functions])
    return Collection(
        tuple(functions), texts, packages, tuple(queries), np.array(targets), tuple(languages)
    )


def encoder_of(path: Path) -> Encoder:
    """The trained matrix as the product will apply it."""
    stored = np.load(path)
    words = tuple(str(word) for word in stored["words"])
    weighing = TermWeights(float(stored["weighing"][0]), HEADER, PATH)
    return Encoder(
        StaticModel(
            path.stem,
            "",
            weighing,
            int(stored["buckets"]),
            words,
            *quantised(stored["matrix"]),
        )
    )


@dataclass(frozen=True, slots=True)
class Index:
    """The functions as the daemon would have them in memory; `places`: path and start byte ->
    number of a function.
    """

    state: IndexSnapshot
    terms: TermCache
    places: dict[tuple[str, int], int]

    def numbers(self, matrix: SignalMatrix) -> NDArray[np.int64]:
        """The function that each compared chunk is."""
        paths = (matrix.paths[file] for file in matrix.chunks.files.tolist())
        return np.array(
            [
                self.places[chunk]
                for chunk in zip(paths, matrix.chunks.keys[:, 0].tolist(), strict=True)
            ],
            np.int64,
        )


def index(collection: Collection, vectors: Scores) -> Index:
    """`vectors`: of the functions, ``(functions, dimension)``."""
    files = defaultdict[str, list[int]](list)
    for number, function in enumerate(collection.functions):
        files[f"{function['package']}/{function['path']}"].append(number)
    terms = TermCache()
    texts = [
        _file(path, [collection.functions[n] for n in files[path]], vectors[files[path]])
        for path in sorted(files)
    ]
    documents = list(make_documents(texts, terms))
    keys = (
        (document.paths[0], start)
        for document in documents
        for start in document.keys[:, 0].tolist()
    )
    places = dict(
        zip(keys, (number for path in sorted(files) for number in files[path]), strict=True)
    )
    return Index(
        make_snapshot((SegmentView(build_segment(documents, vectors.shape[1])),), 1), terms, places
    )


def lexical(collection: Collection, queries: Sequence[str]) -> Scores:
    """Shape ``(queries, functions)``: what the product's lexical index says of each chunk, a
    function being one.
    """
    indexed = index(collection, np.zeros((len(collection.functions), 0), np.float32))
    scores = np.zeros((len(queries), len(collection.functions)), np.float32)
    for row, query in zip(scores, queries, strict=True):
        matrix = compute_signal_matrix(
            indexed.state,
            indexed.terms.make_query_terms(query),
            indexed.terms,
        )
        row[indexed.numbers(matrix)] = matrix.chunks.scores
    return scores


def _file(path: str, functions: Sequence[Function], vectors: Scores) -> FileText:
    ends = list(accumulate(len(function["text"].encode()) + 1 for function in functions))
    chunks = (
        ChunkText(
            start,
            end,
            function["text"],
            (function["name"],),
            f"{function['parent']} {function['name']}",
        )
        for start, end, function in zip([0, *ends], ends, functions, strict=False)
    )
    return FileText(path, 1, functions[0]["language"], tuple(chunks), vectors)


def both(collection: Collection, queries: Sequence[str], encoder: Encoder) -> Scores:
    """Shape ``(queries, functions)``: all evidence in one score; weights of a half of the packages
    from the other.
    """
    indexed = index(collection, encoder.documents(collection.texts))
    rows, numbers = list[Row](), list[NDArray[np.int64]]()
    for query, vector, target in zip(
        queries, encoder.queries(queries), collection.targets.tolist(), strict=True
    ):
        terms = indexed.terms.make_query_terms(query)
        matrix = compute_signal_matrix(indexed.state, terms, indexed.terms, vector)
        numbers.append(indexed.numbers(matrix))
        paths = tuple(matrix.paths[file] for file in matrix.chunks.files.tolist())
        values, answers = of_chunks(matrix), numbers[-1] == target
        rows.append(Row("", Question(query, SENTENCE, ()), terms.is_name, paths, values, answers))
    half = collection.packages[collection.targets] % 2
    scores = np.full((len(queries), len(collection.functions)), NOWHERE, np.float32)
    for side in (0, 1):
        names = (*OF_CHUNKS, *OF_FILES)
        weights = fit([rows[number] for number in np.flatnonzero(half != side)], names)
        for number in np.flatnonzero(half == side).tolist():
            values = rows[number].values
            scores[number, numbers[number]] = sum(
                values[name] * w for name, w in zip(names, weights, strict=True)
            )
    return scores


def of_chunks(matrix: SignalMatrix) -> dict[str, Scores]:
    """Return the signals that `both` weighs, for each compared chunk. A chunk has those of its file."""
    assert matrix.chunks.cosines is not None
    among = matrix.corpus
    values = {
        name: value[matrix.chunks.files]
        for name, value in compute_signals(matrix).items()
        if name in OF_FILES
    }
    values["words"] = ranking_signals.scale_to_maximum(matrix.chunks.scores)
    values["coverage"] = matrix.chunks.coverage
    values["vector"] = np.nan_to_num(
        matrix.chunks.cosines - np.float32(among.cosine_mean)
    ) / np.float32(among.cosine_deviation)
    return values


def mixed(collection: Collection, words: Scores, vectors: Scores) -> tuple[Scores, list[float]]:
    """Both sides together, and the shares of words: for each half of the packages what was best on
    the other half.
    """
    half = collection.packages[collection.targets] % 2
    tried = [fused(words, vectors, share) for share in SHARES]
    gains = np.stack([reciprocal_ranks(scores, collection.targets) for scores in tried])
    best = [int(gains[:, half != side].mean(axis=1).argmax()) for side in (0, 1)]
    return np.where((half == 0)[:, None], tried[best[0]], tried[best[1]]), [
        SHARES[number] for number in best
    ]


def fused(first: Scores, second: Scores, weight: float) -> Scores:
    """Add `weight` x `first` and the rest x `second`, each scaled to 0..1 over its own top 200."""

    def scaled(scores: Scores) -> Scores:
        low = np.partition(scores, -min(DEPTH, scores.shape[1]), axis=1)[
            :, -min(DEPTH, scores.shape[1])
        ][:, None]
        high = scores.max(axis=1, keepdims=True)
        clipped: Scores = np.clip((scores - low) / np.maximum(high - low, 1e-9), 0, 1)
        return clipped

    weighted: Scores = weight * scaled(first) + (1 - weight) * scaled(second)
    return weighted


def reciprocal_ranks(scores: Scores, targets: NDArray[np.int64]) -> NDArray[np.float64]:
    """1 / rank of each target, 0 beyond ten. Of equals the target comes last."""
    target_scores = scores[np.arange(len(targets)), targets][:, None]
    ranks = (scores >= target_scores).sum(axis=1)
    return np.where(ranks <= 10, 1 / ranks, 0.0)


def styled(query: str, style: str) -> str:
    """The sentence as a question, or as two to four of its longest words; `sentence` leaves it as
    it is.
    """
    if style == "question":
        return f"where is the code that {query[0].lower()}{query[1:].rstrip('.')}?"
    if style == "key words":
        long = sorted(
            {word for word in query.split() if len(word) > 3}, key=lambda word: (-len(word), word)
        )
        return " ".join(long[: max(2, min(4, len(long) // 2))]) or query
    return query


def report(collection: Collection, systems: dict[str, Scores]) -> dict[str, Any]:
    """MRR@10 for each system: over all, for each language, and within the own package."""
    same = collection.packages[None, :] == collection.packages[collection.targets][:, None]
    result = dict[str, Any]()
    for title, scores in systems.items():
        ranks = reciprocal_ranks(scores, collection.targets)
        ranks_in_package = reciprocal_ranks(np.where(same, scores, -1e9), collection.targets)
        by = {
            language: round(
                float(
                    ranks[
                        [query_language == language for query_language in collection.languages]
                    ].mean()
                ),
                3,
            )
            for language in sorted(set(collection.languages))
        }
        result[title] = {
            "all": round(float(ranks.mean()), 4),
            "own": round(float(ranks_in_package.mean()), 4),
            **by,
        }
    return result


def main() -> None:
    """Evaluate a model on the held-out packages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("holdout", type=Path)
    parser.add_argument("model", type=Path, nargs="+")
    parser.add_argument(
        "--styles", nargs="+", default=["sentence"], help="sentence, question, key words"
    )
    parser.add_argument("--cap", type=int, default=300)
    parser.add_argument("--python", type=int, default=600)
    arguments = parser.parse_args()
    collection = collect(arguments.holdout, {"python": arguments.python, "other": arguments.cap})
    print(
        len(collection.texts),
        "functions,",
        len(collection.queries),
        dict(Counter(collection.languages)),
    )
    for style in arguments.styles:
        queries = tuple(styled(query, style) for query in collection.queries)
        words = lexical(collection, queries)
        systems = {"words": words}
        for path in arguments.model:
            encoder = encoder_of(path)
            vectors = encoder.queries(queries) @ encoder.documents(collection.texts).T
            mean, shares = mixed(collection, words, vectors)
            systems |= {path.stem: vectors, f"{path.stem} and words, mean {shares}": mean}
            systems[f"{path.stem} and words, both"] = both(collection, queries, encoder)
        for title, row in report(collection, systems).items():
            print(f"{style}: {title} {row}")


if __name__ == "__main__":
    main()
