"""Describes what each part of a report finds in an index by itself, for `explain`. Pure."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.array_types import Floats
from cocosearchd.search.lexical.scoring.candidate_selection import select_top
from cocosearchd.search.lexical.scoring.corpus import Corpus
from cocosearchd.search.reports.frame_places import LocatedFrame
from cocosearchd.search.reports.mentions import GROUPS
from cocosearchd.search.reports.question_parts import QuestionPart
from cocosearchd.search.reports.report import Report
from cocosearchd.search.reports.report_signals import make_scorer

PARTS_SHOWN = 40  # of a report; some 5 ms each for 100,000 chunks
FRAMES_SHOWN = 40
FILES_SHOWN = 3  # the best files of one kind of evidence
TEXT_SHOWN = 60  # characters of a part
# Evidence -> the beginnings of the names of its signals.
_EVIDENCE = {
    "names": ("defines_",),
    "paths": ("path_", "stem_"),
    "messages": ("message",),
    "words": ("title",),
}


def describe_parts(
    report: Report,
    corpus: Corpus,
    cache: TermCache,
    project: str = "",
    common: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Describe the first parts: kind, line, and the best files by each kind of evidence.

    Headings of templates and descriptions of the environment find nothing: they are not read.
    """
    return [
        {
            "line": part.line,
            "kind": part.kind,
            "text": " ".join(part.text.split())[:TEXT_SHOWN],
        }
        | (_find_files(part, corpus, cache, project, common) if part.kind in GROUPS else {})
        for part in report.parts[:PARTS_SHOWN]
    ]


def describe_frames(report: Report, located: Sequence[LocatedFrame]) -> list[dict[str, str]]:
    """Describe the first frames, innermost first, with file and line in the index; "" if unknown."""
    places = {entry.frame: f"{entry.path}:{entry.line}" for entry in located}
    return [
        {
            "frame": f"{frame.path}:{frame.line}" if frame.path else "",
            "function": f"{frame.owner}.{frame.function}".strip("."),
            "found": places.get(frame, ""),
        }
        for frame in report.mentions.frames[:FRAMES_SHOWN]
    ]


def _find_files(
    part: QuestionPart,
    corpus: Corpus,
    cache: TermCache,
    project: str,
    common: Collection[str],
) -> dict[str, list[str]]:
    """Find the best files of a part, by kind of evidence."""
    scorer = make_scorer(Report("", (part,)), cache, project, common)
    signals = scorer.own_signals(corpus)
    return {
        evidence: _best_paths(
            [value for name, value in signals.items() if name.startswith(beginnings)], corpus
        )
        for evidence, beginnings in _EVIDENCE.items()
    }


def _best_paths(values: Sequence[Floats], corpus: Corpus) -> list[str]:
    scores: Floats = np.max(values, axis=0)
    positive = np.flatnonzero(scores > 0)
    best = select_top(positive, scores[positive], FILES_SHOWN, corpus.live.paths)
    return [corpus.live.paths[number] for number in best]
