"""Ablation of the ranking of bug reports: the cases of `issues`, each time without one part.

    python -m benchmarks.quality.issue_parts --cases CASES.jsonl --repositories DIR [--only NAME ...]

Trees are read as the daemon reads them, each changed file once, and so is the history: ancestors of
the commit alone. A question is ranked as shipped, and again without one part after another. Results
that are alike are not collapsed, and nothing is rounded for the disk, so single cases may differ from
those that a daemon answers.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.measure import machine
from benchmarks.quality.issue_outcomes import DEPTHS, Case, read_cases
from benchmarks.quality.issues import LIMIT, dated_cases, make_repository
from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.indexes.index_history import collect_terms, message_text
from cocosearchd.search.code.code_profile import (
    Weights,
    load_weights,
    rank_chunks,
    score_matrix,
)
from cocosearchd.search.history.history_evidence import HistoryEvidence
from cocosearchd.search.history.history_index import HistoryIndex, build_history
from cocosearchd.search.lexical.analysis.documents import make_documents
from cocosearchd.search.lexical.analysis.terms import QueryTerms, TermCache
from cocosearchd.search.lexical.array_types import Floats
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    SignalMatrix,
    compute_signal_matrix,
)
from cocosearchd.search.plan import split_question
from cocosearchd.search.reports.report_signals import make_scorer
from cocosearchd.search.reports.report_terms import report_query_terms
from cocosearchd.watching.git.git_history import read_history
from training.ranking.reports import TreeReader

SHIPPED = "as shipped"
ALIKE = "parts: every word counts alike"
UNLEARNED = "weights of reports: those of short questions"
VECTORS = "vectors"
HISTORY = "history"
# Part -> prefixes of its signals, which get the weight 0.
SIGNALS_OF_PART = {
    "anchors: definitions, paths and names that are mentioned": (
        *(
            "defines_",
            "path_",
            "stem_",
            "stem_match",
            "defined_exactly",
            "defined_folded",
            "definition_share",
        ),
    ),
    "stack frames": ("frame",),
    "messages": ("message",),
    "words of the title": ("title",),
    "what the mentioned files use": ("linked",),
    "tests, documents and examples behind code": ("test", "prose", "aside"),
}
Ranks = tuple[int | None, ...]


class HistoryReader:
    """Reads the ancestors of commits of one repository, each commit once."""

    def __init__(self, repository: Path, root: Path, terms: TermCache) -> None:
        """`root` is an empty directory that becomes a repository at each commit that is read."""
        self._repository = repository
        self._root = root
        self._terms = terms
        self._history: HistoryIndex | None = None

    def read(self, commit: str) -> HistoryIndex:
        """Return the history of a commit."""
        make_repository(self._repository, commit, self._root)
        earlier = self._history
        history = read_history(os.fsencode(self._root), () if earlier is None else earlier.ids)
        documents = list(make_documents(list(map(message_text, history.new)), self._terms))
        messages = collect_terms(documents)
        self._history = build_history(history.ids, history.new, messages, earlier)
        return self._history


def rank_case(
    case: Case,
    snapshot: IndexSnapshot,
    terms: TermCache,
    vector: Floats,
    history: HistoryIndex | None = None,
) -> Iterator[tuple[str, Ranks]]:
    """Yield the name of each way to rank, and the ranks of the files of a case.

    `vector`: of the summary of its question, (dimension,).
    """
    _, report = split_question(case.query)
    project = case.repository.rpartition("/")[2]
    common = snapshot.common_language
    plain_terms = terms.make_query_terms(case.query, project, common)
    report_terms = plain_terms
    scorer = None
    if report is not None:
        report_terms = report_query_terms(report, terms, project, common)
        scorer = make_scorer(report, terms, project, common)
    shipped = load_weights()

    def compute(query: QueryTerms, vector: Floats | None) -> SignalMatrix:
        return compute_signal_matrix(
            snapshot, query, terms, vector, limit=LIMIT, report_signals=scorer
        )

    evidence = None
    if history is not None and report is not None:
        evidence = HistoryEvidence(history, report_terms.terms)

    def rank(
        matrix: SignalMatrix, weights: Weights, evidence: HistoryEvidence | None = evidence
    ) -> Ranks:
        scored = score_matrix(matrix, report_terms.is_name, weights)
        chunks = rank_chunks(scored, LIMIT, evidence=evidence)
        paths = dict.fromkeys(chunk.path for chunk in chunks)
        ranks = {path: rank for rank, path in enumerate(paths, 1)}
        return tuple(map(ranks.get, case.gold))

    matrix = compute(report_terms, vector)
    yield SHIPPED, rank(matrix, shipped)
    yield HISTORY, rank(matrix, shipped, None)
    yield ALIKE, rank(compute(plain_terms, vector), shipped)
    for part, prefixes in SIGNALS_OF_PART.items():
        yield part, rank(matrix, _without(shipped, prefixes))
    yield VECTORS, rank(compute(report_terms, None), shipped)
    yield UNLEARNED, rank(matrix, replace(shipped, report=shipped.plain))


def _without(weights: Weights, prefixes: tuple[str, ...]) -> Weights:
    """Set the weights of signals of long questions to 0."""
    report = {
        name: 0.0 if name.startswith(prefixes) else weight
        for name, weight in weights.report.items()
    }
    return replace(weights, report=report)


def rank_repository(
    repository: Path, cases: Sequence[Case], embedder: Embedder
) -> Iterator[tuple[str, Ranks]]:
    """Yield the ranks of all cases of a repository, tree by tree."""
    with TreeReader(repository, embedder) as reader, tempfile.TemporaryDirectory() as folder:
        histories = HistoryReader(repository, Path(folder) / "root", reader.terms)
        for case in dated_cases(repository, cases):
            summary = split_question(case.query)[0].words
            vector = asyncio.run(embedder.embed_query(summary))
            history = histories.read(case.base)
            yield from rank_case(case, reader.read(case.base), reader.terms, vector, history)


def print_table(ranks: Mapping[str, Sequence[Ranks]]) -> None:
    """Print a row for each way to rank."""
    heads = " | ".join(f"@{depth}" for depth in DEPTHS)
    sys.stdout.write(f"| without | n | {heads} |\n")
    for part, rows in ranks.items():
        shares = " | ".join(f"{_share_within(rows, depth):.3f}" for depth in DEPTHS)
        sys.stdout.write(f"| {part} | {len(rows)} | {shares} |\n")


def _share_within(rows: Sequence[Ranks], depth: int) -> float:
    """Return the share of cases with all files among the first `depth`."""
    return float(np.mean([all(rank is not None and rank <= depth for rank in row) for row in rows]))


def main() -> None:
    """Rank the cases in all ways and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], metavar="OWNER/NAME")
    arguments = parser.parse_args()
    sys.stdout.write(f"{machine()}\n")
    by_repository = defaultdict[str, list[Case]](list)
    for case in read_cases(arguments.cases):
        if not arguments.only or case.repository in arguments.only:
            by_repository[case.repository].append(case)
    embedder = asyncio.run(open_embedder(EmbedderSettings()))
    ranks = defaultdict[str, list[Ranks]](list)
    for name, cases in sorted(by_repository.items()):
        folder = arguments.repositories / name.replace("/", "+") / "repo"
        if not folder.is_dir():
            sys.stderr.write(f"{name}: no repository at {folder}\n")
            continue
        for part, row in rank_repository(folder.resolve(), cases, embedder):
            ranks[part].append(row)
        sys.stderr.write(f"{name}: {len(cases)} cases\n")
    print_table(ranks)


if __name__ == "__main__":
    main()
