"""Fits the weights of places and of relevance, and prints how sure an answer is that says so.

    python -m training.ranking.places --checkouts DIR --folds DIR [--write]

*Places*: listwise softmax over the chunks of the first ten files. The questions are sentences of
comments, asked of an index without comments; right is the chunk that the comment was in.

*Relevance*: logistic regression over the best chunk of each of the first ten files. Right are the
files of the annotated queries, the chunks of names and of sentences. Queries about other
repositories have no right file: they say what a hopeless list looks like.

Files are ranked with the weights of the fold that has not seen the repository (`training.ranking.fit
--folds`). Each fold file gets weights that were fitted on its training repositories; `--write` puts
those that were fitted on all into the shipped file.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.corpus import CODE_SUFFIXES, Question, questions, repositories
from benchmarks.quality.metric import Result, Target, found_by
from benchmarks.quality.names_and_sentences import chosen_of, indexed, names, weights_for
from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.search.code.code_profile import (
    Weights,
    rank_chunks,
    relevance_scores,
    score_files,
    score_matrix,
)
from cocosearchd.search.code.place_scores import (
    FITTED_PLACE_SIGNALS,
    RELEVANCE_SIGNALS,
    place_signals,
    relevance_signals,
)
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    SignalMatrix,
    compute_signal_matrix,
)
from cocosearchd.search.relevance import INTERCEPT, probability
from training.ranking.fit import FIXED, WEIGHTS
from training.ranking.sentences import SENTENCE, without_comments
from training.ranking.signals import NAME, Place, read

Floats = NDArray[np.float64]
SHOWN = 10  # files that are looked at: a page of results
SAMPLES, FOREIGN = 20, 20  # of each repository: names, sentences; queries about other repositories
PLACE_L2, RELEVANCE_L2, STEPS = 3e-3, 1.0, 50
PLACES = tuple(sorted(FITTED_PLACE_SIGNALS))
RELEVANCE = tuple(sorted(RELEVANCE_SIGNALS - {INTERCEPT}))
FOREIGN_QUERY = "foreign"


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question with its answers: targets, or one chunk (`place`)."""

    text: str
    category: str
    targets: tuple[Target, ...] = ()
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """A question's signals: of the chunks of the shown files, and of their best chunks."""

    repository: str
    category: str
    chunks: Floats  # (chunks, PLACES)
    right_chunks: NDArray[np.bool_]  # (chunks,)
    results: Floats  # (results, RELEVANCE), with vectors
    results_without: Floats  # (results, RELEVANCE), without vectors
    right: NDArray[np.bool_]  # (results,)
    right_without: NDArray[np.bool_]  # (results,)


