"""Fits the weights of the profile `code` and says how good they are on repositories they have not
seen.

    python -m training.ranking.fit --checkouts DIR [--write]

Listwise softmax over all files of a repository; the target is uniform over the answers; the loss is
the mean cross entropy per query plus `L2` times the squared weights. It is convex, so Newton's
method finds the one minimum, and the same data give the same weights. Cross-validation is over
repositories (sorted names, index modulo 5), never over queries: files and habits of a repository
are not in its own training set.

The annotated symbols are few, and most are types that a file is named after. So the sets for
symbols learn from names as well, drawn from the same checkouts: each is defined once, and its
answer is the file that defines it. And the annotated questions are asked by somebody who knows the
project, so the sets for plain language learn from sentences of comments as well, see `sentences`.
Neither are part of the figures, but for those called `name` and `sentence`.
"""

import argparse
import asyncio
import json
import subprocess
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.corpus import CATEGORIES, CODE_SUFFIXES
from benchmarks.quality.metric import Result, Target, ndcg
from cocosearchd.config.settings import EmbedderSettings, IndexingSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.indexing.pipeline.chunker import HEADER_VERSION, chunker_id
from cocosearchd.indexing.row_shape import chunker_limits
from training.ranking.sentences import SENTENCE, sentence_rows
from training.ranking.signals import NAME, Row, rows

Floats = NDArray[np.float64]
WEIGHTS = (
    Path(__file__).parents[2] / "daemon" / "cocosearchd" / "search" / "code" / "code_weights.json"
)
L2, STEPS, FOLDS = 2e-3, 50, 5
LEXICAL = (
    "chunk_words",
    "file_words",
    "definition_words",
    "comment_words",
    "path_words",
    "name_coverage",
    "defined_exactly",
    "defined_folded",
    "test",
    "prose",
    "depth",
    "log_size",
)
VECTORS = ("chunk", "file")
PLAIN = (
    "mean_chunk_words",
    "chunk_points",
    "reexporter",
    "log_size_unnamed",
    "mean_chunk_words_unnamed",
)  # of no use to symbols
# what words and vectors count where words say little
WEAK = ("chunk_words_weak", "file_words_weak", "log_size_weak", "chunk_weak")
SYMBOL = ("definition_share", "stem_match")
# Not fitted: the checkouts are folders of sources with few tests. Measured on whole repositories
# (benchmarks.quality.whole_repositories).
FIXED = {name: {"test_unasked": -2.5} for name in ("plain", "plain_without_vectors", "places")}
SETS = {
    "plain": (False, (*LEXICAL, *PLAIN, *VECTORS, "chunk_unnamed", *WEAK)),
    "symbol": (True, (*LEXICAL, *SYMBOL, *VECTORS)),
    "plain_without_vectors": (False, (*LEXICAL, *PLAIN)),
    "symbol_without_vectors": (True, (*LEXICAL, *SYMBOL)),
}
ABLATIONS = {
    "nothing": (),
    "vectors": (*VECTORS, "chunk_unnamed", *WEAK),
    "paths": ("path_words", "name_coverage", "stem_match", "depth", "test", "prose", "reexporter"),
    "definitions": ("definition_words", "defined_exactly", "defined_folded", "definition_share"),
    "sole definitions": ("definition_share",),
    "comments": ("comment_words",),
    "chunk words": (
        "chunk_words",
        "mean_chunk_words",
        "chunk_points",
        "mean_chunk_words_unnamed",
        "chunk_words_weak",
    ),
    "words": (
        "chunk_words",
        "mean_chunk_words",
        "chunk_points",
        "mean_chunk_words_unnamed",
        "chunk_words_weak",
        "file_words",
        "file_words_weak",
        "definition_words",
        "comment_words",
        "path_words",
    ),
    "place and size": (
        "test",
        "prose",
        "reexporter",
        "depth",
        "log_size",
        "log_size_unnamed",
        "log_size_weak",
    ),
    "weakness": WEAK,
}
# asked through the daemon as well: benchmarks.quality --folds
ABLATED = ("vectors", "paths", "definitions")


