"""Fits the weights of the places of long questions from the pairs of `training.ranking.reports`.

    python -m training.ranking.report_places --repositories DIR [--only OWNER/NAME ...] [--write]

A pair is the message of a commit and a file that it changed; right are the chunks of the file that
have lines of the change. Conditional logit over the chunks of each file, so a sum of weighted
signals is the logarithm of a probability within a file. Newton's method finds the one minimum.

Files are compared by their scores, which no place of a file changes: the weight of `file` is 1, as
the scores of long questions are logarithms of shares as well.
"""

import argparse
import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.search.answers.disk_files import make_contents
from cocosearchd.search.code.code_profile import load_weights, score_files
from cocosearchd.search.code.place_scores import FITTED_PLACE_SIGNALS, place_signals
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    SignalMatrix,
    compute_signal_matrix,
)
from cocosearchd.search.reports.report import read_report
from cocosearchd.search.reports.report_signals import make_scorer
from cocosearchd.search.reports.report_terms import report_query_terms
from cocosearchd.watching.git.git_changes import LineHunk, parse_patch
from training.ranking.fit import WEIGHTS
from training.ranking.reports import CANDIDATES, LIST, PAIRS, Pair, TreeReader, read_pairs, run_git

Floats = NDArray[np.float64]
FIXED = {"file": 1.0}
NAMES = tuple(sorted(FITTED_PLACE_SIGNALS - FIXED.keys()))
L2, STEPS = 0.01, 50


@dataclass(frozen=True, slots=True)
class PlaceExample:
    """Signals of the chunks of a file, (chunks, names), and the share of the change in each."""

    signals: Floats
    shares: Floats


def make_examples(
    pair: Pair, snapshot: IndexSnapshot, reader: TreeReader, embedder: Embedder, repository: Path
) -> Iterator[PlaceExample]:
    """Yield an example for each changed file of a pair that has several chunks."""
    report = read_report(pair.message)
    terms, common = reader.terms, snapshot.common_language
    project = repository.parent.name.partition("+")[2]
    query = report_query_terms(report, terms, project, common)
    matrix = compute_signal_matrix(
        snapshot,
        query,
        terms,
        asyncio.run(embedder.embed_query(report.summary)),
        limit=CANDIDATES,
        report_signals=make_scorer(report, terms, project, common),
    )
    scores, _ = score_files(matrix, query.is_name, load_weights())
    by_name = place_signals(matrix, scores)
    signals = np.stack([by_name[name] for name in NAMES], 1).astype(np.float64)
    for path in pair.paths:
        if path in matrix.paths:
            chunks = _chunks_of(matrix, path)
            shares = _shares_of_change(pair, path, matrix.chunks.keys[chunks], reader, repository)
            if len(shares) > 1 and shares.any():
                yield PlaceExample(signals[chunks], shares / shares.sum())


def _chunks_of(matrix: SignalMatrix, path: str) -> NDArray[np.int64]:
    return np.flatnonzero(matrix.chunks.files == matrix.paths.index(path))


def _shares_of_change(
    pair: Pair, path: str, keys: NDArray[np.int64], reader: TreeReader, repository: Path
) -> Floats:
    """Count the changed lines of a file in each chunk, (chunks,). `keys` are their bytes."""
    contents = make_contents(reader.read_blob(f"{pair.parent}:{path}") or b"")
    last_bytes = np.maximum(keys[:, 0], keys[:, 1] - 1)
    first_lines = np.searchsorted(contents.starts, keys[:, 0], side="right")
    last_lines = np.searchsorted(contents.starts, last_bytes, side="right")
    patch = run_git(repository, "diff", "--unified=0", pair.parent, pair.commit, "--", path)
    lines = np.array(
        [
            line
            for _, hunks in parse_patch(patch.encode())
            for hunk in hunks
            for line in _old_lines(hunk)
        ],
        np.int64,
    )
    inside = (first_lines[:, None] <= lines) & (lines <= last_lines[:, None])
    counts: Floats = inside.sum(axis=1).astype(np.float64)
    return counts


def _old_lines(hunk: LineHunk) -> range:
    """Return the changed lines of the old side; an added line counts as the line above it."""
    first = max(1, hunk.old_start)
    return range(first, first + max(1, hunk.old_count))


def fit(examples: Sequence[PlaceExample]) -> dict[str, float]:
    """Return the weight of each signal in `NAMES`."""
    weights = np.zeros(len(NAMES))
    for _ in range(STEPS):
        gradient = L2 * weights
        curvature = L2 * np.eye(len(NAMES))
        for example in examples:
            logits = example.signals @ weights
            shares = np.exp(logits - logits.max())
            shares /= shares.sum()
            mean = shares @ example.signals
            gradient += (mean - example.shares @ example.signals) / len(examples)
            weighted = example.signals * shares[:, None]
            curvature += (example.signals.T @ weighted - np.outer(mean, mean)) / len(examples)
        step = np.linalg.solve(curvature, gradient)
        weights -= step
        if np.abs(step).max() < 1e-9:
            break
    return dict(zip(NAMES, weights.round(4).tolist(), strict=True))


def all_examples(
    folder: Path, only: Sequence[str], embedder: Embedder
) -> Iterator[tuple[str, PlaceExample]]:
    """Yield the examples of the repositories that are there, each with its repository's name."""
    for row in json.loads(LIST.read_text("utf-8")):
        repository = folder / row["name"].replace("/", "+") / "repo"
        if not repository.is_dir() or (only and row["name"] not in only):
            continue
        with TreeReader(repository, embedder) as reader:
            for pair in read_pairs(repository, row["newest"]):
                snapshot = reader.read(pair.parent)
                for example in make_examples(pair, snapshot, reader, embedder, repository):
                    yield row["name"], example
        print(row["name"], flush=True)


def write_shipped(weights: dict[str, float], names: Sequence[str]) -> None:
    """Put the weights into the shipped file. `names` are the repositories of the examples."""
    body = json.loads(WEIGHTS.read_text("utf-8"))
    body["weights"]["report_places"] = weights
    body["provenance"]["report_places_made_by"] = "python -m training.ranking.report_places"
    repositories = ", ".join(dict.fromkeys(names))
    body["provenance"]["report_places_data"] = f"{PAIRS} commits of each of {repositories}"
    body["provenance"]["report_places_l2"] = L2
    WEIGHTS.write_text(json.dumps(body, indent=1) + "\n", "utf-8")


def main() -> None:
    """Fit, print the weights, and write them if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], metavar="OWNER/NAME")
    parser.add_argument("--write", action="store_true", help=f"write {WEIGHTS.name}")
    arguments = parser.parse_args()
    embedder = asyncio.run(open_embedder(EmbedderSettings()))
    rows = list(all_examples(arguments.repositories, arguments.only, embedder))
    weights = FIXED | fit([example for _, example in rows])
    print(json.dumps(weights, indent=1))
    if arguments.write:
        write_shipped(weights, [name for name, _ in rows])


if __name__ == "__main__":
    main()
