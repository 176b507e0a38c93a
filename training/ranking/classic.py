"""Compares the relevance of `classic` with its own answers, which a running daemon gives.

    python -m training.ranking.classic --checkouts DIR

The daemon has an index `q-NAME` of each checkout (`cocosearchctl up DIR/NAME/ROOT --name q-NAME`). It
is asked the annotated queries, names that are defined once, and queries about other repositories,
which have no answer. Prints expected against seen: as the daemon says, and with logits that are
corrected by a line (Platt 1999), fitted on the other repositories. The last row is the line that was
fitted on all; it would scale the constants in `search/classic/fusion.py`.
"""

import argparse
import os
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.corpus import CODE_SUFFIXES, Repository, questions, repositories
from benchmarks.quality.names_and_sentences import chosen_of, names
from cocosearch_ipc.address import rpc_socket
from cocosearch_ipc.client import call
from training.ranking.fit import FOLDS
from training.ranking.places import (
    FOREIGN,
    FOREIGN_QUERY,
    SAMPLES,
    AskedQuestion,
    foreign_questions,
    is_right,
    print_calibration,
)
from training.ranking.signals import NAME, read

Floats = NDArray[np.float64]
SHOWN = 10  # results of an answer
STEPS = 50
LEAST = 1e-9  # distance of a relevance from 0 and 1


@dataclass(frozen=True, slots=True)
class Rated:
    """A result: its repository, the relevance that the daemon says, and if it is right."""

    repository: str
    relevance: float
    right: bool


def main() -> int:
    """Ask, fit and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkouts", type=Path, required=True)
    arguments = parser.parse_args()
    socket = rpc_socket(os.environ)
    rated = [
        result
        for repository in repositories()
        for question in asked_of(repository, arguments.checkouts)
        for result in rate(socket, repository.name, question)
    ]
    observed = np.array([result.right for result in rated], np.float64)
    print_calibration(np.array([result.relevance for result in rated]), observed)
    names_of_all = sorted({result.repository for result in rated})
    expected = np.zeros(len(rated))
    for fold in range(FOLDS):
        held_out = frozenset(names_of_all[fold::FOLDS])
        tested = np.array([result.repository in held_out for result in rated])
        line = fit_line([result for result in rated if result.repository not in held_out])
        expected[tested] = corrected([r for r in rated if r.repository in held_out], line)
    print_calibration(expected, observed)
    constant, factor = fit_line(rated)
    sys.stdout.write(f"logit -> {constant:.3f} + {factor:.3f} * logit, {len(rated)} results\n")
    return 0


def asked_of(repository: Repository, checkouts: Path) -> Iterator[AskedQuestion]:
    """Yield the questions of one repository."""
    random_ = random.Random(repository.name)
    root = checkouts / repository.name / repository.benchmark_root
    files = [file for file in read(root) if file[2] and file[0].endswith(CODE_SUFFIXES)]
    for sample in chosen_of(names(files), random_, SAMPLES):
        yield AskedQuestion(sample.text, NAME, place=sample.place)
    for question in questions(repository.name):
        yield AskedQuestion(question.text, question.category, question.targets)
    for question in random_.sample(foreign_questions(repository.name), FOREIGN):
        yield AskedQuestion(question.text, FOREIGN_QUERY)


def rate(socket: str, repository: str, question: AskedQuestion) -> Iterator[Rated]:
    """Ask the daemon a question, and rate its results."""
    options = {"profile": "classic", "limit": SHOWN, "use_cache": False, "collapse": False}
    request = {"query": question.text, "index": f"q-{repository}"} | options
    for hit in call(socket, "search", request, timeout_s=60)["results"]:
        yield Rated(repository, hit["relevance"], is_right(hit["path"], question))


def logits(rated: Sequence[Rated]) -> Floats:
    """Return the logits of the relevance of results."""
    relevance = np.clip([result.relevance for result in rated], LEAST, 1 - LEAST)
    result: Floats = np.log(relevance / (1 - relevance))
    return result


def fit_line(rated: Sequence[Rated]) -> Floats:
    """Return constant and factor of the logits, by logistic regression (Newton's method)."""
    rows = np.column_stack([np.ones(len(rated)), logits(rated)])
    right = np.array([result.right for result in rated], np.float64)
    line: Floats = np.array([0.0, 1.0])
    for _ in range(STEPS):
        shares = 1 / (1 + np.exp(-rows @ line))
        hessian = (rows * (shares * (1 - shares))[:, None]).T @ rows
        step = np.linalg.solve(hessian, rows.T @ (shares - right))
        line = line - step
        if np.abs(step).max() < 1e-6:
            break
    return line


def corrected(rated: Sequence[Rated], line: Floats) -> Floats:
    """Return the relevance of results with corrected logits."""
    result: Floats = 1 / (1 + np.exp(-(line[0] + line[1] * logits(rated))))
    return result


if __name__ == "__main__":
    sys.exit(main())