@dataclass(frozen=True, slots=True)
class Problem:
    """Queries as one matrix: a row per (query, file)."""

    signals: Floats  # (rows, names)
    target: Floats  # (rows,): sums to 1 within a query
    starts: NDArray[np.int64]  # (queries,)
    query: NDArray[np.int64]  # (rows,)

    @classmethod
    def of(cls, query_rows: Sequence[Row], names: Sequence[str]) -> "Problem":
        """Queries without an answer among the files teach nothing and are left out."""
        answered = [row for row in query_rows if row.answers.any()]
        sizes = np.array([len(row.paths) for row in answered], np.int64)
        return cls(
            np.concatenate(
                [np.stack([row.values[name] for name in names], 1) for row in answered]
            ).astype(np.float64),
            np.concatenate([row.answers / row.answers.sum() for row in answered]),
            np.cumsum(sizes) - sizes,
            np.repeat(np.arange(len(answered)), sizes),
        )

    def loss(self, weights: Floats) -> tuple[float, Floats]:
        """The loss, and the probability of each row."""
        scores = self.signals @ weights
        top = np.maximum.reduceat(scores, self.starts)
        shares = np.exp(scores - top[self.query])
        sums = np.add.reduceat(shares, self.starts)
        entropy = (np.log(sums) + top).sum() - (self.target * scores).sum()
        return float(entropy / len(self.starts) + L2 * weights @ weights), shares / sums[self.query]


def fit(query_rows: Sequence[Row], names: Sequence[str]) -> Floats:
    """The weights of `names`, in their order: damped Newton steps from zero."""
    problem = Problem.of(query_rows, names)
    weights, count = np.zeros(len(names)), len(problem.starts)
    for _ in range(STEPS):
        loss, shares = problem.loss(weights)
        weighted = problem.signals * shares[:, None]
        means = np.add.reduceat(weighted, problem.starts, axis=0)
        gradient = problem.signals.T @ (shares - problem.target) / count + 2 * L2 * weights
        curvature = (problem.signals.T @ weighted - means.T @ means) / count + 2 * L2 * np.eye(
            len(names)
        )
        step = np.linalg.solve(curvature, gradient)
        if np.abs(step).max() < 1e-9:
            break
        size = 1.0
        while problem.loss(weights - size * step)[0] > loss and size > 1e-6:
            size /= 2
        weights -= size * step
    return weights


def quality(row: Row, weights: Mapping[str, float]) -> float:
    """NDCG@10 of one query, by files: line spans are the business of the benchmark through the
    daemon.
    """
    scores = sum(
        (row.values[name] * weight for name, weight in weights.items()), np.zeros(len(row.paths))
    )
    best = np.argsort(-scores, kind="stable")[:10]
    targets = [Target(target.path) for target in row.question.targets]
    return ndcg(targets, [Result(row.paths[number], 1, 1) for number in best.tolist()])


def only_code(row: Row) -> Row:
    """The row without files that are no code, as the published systems index it. Scales stay those
    of all files.
    """
    keep = np.array([path.endswith(CODE_SUFFIXES) for path in row.paths])
    paths = tuple(path for path, is_code in zip(row.paths, keep.tolist(), strict=True) if is_code)
    values = {name: value[keep] for name, value in row.values.items()}
    return Row(row.repository, row.question, row.is_name, paths, values, row.answers[keep])


def cross_validated(
    query_rows: Sequence[Row], vectors: bool, without: Collection[str] = ()
) -> dict[str, float]:
    """Mean over repositories, and by category, of queries ranked by weights from other
    repositories.
    """
    suffix = "" if vectors else "_without_vectors"
    names = sorted({row.repository for row in query_rows})
    by_repository, by_category = (
        defaultdict[str, list[float]](list),
        defaultdict[str, list[float]](list),
    )
    for held_out in folds(query_rows):
        trained = fit_all(
            [row for row in query_rows if row.repository not in held_out], suffix, without
        )
        for row in query_rows:
            if row.repository in held_out:
                value = quality(row, trained[("symbol" if row.is_name else "plain") + suffix])
                by_category[row.question.category].append(value)
                if row.question.category in CATEGORIES:
                    by_repository[row.repository].append(value)
    means = {
        category: float(np.mean(by_category[category]))
        for category in (*CATEGORIES, NAME, SENTENCE)
    }
    overall = float(np.mean([np.mean(values) for values in by_repository.values()]))
    return (
        {"overall": overall}
        | means
        | {f"  {name}": float(np.mean(by_repository[name])) for name in names}
    )


def folds(query_rows: Sequence[Row]) -> tuple[frozenset[str], ...]:
    """The repositories that each fold holds out: sorted names, index modulo `FOLDS`."""
    names = sorted({row.repository for row in query_rows})
    return tuple(frozenset(names[fold::FOLDS]) for fold in range(FOLDS))


