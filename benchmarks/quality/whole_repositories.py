"""Annotated queries over whole repositories, tests and documents included, as people index them.

    python -m benchmarks.quality.whole_repositories --checkouts DIRECTORY [--folds DIRECTORY]

DIRECTORY/NAME has all files of the pinned revision; repositories that are not there are left out.
The annotations name files of the source folder only, so a test or a document never counts as an
answer. Each line has another weight for tests that a sentence does not ask for (`test_unasked`): it
is not fitted, because the source folders that the other weights are fitted on have few tests.
"""

import argparse
import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.measure import machine
from benchmarks.quality.corpus import Question, Repository, questions, repositories
from benchmarks.quality.metric import Result, Target, ndcg
from benchmarks.quality.names_and_sentences import indexed, weights_for
from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.languages.patterns.path_roles import is_test
from cocosearchd.search.code.code_profile import Weights, rank_chunks, score_matrix
from cocosearchd.search.lexical.analysis.terms import QueryTerms, TermCache
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    SignalMatrix,
    compute_signal_matrix,
)
from training.ranking.signals import read

SHOWN = 10
TEST_WEIGHTS = (0.0, -1.0, -2.0, -2.5, -3.0, -5.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """The figures of one question: NDCG@10, tests among the first ten, 1 if the first is one."""

    repository: str
    is_name: bool
    ndcg: float
    tests: int
    first_is_test: float


def main() -> None:
    """Ask every question with every weight, and print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkouts", type=Path, required=True)
    parser.add_argument("--folds", type=Path, help="weights that have not seen the repository")
    arguments = parser.parse_args()
    embedder = asyncio.run(open_embedder(EmbedderSettings()))
    answers: dict[float, list[Answer]] = {weight: [] for weight in TEST_WEIGHTS}
    for repository in repositories():
        root = arguments.checkouts / repository.name
        if root.is_dir():
            weights = weights_for(repository.name, arguments.folds)
            for weight, answer in answers_of(repository, root, weights, embedder):
                answers[weight].append(answer)
    print(machine())
    for weight, rows in answers.items():
        print(report(weight, rows))


def answers_of(
    repository: Repository, root: Path, weights: Weights, embedder: Embedder
) -> Iterator[tuple[float, Answer]]:
    """Yield the weight of tests and the figures, for each question and weight."""
    snapshot, terms = indexed([file for file in read(root) if file[2]], embedder)
    for question in questions(repository.name):
        query = terms.make_query_terms(question.text, repository.name, snapshot.common_language)
        matrix = ask(snapshot, terms, query, embedder)
        for weight in TEST_WEIGHTS:
            yield weight, answer(repository, question, query, matrix, with_tests(weights, weight))


def ask(
    snapshot: IndexSnapshot, terms: TermCache, query: QueryTerms, embedder: Embedder
) -> SignalMatrix:
    """Return the signals of all files for a question."""
    return compute_signal_matrix(
        snapshot, query, terms, asyncio.run(embedder.embed_query(query.text))
    )


def with_tests(weights: Weights, weight: float) -> Weights:
    """Return the weights with another one for tests that are not asked for."""
    plain: Mapping[str, float] = {**weights.plain, "test_unasked": weight}
    return replace(weights, plain=plain)


def answer(
    repository: Repository,
    question: Question,
    query: QueryTerms,
    matrix: SignalMatrix,
    weights: Weights,
) -> Answer:
    """Rank the files for a question."""
    ranked = rank_chunks(score_matrix(matrix, query.is_name, weights), SHOWN)
    paths = list(dict.fromkeys(chunk.path for chunk in ranked))
    tests = [is_test(path) for path in paths]
    targets = [Target(target.path) for target in question.targets]
    return Answer(
        repository.name,
        query.is_name,
        ndcg(targets, [Result(path, 1, 1) for path in paths]),
        sum(tests),
        float(tests[:1] == [True]),
    )


def report(weight: float, answers: Sequence[Answer]) -> str:
    """Return a line: the mean over repositories, sentences alone, and how many tests are shown."""
    names = sorted({row.repository for row in answers})
    overall = np.mean(
        [np.mean([row.ndcg for row in answers if row.repository == name]) for name in names]
    )
    sentences = [row for row in answers if not row.is_name]
    return (
        f"test_unasked {weight:4.1f}: NDCG@10 {overall:.4f} of {len(names)} repositories, "
        f"{np.mean([row.ndcg for row in sentences]):.4f} of {len(sentences)} sentences, "
        f"{np.mean([row.tests for row in sentences]):.2f} tests among ten, "
        f"first {np.mean([row.first_is_test for row in sentences]):.3f}"
    )


if __name__ == "__main__":
    main()