def main() -> int:
    """Collect the examples, fit, write the folds and print the calibration."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkouts", type=Path, required=True)
    parser.add_argument("--folds", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help=f"write {WEIGHTS.name}")
    arguments = parser.parse_args()
    embedder = asyncio.run(open_embedder(EmbedderSettings()))
    examples = [
        example
        for repository in repositories()
        for example in examples_of(
            repository.name,
            arguments.checkouts / repository.name / repository.benchmark_root,
            weights_for(repository.name, arguments.folds),
            embedder,
        )
    ]
    expected, observed = list[Floats](), list[Floats]()
    for file in sorted(arguments.folds.glob("**/fold-*.json")):
        body = json.loads(file.read_text("utf-8"))
        held_out = frozenset(body["held_out"])
        fitted = fit([example for example in examples if example.repository not in held_out])
        body["weights"] |= fitted
        file.write_text(json.dumps(body, indent=1) + "\n", "utf-8")
        if file.parent == arguments.folds:
            for example in (example for example in examples if example.repository in held_out):
                expected.append(estimated(fitted["relevance"], example.results))
                observed.append(example.right.astype(np.float64))
    print_calibration(np.concatenate(expected), np.concatenate(observed))
    if arguments.write:
        write_shipped(fit(examples))
    return 0


def examples_of(
    repository: str, root: Path, weights: Weights, embedder: Embedder
) -> Iterator[Example]:
    """Yield the examples of one repository."""
    files = [file for file in read(root) if file[2] and file[0].endswith(CODE_SUFFIXES)]
    random_ = random.Random(repository)
    name_samples = chosen_of(names(files), random_, SAMPLES)
    sentences, silent = without_comments(files)
    questions_by_kind = {
        "with comments": [
            *(AskedQuestion(sample.text, NAME, place=sample.place) for sample in name_samples),
            *(AskedQuestion(q.text, q.category, q.targets) for q in questions(repository)),
            *(
                AskedQuestion(q.text, FOREIGN_QUERY)
                for q in random_.sample(foreign_questions(repository), FOREIGN)
            ),
        ],
        "without comments": [
            AskedQuestion(sample.text, SENTENCE, place=sample.place)
            for sample in chosen_of(sentences, random_, SAMPLES)
        ],
    }
    for corpus, kind in ((files, "with comments"), (silent, "without comments")):
        snapshot, terms = indexed(corpus, embedder)
        for question in questions_by_kind[kind]:
            example = make_example(repository, snapshot, terms, question, weights, embedder)
            if example is not None:
                yield example


def foreign_questions(repository: str) -> list[Question]:
    """Return the annotated queries about all other repositories."""
    return [
        question
        for candidate in repositories()
        if candidate.name != repository
        for question in questions(candidate.name)
    ]


def make_example(
    repository: str,
    snapshot: IndexSnapshot,
    terms: TermCache,
    question: AskedQuestion,
    weights: Weights,
    embedder: Embedder,
) -> Example | None:
    """Ask a question with and without its vector; None where there is no result."""
    query = terms.make_query_terms(question.text, common=snapshot.common_language)
    vector = asyncio.run(embedder.embed_query(question.text))
    matrix = compute_signal_matrix(snapshot, query, terms, vector)
    without = compute_signal_matrix(snapshot, query, terms)
    chunks, right_chunks = shown_chunks(matrix, query.is_name, weights, question)
    results, right = shown_results(matrix, query.is_name, weights, question)
    results_without, right_without = shown_results(without, query.is_name, weights, question)
    if not len(results):
        return None
    return Example(
        repository,
        question.category,
        chunks,
        right_chunks,
        results,
        results_without,
        right,
        right_without,
    )


def shown_chunks(
    matrix: SignalMatrix, is_name: bool, weights: Weights, question: AskedQuestion
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the place signals of all chunks of the shown files, and which are right."""
    ranked = rank_chunks(score_matrix(matrix, is_name, weights), SHOWN)
    paths = {chunk.path for chunk in ranked}
    chunk_numbers = np.flatnonzero(
        [matrix.paths[file] in paths for file in matrix.chunks.files.tolist()]
    )
    signals = place_signals(matrix, score_files(matrix, is_name, weights)[0])
    right = np.array(
        [
            (matrix.paths[int(matrix.chunks.files[chunk])], int(matrix.chunks.keys[chunk, 0]))
            == question.place
            for chunk in chunk_numbers.tolist()
        ],
        np.bool_,
    )
    return np.stack([signals[name][chunk_numbers] for name in PLACES], axis=1).astype(
        np.float64
    ), right


