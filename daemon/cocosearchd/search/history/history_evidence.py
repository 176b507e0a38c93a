"""Orders the tail of a ranking by the history of its files. Pure.

There are two kinds of evidence. A message that has the rare words of a report says which files such
a matter touched before. Files that changed together with the first files of the ranking may have to
change again. Neither says enough for the head of the list, so the first files keep their places.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.history.history_index import HistoryIndex
from cocosearchd.search.lexical.array_types import Floats, Ints

HEAD_FILES = 3  # first files, which history does not move
# Files that change together are often tests and documents, and were wrong as often as right on the
# first page: they order what comes after it.
PAGE_FILES = 10
TAIL_FILES = 200  # ranked files that history may bring up; the scores of later ones are far lower
# The values below were chosen on 117 bug reports and 73 commits: benchmarks/README.md, "history".
FITTING_COMMITS = 10  # commits whose messages fit a report best
LENGTH_SHARE = 0.5  # of the normalisation of a message by its length, as b of BM25
# A file that many commits change is in many of the fitting ones by chance: its evidence is divided
# by its number of commits to this power.
FREQUENCY_POWER = 0.25
# Weights of the evidence. A score differs by about 1 between the first and the fifth file.
MESSAGES_WEIGHT = 1.0
TOGETHER_WEIGHT = 0.25
MIN_COMMIT_WEIGHT = 2.0  # added to the weight of all commits of a file, which may have only one
COMMITS_SHOWN = 10
ID_SHOWN = 12  # characters of an object id


@dataclass(frozen=True, slots=True)
class TailOrder:
    """A new order of n ranked files: the first `HEAD_FILES` keep their places and scores.

    `evidence` names each kind of evidence: weighted, by file in the old order, (n,).
    """

    order: Ints  # (n,): the old rank of the file at each new rank, from 0
    scores: Floats  # (n,): in the new order, never rising
    evidence: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class HistoryEvidence:
    """The history of an index as evidence for one report, whose terms have weights."""

    history: HistoryIndex
    terms: tuple[tuple[int, float], ...]  # (hash, weight)

    def order(self, paths: Sequence[str], scores: Floats) -> TailOrder:
        """Order n ranked files, best first, by messages, and those after the first page again.

        `scores` never rise, (n,).
        """
        ranks = self._rank_paths(paths)
        # squared, so that weak evidence moves nothing
        messages = MESSAGES_WEIGHT * scale(self._score_messages(ranks, len(paths))) ** 2
        messages[:HEAD_FILES] = 0
        order, raised = raise_tail(scores, messages, HEAD_FILES)
        together = self._score_together(ranks, len(paths))
        together[order[:PAGE_FILES]] = 0
        together = TOGETHER_WEIGHT * scale(together)
        again, raised = raise_tail(raised, together[order], PAGE_FILES)
        evidence = {"history_messages": messages, "history_together": together}
        return TailOrder(
            order[again],
            raised,
            {name: values.astype(np.float32) for name, values in evidence.items()},
        )

    def find_commits(self) -> Ints:
        """Return the numbers of the commits whose messages fit the report, best first."""
        return self._fitting_commits()[0]

    def _rank_paths(self, paths: Sequence[str]) -> Ints:
        """Return the rank of each path of the history in the ranking, (P,); -1 for others."""
        ranks = np.full(len(self.history.paths), -1, np.int64)
        for rank, path in enumerate(paths):
            number = bisect_left(self.history.paths, path)
            if number < len(ranks) and self.history.paths[number] == path:
                ranks[number] = rank
        return ranks

    def _fitting_commits(self) -> tuple[Ints, NDArray[np.float64]]:
        """Return the commits whose messages fit best, and how well each does: 1 for the first."""
        history = self.history
        count = len(history.ids)
        if not count:
            return np.zeros(0, np.int64), np.zeros(0)
        hashes = np.array([term for term, _ in self.terms], np.uint64)
        weights = np.array([weight for _, weight in self.terms], np.float64)
        commits, positions = history.commits_of(hashes)
        having = np.bincount(positions, minlength=len(hashes))
        weights *= np.log1p((count - having + 0.5) / (having + 0.5))
        sums = np.asarray(np.bincount(commits, weights[positions], count), np.float64)
        lengths = history.message_lengths / max(1.0, float(history.message_lengths.mean()))
        scores = sums / (1 - LENGTH_SHARE + LENGTH_SHARE * lengths)
        best = np.argsort(-scores, kind="stable")[:FITTING_COMMITS]
        best = best[scores[best] > 0]
        return best, scores[best] / scores[best[:1]]

    def _score_messages(self, ranks: Ints, count: int) -> NDArray[np.float64]:
        """Score n ranked files by the messages of the commits that changed them, (n,)."""
        commits, fits = self._fitting_commits()
        paths, positions = self.history.files_of(commits)
        sizes = np.bincount(positions, minlength=len(commits))
        shares = (fits / np.sqrt(np.maximum(sizes, 1)))[positions]
        changes = np.bincount(self.history.file_paths, minlength=len(ranks))
        frequencies = np.maximum(changes, 1) ** FREQUENCY_POWER
        return sum_by_rank(ranks[paths], shares / frequencies[paths], count)

    def _score_together(self, ranks: Ints, count: int) -> NDArray[np.float64]:
        """Score n ranked files by the commits that they share with each of the first files, (n,).

        A commit of s files counts 1 / s. The score is a share of all commits of a first file.
        """
        history = self.history
        sizes = np.diff(history.file_starts)
        commits = np.repeat(np.arange(len(sizes)), sizes)
        ranks_of_rows = ranks[history.file_paths]
        scores = np.zeros(count)
        for first in range(min(HEAD_FILES, count)):
            first_commits = commits[ranks_of_rows == first]
            weights = np.zeros(len(sizes))
            weights[first_commits] = 1 / sizes[first_commits]
            shares = weights[commits] / (float(weights.sum()) + MIN_COMMIT_WEIGHT)
            scores += sum_by_rank(ranks_of_rows, shares, count)
        return scores / HEAD_FILES


def describe_history(evidence: HistoryEvidence | None) -> dict[str, Any] | None:
    """Describe the history that orders the tail, for `explain`; None without one."""
    if evidence is None:
        return None
    ids = evidence.history.ids
    fitting = evidence.find_commits()[:COMMITS_SHOWN].tolist()
    return {
        "commits": len(ids),
        "newest": evidence.history.newest[:ID_SHOWN],
        "fitting": [ids[number][:ID_SHOWN] for number in fitting],
    }


def sum_by_rank(ranks: Ints, values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Sum the values of rows by their rank, (count,); rows with the rank -1 do not count."""
    is_ranked = ranks >= 0
    sums = np.bincount(ranks[is_ranked], values[is_ranked], count)
    return np.asarray(sums, np.float64)


def scale(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bring values to 0 to 1 by their logarithm, so that one file does not outweigh all others."""
    logarithms = np.log1p(values)
    largest = float(logarithms.max(initial=0.0))
    return logarithms / largest if largest else logarithms


def raise_tail(scores: Floats, values: NDArray[np.float64], head_count: int) -> tuple[Ints, Floats]:
    """Order n ranked files by their scores and values; the first `head_count` keep their places.

    `scores` never rise, (n,). Returns the new order, and the new scores in it. The score of a file of
    the tail is never above that of the last file of the head. Equal scores keep their order.
    """
    raised = (scores + values).astype(np.float32)
    head = np.arange(min(head_count, len(scores)))
    tail = np.argsort(-raised[len(head) :], kind="stable") + len(head)
    limit = scores[head].min(initial=np.inf)
    new_scores = np.concatenate([scores[head], np.minimum(raised[tail], limit)])
    return np.concatenate([head, tail]), new_scores.astype(np.float32)
