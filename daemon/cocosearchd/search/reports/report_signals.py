"""Computes all signals of a report in a corpus: mentions, messages, words of its title, links.

Pure.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from cocosearchd.search.lexical.analysis.terms import QueryTerms, TermCache
from cocosearchd.search.lexical.array_types import Floats
from cocosearchd.search.lexical.ranking_signals import scale_to_maximum
from cocosearchd.search.lexical.scoring.bm25 import find_file_hits, score_files_by_words
from cocosearchd.search.lexical.scoring.corpus import Corpus
from cocosearchd.search.lexical.scoring.text_coverage import cover_files
from cocosearchd.search.reports.linked_files import score_linked_files
from cocosearchd.search.reports.mention_signals import MENTION_SIGNALS, mention_signals
from cocosearchd.search.reports.report import Report
from cocosearchd.search.reports.report_terms import message_terms

REPORT_SIGNALS = MENTION_SIGNALS | {"title", "message", "linked"}
MIN_COVERED = 0.6  # share of a message that a file must have: the rest of the message is values
MAX_FILES_OF_MESSAGE = 10  # files with a message; a message that more files have is ignored
# Factor of frames in a report that is hardly more than a trace: nothing else says where to look.
# Set by hand. Of 17 such bug reports with frames in their project (of 433, benchmarks/README.md), 13
# are mended in the file of the innermost one.
TRACE_FACTOR = 5.0
# Factor of frames in a pasted trace, without any code or section of a person: the file of the
# innermost frame comes first, also where a caller has most of the words (leveldb, 5 traces of gdb).
PASTED_TRACE_FACTOR = 20.0
_NEARLY_BEST = 0.9  # share of the best coverage that counts as equal to it


@dataclass(frozen=True, slots=True)
class ReportScorer:
    """Computes the `REPORT_SIGNALS` of a report.

    `title` has the terms of its title. `messages` has the term hashes of each quoted message.
    """

    report: Report
    title: QueryTerms
    messages: tuple[tuple[int, ...], ...] = ()

    def __call__(self, corpus: Corpus) -> dict[str, Floats]:
        """Compute the signals of all live files: name -> (F,)."""
        signals = self.own_signals(corpus)
        mentioned: Floats = np.sum(list(signals.values()), axis=0)
        return signals | {"linked": score_linked_files(corpus, mentioned)}

    def own_signals(self, corpus: Corpus) -> dict[str, Floats]:
        """Compute the signals of the report's own text, without `linked`: name -> (F,)."""
        signals = mention_signals(self.report.mentions, corpus)
        if self.report.is_trace:
            is_pasted = self.report.is_pasted_trace
            factor = PASTED_TRACE_FACTOR if is_pasted else TRACE_FACTOR
            signals["frame"] *= np.float32(factor)
        scores = score_files_by_words(corpus, find_file_hits(corpus, self.title), self.title)
        return signals | {
            "title": scale_to_maximum(scores, corpus.file_groups),
            "message": self._messages(corpus),
        }

    def _messages(self, corpus: Corpus) -> Floats:
        """Return for each file its largest share in one quoted message, (F,)."""
        groups = corpus.file_groups
        signal = np.zeros(len(corpus.live.paths), np.float32)
        for terms in self.messages:
            coverage = cover_files(corpus, terms)
            best = groups.largest(coverage)
            is_near = coverage >= groups.spread(np.float32(_NEARLY_BEST) * best)
            counts = groups.counts(is_near)
            is_specific = (best >= MIN_COVERED) & (counts <= MAX_FILES_OF_MESSAGE)
            shares = np.where(is_specific, best / np.maximum(counts, 1).astype(np.float32), 0)
            signal = np.maximum(signal, is_near * groups.spread(shares.astype(np.float32)))
        return signal


def make_scorer(
    report: Report, cache: TermCache, project: str = "", common: Collection[str] = ()
) -> ReportScorer:
    """Prepare a scorer. `TermCache.make_query_terms` explains `project` and `common`."""
    title = cache.make_query_terms(report.title, project, common)
    return ReportScorer(report, title, message_terms(report, cache, common))
