"""Step 4: how well a sentence finds the function it documents, in packages that were never trained on.

`python -m training.evaluate HOLDOUT MODEL.npz`. Prints MRR@10 of the model alone, of BM25 alone and of both together,
over one index of all held-out packages, and for each language; in brackets within the sentence's own package.
"""

import argparse
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import snowballstemmer
from numpy.typing import NDArray

from cocosearchd.embedding.tokens import pieces, words

K1, B = 1.2, 0.75  # Robertson and Zaragoza 2009
DEPTH = 200  # of each list, for the fusion
Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Collection:
    """A corpus of functions and the sentences that document some of them: query i is about function `targets[i]`."""

    texts: tuple[str, ...]
    packages: NDArray[np.int64]
    queries: tuple[str, ...]
    targets: NDArray[np.int64]
    languages: tuple[str, ...]


def collect(path: Path, caps: dict[str, int]) -> Collection:
    """All functions with their header line; the first `caps[language]` sentences that document one function only."""
    with path.open(encoding="utf-8") as file:
        functions = [json.loads(line) for line in file]
    names = {name: number for number, name in enumerate(sorted({one["package"] for one in functions}))}
    docs = Counter(one["doc"] for one in functions)
    taken, queries, targets, languages = Counter[str](), list[str](), list[int](), list[str]()
    for number in np.random.default_rng(1).permutation(len(functions)):
        one = functions[number]
        if one["doc"] and docs[one["doc"]] == 1 and taken[one["language"]] < caps.get(one["language"], caps["other"]):
            taken[one["language"]] += 1
            queries.append(one["doc"])
            targets.append(int(number))
            languages.append(one["language"])
    texts = tuple(f"{one['path']} {one['parent']} {one['name']}\n{one['text']}" for one in functions)
    packages = np.array([names[one["package"]] for one in functions])
    return Collection(texts, packages, tuple(queries), np.array(targets), tuple(languages))


class Model:
    """The trained matrix as the product will apply it, in float32."""

    def __init__(self, path: Path) -> None:
        stored = np.load(path)
        self.matrix, self.power, self.buckets = stored["matrix"], float(stored["power"]), int(stored["buckets"])
        self._rows = {str(word): row for row, word in enumerate(stored["words"])}

    def encode(self, texts: tuple[str, ...]) -> Scores:
        """Unit rows, one for each text."""
        vectors = np.zeros((len(texts), self.matrix.shape[1]), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word, count in Counter(words(text)).items():
                row = self._rows.get(word)
                if row is not None:
                    vector += self.matrix[row] * count**self.power
                elif self.buckets:
                    found = [len(self._rows) + bucket for bucket in pieces(word, self.buckets)]
                    vector += self.matrix[found].mean(axis=0) * count**self.power
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Scores = vectors / np.maximum(lengths, 1e-12)
        return unit


def bm25(texts: tuple[str, ...], queries: tuple[str, ...]) -> Scores:
    """Shape ``(queries, texts)``: BM25 over split and stemmed words."""
    stemmer = snowballstemmer.stemmer("english")
    stems = dict[str, str]()

    def bag(text: str) -> Counter[str]:
        found = words(text)
        for word in found:
            if word not in stems:
                stems[word] = stemmer.stemWord(word)
        return Counter(stems[word] for word in found)

    bags = [bag(text) for text in texts]
    lengths = np.array([sum(one.values()) for one in bags], dtype=np.float32)
    norms = K1 * (1 - B + B * lengths / lengths.mean())
    postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, one in enumerate(bags):
        for stem, count in one.items():
            postings[stem].append((number, count))
    scores = np.zeros((len(queries), len(texts)), dtype=np.float32)
    for row, query in zip(scores, queries, strict=True):
        for stem in bag(query):
            if stem in postings:
                at, counts = np.array(postings[stem]).T
                weight = np.log(1 + (len(texts) - len(at) + 0.5) / (len(at) + 0.5))
                row[at] += weight * counts * (K1 + 1) / (counts + norms[at])
    return scores


def fused(left: Scores, right: Scores, weight: float = 0.5) -> Scores:
    """`weight` x left + the rest x right, each brought to 0..1 over its own top 200; 0 below."""

    def scaled(scores: Scores) -> Scores:
        low = np.partition(scores, -min(DEPTH, scores.shape[1]), axis=1)[:, -min(DEPTH, scores.shape[1])][:, None]
        high = scores.max(axis=1, keepdims=True)
        shown: Scores = np.clip((scores - low) / np.maximum(high - low, 1e-9), 0, 1)
        return shown

    both: Scores = weight * scaled(left) + (1 - weight) * scaled(right)
    return both


def reciprocal_ranks(scores: Scores, targets: NDArray[np.int64]) -> NDArray[np.float64]:
    """1 / rank of each target, 0 beyond ten. Of equals the target comes last."""
    own = scores[np.arange(len(targets)), targets][:, None]
    ranks = (scores >= own).sum(axis=1)
    return np.where(ranks <= 10, 1 / ranks, 0.0)


def styled(query: str, style: str) -> str:
    """The sentence as a question, or as two to four of its longest words; `sentence` leaves it as it is."""
    if style == "question":
        return f"where is the code that {query[0].lower()}{query[1:].rstrip('.')}?"
    if style == "key words":
        long = sorted({word for word in query.split() if len(word) > 3}, key=lambda word: (-len(word), word))
        return " ".join(long[: max(2, min(4, len(long) // 2))]) or query
    return query


def report(collection: Collection, systems: dict[str, Scores]) -> dict[str, Any]:
    """MRR@10 for each system: over all, for each language, and within the own package."""
    same = collection.packages[None, :] == collection.packages[collection.targets][:, None]
    result = dict[str, Any]()
    for title, scores in systems.items():
        ranks = reciprocal_ranks(scores, collection.targets)
        own = reciprocal_ranks(np.where(same, scores, -1e9), collection.targets)
        by = {
            language: round(float(ranks[[one == language for one in collection.languages]].mean()), 3)
            for language in sorted(set(collection.languages))
        }
        result[title] = {"all": round(float(ranks.mean()), 4), "own": round(float(own.mean()), 4), **by}
    return result


def main() -> None:
    """Evaluate a model on the held-out packages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("holdout", type=Path)
    parser.add_argument("model", type=Path, nargs="+")
    parser.add_argument("--styles", nargs="+", default=["sentence"], help="sentence, question, key words")
    parser.add_argument("--cap", type=int, default=300)
    parser.add_argument("--python", type=int, default=600)
    arguments = parser.parse_args()
    collection = collect(arguments.holdout, {"python": arguments.python, "other": arguments.cap})
    print(len(collection.texts), "functions,", len(collection.queries), dict(Counter(collection.languages)))
    for style in arguments.styles:
        queries = tuple(styled(query, style) for query in collection.queries)
        lexical = bm25(collection.texts, queries)
        systems = {"bm25": lexical}
        for path in arguments.model:
            model = Model(path)
            dense = model.encode(queries) @ model.encode(collection.texts).T
            systems |= {path.stem: dense, f"{path.stem}+bm25": fused(lexical, dense)}
        for title, row in report(collection, systems).items():
            print(f"{style}: {title} {row}")


if __name__ == "__main__":
    main()
