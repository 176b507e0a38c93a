"""Conversion of the daemon's values to replies."""

from dataclasses import replace
from typing import get_args

import pytest

from cocosearch_ipc.protocol import IndexState, SearchRequest
from cocosearchd.api import replies
from cocosearchd.filters.filter_values import language_names
from cocosearchd.freshness import Freshness
from cocosearchd.model import Clock, Hit, IndexRecord
from cocosearchd.search.relevance import WEAK
from cocosearchd.store.index_records import Counts, IndexStatistics
from cocosearchd.watching.root_status import RootState, RootStatus
from tests.store.support import IDENTITY

RECORD = IndexRecord(1, "code", "code", b"/code", (), 8, IDENTITY, 3)


def test_the_states_of_an_index_are_those_of_a_root_and_one_more() -> None:
    assert set(get_args(IndexState)) == {*get_args(RootState), "refused"}


@pytest.mark.parametrize(
    ("done", "total", "stored", "reported_done"),
    [
        (0, None, Counts(40, 90, (("binary", 2),)), 42),  # reopened, and not scanned yet
        (0, None, Counts(0, 0), 0),
        (0, None, Counts(-1, -1), 0),  # PostgreSQL is away
        (7, 50, Counts(40, 90), 7),
    ],
)
def test_progress_begins_with_what_is_stored(
    done: int, total: int | None, stored: Counts, reported_done: int
) -> None:
    status = RootStatus("cold", done, total, 0, (), "inotify", None, Clock("e", 1))
    assert replies.progress(RECORD, status, stored).done == reported_done


def test_every_name_of_the_language_filter_is_listed() -> None:
    entries = replies.languages().languages
    names = {name for entry in entries for name in (entry.name, *entry.aliases)}
    assert names == set(language_names())
    kinds = {entry.name: entry.kind_of for entry in entries if entry.kind_of}
    assert kinds["github-actions"] == ("yaml",)
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)


def test_counts_tell_how_many_files_are_not_fully_searched() -> None:
    statistics = IndexStatistics(
        files=9,
        chunks=20,
        symbols=3,
        size_bytes=1,
        languages=(("go", 9, 20),),
        parse_health=(("go", "ok", 4), ("go", "partial", 2), ("go", "error", 3)),
        skipped=(("binary", 5), ("too_large", 1)),
        last_change=None,
        generation=3,
    )
    reply = replies.stats(RECORD, statistics, (), Freshness(Clock("e", 1)))
    assert reply.failure_count == 11


@pytest.mark.parametrize("relevance", [0.01, 0.9])
def test_a_cold_answer_does_not_say_that_nothing_matches(relevance: float) -> None:
    """It was ranked without the words of the files."""
    hit = Hit("code", "a.py", 0, 4, 1, 1, "python", 1.0, "semantic", "", "", None, None, None, "a")
    hits = (replace(hit, relevance=relevance),)
    fresh = Freshness(Clock("e", 1))
    request = SearchRequest(query="name")
    warm, cold = (
        replies.search(request, hits, ("code",), fresh, timings_ms={}, is_cold=is_cold)
        for is_cold in (False, True)
    )
    assert (warm.weak, cold.weak) == (relevance < WEAK, False)