def write_folds(query_rows: Sequence[Row], folder: Path) -> None:
    """Per fold: the repositories it holds out, and the weights from all others; the same in
    `without-GROUP`.
    """
    places = {folder: ()} | {folder / f"without-{name}": ABLATIONS[name] for name in ABLATED}
    for directory, without in places.items():
        directory.mkdir(parents=True, exist_ok=True)
        for number, held_out in enumerate(folds(query_rows)):
            weights = fit_all(
                [row for row in query_rows if row.repository not in held_out], without=without
            )
            text = json.dumps({"held_out": sorted(held_out), "weights": weights}, indent=1)
            (directory / f"fold-{number}.json").write_text(text + "\n", "utf-8")


def fit_all(
    query_rows: Sequence[Row], suffix: str | None = None, without: Collection[str] = ()
) -> dict[str, dict[str, float]]:
    """Weights by set, of all sets or of those with a suffix; `without` some signals."""
    fitted = {}
    for name, (symbol, signals) in SETS.items():
        names = [signal_name for signal_name in signals if signal_name not in without]
        if suffix is None or name in (f"plain{suffix}", f"symbol{suffix}"):
            weights = fit([row for row in query_rows if row.is_name == symbol], names)
            fitted[name] = {
                signal: round(float(w), 4) for signal, w in zip(names, weights, strict=True)
            } | FIXED.get(name, {})
    return fitted


def ablations(query_rows: Sequence[Row]) -> None:
    """Print what is lost without each group of signals."""
    for name, without in ABLATIONS.items():
        values = cross_validated(query_rows, vectors=True, without=without)
        print(
            f"without {name:<14}",
            " ".join(f"{key} {values[key]:.4f}" for key in ("overall", *CATEGORIES, NAME)),
        )


def provenance(
    query_rows: Sequence[Row], embedder: Embedder, figures: Mapping[str, Mapping[str, float]]
) -> dict[str, object]:
    """Describe the data and the code that the weights were made of."""
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    names, sentences = (
        sum(row.question.category == kind for row in query_rows) for kind in (NAME, SENTENCE)
    )
    where = f"{len({row.repository for row in query_rows})} repositories: benchmarks/quality/data"
    return {
        "made_by": "python -m training.ranking.fit",
        "after_commit": head,
        "data": f"{len(query_rows) - names - sentences} queries, {names} names and {sentences} sentences, {where}",
        "embedder": dict(embedder.fingerprint.pairs()),
        "chunker": chunker_id(chunker_limits(IndexingSettings())),
        "header_version": HEADER_VERSION,
        "l2": L2,
        "ndcg_at_10_cross_validated": {
            name: {key: round(value, 4) for key, value in values.items() if not key.startswith(" ")}
            for name, values in figures.items()
        },
    }


def main() -> None:
    """Fit, print the cross-validated figures, and write the weights if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--checkouts", type=Path, required=True, help="made by python -m benchmarks.quality.clone"
    )
    parser.add_argument("--write", action="store_true", help=f"write {WEIGHTS.name}")
    parser.add_argument(
        "--ablations", action="store_true", help="also say what each group of signals is worth"
    )
    parser.add_argument(
        "--folds",
        type=Path,
        help="a directory for the weights of each fold: benchmarks.quality --folds",
    )
    arguments = parser.parse_args()
    embedder = asyncio.run(open_embedder(EmbedderSettings()))
    query_rows = [
        *rows(arguments.checkouts, embedder),
        *sentence_rows(arguments.checkouts, embedder),
    ]
    code = [only_code(row) for row in query_rows]
    if arguments.ablations:
        ablations(code)
    figures = {
        "with vectors, all files": cross_validated(query_rows, vectors=True),
        "without vectors, all files": cross_validated(query_rows, vectors=False),
        "with vectors, code files": cross_validated(code, vectors=True),
        "without vectors, code files": cross_validated(code, vectors=False),
    }
    for name, values in figures.items():
        print(
            name,
            " ".join(
                f"{key} {value:.4f}" for key, value in values.items() if not key.startswith(" ")
            ),
        )
    if arguments.folds:
        write_folds(query_rows, arguments.folds)
    if arguments.write:
        text = json.dumps(
            {
                "provenance": provenance(query_rows, embedder, figures),
                "weights": fit_all(query_rows),
            },
            indent=1,
        )
        WEIGHTS.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