def shown_results(
    matrix: SignalMatrix, is_name: bool, weights: Weights, question: AskedQuestion
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the relevance signals of the best chunk of each shown file, and which are right."""
    ranked = rank_chunks(score_matrix(matrix, is_name, weights), SHOWN)
    best = {chunk.path: chunk.start_byte for chunk in reversed(ranked)}
    scores, by_signal = score_files(matrix, is_name, weights)
    signals = relevance_signals(
        matrix, is_name, *relevance_scores(matrix, is_name, weights, scores, by_signal)
    )
    numbers = {
        (matrix.paths[file], start): number
        for number, (file, start) in enumerate(
            zip(matrix.chunks.files.tolist(), matrix.chunks.keys[:, 0].tolist(), strict=True)
        )
    }
    rows = [numbers[path, start] for path, start in best.items()]
    right = [is_right(path, question) for path in best]
    values = np.stack([signals[name][rows] for name in RELEVANCE], axis=1).astype(np.float64)
    return values, np.array(right, np.bool_)


def is_right(path: str, question: AskedQuestion) -> bool:
    """Return True if a file answers a question."""
    if question.place is not None:
        return path == question.place[0]
    return any(found_by(replace(t, start_line=0), Result(path, 0, 0)) for t in question.targets)


def fit(examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """Fit the three sets of weights."""
    sentences = [
        (example.chunks, example.right_chunks)
        for example in examples
        if example.category == SENTENCE and example.right_chunks.any()
    ]
    return {
        "places": dict(zip(PLACES, fit_softmax(sentences).round(4).tolist(), strict=True))
        | FIXED["places"],
        "relevance": fit_relevance(
            np.concatenate([example.results for example in examples]),
            np.concatenate([example.right for example in examples]),
        ),
        "relevance_without_vectors": fit_relevance(
            np.concatenate([example.results_without for example in examples]),
            np.concatenate([example.right_without for example in examples]),
        ),
    }


def fit_softmax(rows: Sequence[tuple[Floats, NDArray[np.bool_]]]) -> Floats:
    """Return the weights of the smallest mean cross entropy, by Newton's method with halved steps."""
    scale = np.concatenate([values for values, _ in rows]).std(axis=0) + 1e-9
    scaled = [(values / scale, right) for values, right in rows]
    weights = np.zeros(len(scale))
    loss = softmax_loss(scaled, weights)
    for _ in range(STEPS):
        gradient, hessian = PLACE_L2 * weights, PLACE_L2 * np.eye(len(scale))
        for values, right in scaled:
            shares = softmax(values @ weights)
            mean = shares @ values
            gradient = gradient + (shares - right / right.sum()) @ values / len(scaled)
            hessian = hessian + (
                (values * shares[:, None]).T @ values - np.outer(mean, mean)
            ) / len(scaled)
        step, length = np.linalg.solve(hessian, gradient), 1.0
        while length > 1e-4 and softmax_loss(scaled, weights - length * step) > loss:
            length /= 2
        weights = weights - length * step
        improvement, loss = loss - softmax_loss(scaled, weights), softmax_loss(scaled, weights)
        if improvement < 1e-7:
            break
    result: Floats = weights / scale
    return result


def softmax(scores: Floats) -> Floats:
    """Return the shares of scores."""
    powers: Floats = np.exp(scores - scores.max())
    return powers / powers.sum()


def softmax_loss(rows: Sequence[tuple[Floats, NDArray[np.bool_]]], weights: Floats) -> float:
    """Return the mean cross entropy with its penalty."""
    losses = [-np.log(softmax(values @ weights)[right] + 1e-12).mean() for values, right in rows]
    return float(np.mean(losses) + PLACE_L2 * weights @ weights / 2)


def fit_relevance(values: Floats, right: NDArray[np.bool_]) -> dict[str, float]:
    """Return the weights of a logistic regression, with its intercept."""
    used = values.std(axis=0) > 0
    rows = np.column_stack([values[:, used], np.ones(len(values))])
    penalty = np.append(np.full(rows.shape[1] - 1, RELEVANCE_L2), 1e-6)
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        shares = 1 / (1 + np.exp(-rows @ weights))
        gradient = rows.T @ (shares - right) + penalty * weights
        hessian = (rows * (shares * (1 - shares))[:, None]).T @ rows + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient)
        weights = weights - step
        if np.abs(step).max() < 1e-6:
            break
    names_used = [name for name, is_used in zip(RELEVANCE, used.tolist(), strict=True) if is_used]
    return dict(zip((*names_used, INTERCEPT), weights.round(4).tolist(), strict=True))


def estimated(weights: Mapping[str, float], values: Floats) -> Floats:
    """Return the estimated relevance of rows of RELEVANCE."""
    signals = {name: values[:, n].astype(np.float32) for n, name in enumerate(RELEVANCE)}
    return probability(weights, signals).astype(np.float64)


def print_calibration(expected: Floats, observed: Floats) -> None:
    """Print expected against seen, by tenths, and the expected calibration error."""
    tenths = np.minimum((expected * 10).astype(int), 9)
    error = 0.0
    sys.stdout.write("relevance   results  expected  seen\n")
    for tenth in range(10):
        chosen = tenths == tenth
        if chosen.any():
            error += abs(expected[chosen].mean() - observed[chosen].mean()) * chosen.mean()
            sys.stdout.write(
                f"{tenth / 10:.1f} to {(tenth + 1) / 10:.1f}  {chosen.sum():7}  "
                f"{expected[chosen].mean():8.3f}  {observed[chosen].mean():.3f}\n"
            )
    sys.stdout.write(f"expected calibration error {error:.4f}\n")


def write_shipped(fitted: Mapping[str, dict[str, float]]) -> None:
    """Put the sets into the shipped file, with the commit that they were made after."""
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    body = json.loads(WEIGHTS.read_text("utf-8"))
    body["provenance"]["places_made_by"] = "python -m training.ranking.places"
    body["provenance"]["places_after_commit"] = head
    body["weights"] |= fitted
    WEIGHTS.write_text(json.dumps(body, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
