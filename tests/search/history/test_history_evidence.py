"""Evidence of history: it orders the tail of a ranking, and never its head."""

import random

import numpy as np
import pytest

from cocosearchd.model import Revision
from cocosearchd.search.history.history_evidence import (
    HEAD_FILES,
    PAGE_FILES,
    HistoryEvidence,
    describe_history,
)
from cocosearchd.search.history.history_index import HistoryIndex
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.array_types import Floats
from cocosearchd.search.reports.report import read_report
from cocosearchd.search.reports.report_terms import report_query_terms
from tests.search.history.history_cases import WORDS, make_history, random_revisions

PATHS = tuple(f"src/file{number:02}.py" for number in range(24))
REPORT = "The proxy drops a cookie\nAfter a redirect the cookie is lost\nand the timeout is wrong\n"


def evidence_of(history: HistoryIndex, text: str = REPORT) -> HistoryEvidence:
    terms = report_query_terms(read_report(text), TermCache())
    return HistoryEvidence(history, terms.terms)


def weigh(history: HistoryIndex, name: str) -> Floats:
    """Return one kind of evidence for `PATHS`, ranked in their order."""
    scores = np.linspace(5, 1, len(PATHS), dtype=np.float32)
    return evidence_of(history).order(PATHS, scores).evidence[name]


def test_files_of_commits_that_speak_of_the_matter_are_raised() -> None:
    history = make_history(
        [
            Revision("d" * 40, "Release", (PATHS[4], PATHS[5])),
            Revision("c" * 40, "Keep the cookie after a redirect", (PATHS[9],)),
            Revision("b" * 40, "Encode headers", (PATHS[6],)),
        ]
    )
    values = weigh(history, "history_messages")
    assert values.argmax() == 9
    assert np.count_nonzero(values) == 1
    assert describe_history(evidence_of(history)) == {
        "commits": 3,
        "newest": "d" * 12,
        "fitting": ["c" * 12],
    }
    assert describe_history(None) is None


def test_files_that_change_with_the_first_ones_are_raised_more_by_small_commits() -> None:
    crowd = PATHS[4:20]
    history = make_history(
        [
            Revision("d" * 40, "", (PATHS[0], *crowd)),
            Revision("c" * 40, "", (PATHS[0], PATHS[21])),
            Revision("b" * 40, "", (PATHS[22],)),
        ]
    )
    values = weigh(history, "history_together")
    assert values.argmax() == 21
    assert values[19] > 0 == values[22]
    assert not values[:PAGE_FILES].any()


@pytest.mark.parametrize("seed", range(200))
def test_the_head_never_moves_and_no_file_comes_or_goes(seed: int) -> None:
    rng = random.Random(seed)
    paths = [f"src/file{number}.py" for number in rng.sample(range(40), rng.randint(0, 30))]
    scores = np.sort(np.array([rng.choice((rng.gauss(0, 3), 1.0)) for _ in paths], np.float32))
    scores = scores[::-1].copy()
    history = make_history(random_revisions(rng, rng.randint(0, 40), PATHS))
    words = " ".join(rng.choices(WORDS, k=30))
    result = evidence_of(history, f"{words}\n" * 12).order(paths, scores)
    assert result.order[:HEAD_FILES].tolist() == list(range(min(HEAD_FILES, len(paths))))
    assert sorted(result.order.tolist()) == list(range(len(paths)))
    assert result.scores[:HEAD_FILES].tolist() == scores[:HEAD_FILES].tolist()
    assert (np.diff(result.scores) <= 0).all(), "scores still fall"
    for values in result.evidence.values():
        assert np.isfinite(values).all()
        assert (values >= 0).all()
        assert not values[:HEAD_FILES].any()


def test_files_that_change_together_move_nothing_onto_the_first_page() -> None:
    scores = np.linspace(1.01, 1, len(PATHS), dtype=np.float32)
    history = make_history([Revision("c" * 40, "", (PATHS[0], PATHS[21]))])
    result = evidence_of(history).order(PATHS, scores)
    assert result.order[: PAGE_FILES + 1].tolist() == [*range(PAGE_FILES), 21]


def test_a_file_of_nearly_every_commit_says_little() -> None:
    busy = [Revision(f"{number:040x}", "Release", (PATHS[5],)) for number in range(200)]
    cookie = Revision("c" * 40, "Keep the cookie after a redirect", (PATHS[5], PATHS[9]))
    values = weigh(make_history([cookie, *busy]), "history_messages")
    assert values[9] > values[5] > 0


def test_without_evidence_the_order_stays() -> None:
    scores = np.array([5, 4, 3, 3, 3, 1], np.float32)
    result = evidence_of(make_history(())).order(PATHS[:6], scores)
    assert result.order.tolist() == list(range(6))
    assert result.scores.tolist() == scores.tolist()
