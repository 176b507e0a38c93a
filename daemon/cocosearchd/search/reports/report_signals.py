"""All signals of a long question in one snapshot: mentions, messages, words of its title. Pure."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from cocosearchd.search.lexical.analysis.terms import QueryTerms, TermCache
from cocosearchd.search.lexical.array_types import Floats
from cocosearchd.search.lexical.features import scale_to_maximum
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot
from cocosearchd.search.lexical.scoring.bm25 import find_file_hits, score_files
from cocosearchd.search.lexical.scoring.text_coverage import cover_files
from cocosearchd.search.reports.mention_signals import (
    MENTION_SIGNALS,
    MentionedFiles,
    mention_signals,
)
from cocosearchd.search.reports.report import Report
from cocosearchd.search.reports.report_terms import message_terms

REPORT_SIGNALS = MENTION_SIGNALS | {"title", "message"}
MIN_COVERED = 0.6  # of a message: the rest of it are values
MAX_FILES = 10  # with the same message: it says nothing about one of more
_NEARLY_BEST = 0.9  # of the best coverage


@dataclass(frozen=True, slots=True)
class ReportScorer:
    """Computes `REPORT_SIGNALS` of a report.

    `title` are the terms of its title, `messages` those of each message that it quotes.
    """

    report: Report
    title: QueryTerms
    messages: tuple[tuple[int, ...], ...] = ()

    def __call__(self, snapshot: IndexSnapshot) -> dict[str, Floats]:
        """Return the signals of all live files: name -> (F,)."""
        names = MentionedFiles(snapshot.live_documents.paths)
        signals = mention_signals(self.report.mentions, snapshot, names)
        hits = find_file_hits(snapshot.corpus, self.title)
        scores = score_files(snapshot.corpus, hits, self.title)
        return signals | {"title": scale_to_maximum(scores), "message": self._messages(snapshot)}

    def _messages(self, snapshot: IndexSnapshot) -> Floats:
        """The share of each file, (F,), in the message that it has the most of in one chunk."""
        signal = np.zeros(snapshot.file_count, np.float32)
        for terms in self.messages:
            coverage = cover_files(snapshot.views, snapshot.statistics, terms)
            best = coverage.max(initial=0)
            if best < MIN_COVERED:
                continue
            files = np.flatnonzero(coverage >= np.float32(_NEARLY_BEST) * best)
            if len(files) <= MAX_FILES:
                signal[files] = np.maximum(signal[files], best / np.float32(len(files)))
        return signal


def make_scorer(
    report: Report, cache: TermCache, project: str = "", common: Collection[str] = ()
) -> ReportScorer:
    """Prepare a scorer. `project` and `common` are as for `TermCache.parse_query`."""
    title = cache.parse_query(report.title, project, common)
    return ReportScorer(report, title, message_terms(report, cache, common))
