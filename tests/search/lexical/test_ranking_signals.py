"""Ranking signals one by one, with values computed by hand"""

import math
import posixpath
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.search.lexical import ranking_signals
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.segments.path_names import (
    FileStems,
    best_name_match,
    find_in_names,
    make_name_query,
    read_path_names,
    stem_coverage,
)
from cocosearchd.search.lexical.segments.segment import Segment, build_segment
from tests.search.lexical.toy import documents


def file_stems_of(segment: Segment) -> FileStems:
    return read_path_names(segment).file_stems


def test_idf_is_robertsons() -> None:
    assert ranking_signals.idf(1, 5) == pytest.approx(math.log(1 + (5 - 1 + 0.5) / (1 + 0.5)))
    assert ranking_signals.idf(5, 5) > 0


def test_bm25_of_one_term() -> None:
    scores = ranking_signals.bm25(
        2.0, np.array([1, 3], np.float32), np.array([10, 30], np.float32), 20.0, 1.5, 0.75
    )
    # norms: 1.5 (1 - .75 + .75 l / 20) = .9375 and 2.0625
    assert scores == pytest.approx([2 * 2.5 / 1.9375, 2 * 3 * 2.5 / 5.0625])


def test_best_three_of_sparse_and_of_dense_scores() -> None:
    starts = np.array([0, 4, 5])
    files = np.array([0, 0, 0, 0, 1, 2, 2], np.int64)
    dense = np.array([4, 4, 1, 2, 7, 0, 3], np.float32)
    assert ranking_signals.best_three(dense, starts, files).tolist() == [10, 7, 3]
    sparse = np.zeros(7, np.float32)
    sparse[3] = 5
    assert ranking_signals.best_three(sparse, starts, files).tolist() == [5, 0, 0]


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=1, max_size=6))
def test_best_three_is_the_sum_of_the_three_largest(files: list[list[int]]) -> None:
    scores = np.array([score for item in files for score in item], np.float32)
    sizes = np.array([len(item) for item in files])
    result = ranking_signals.best_three(
        scores, np.cumsum(sizes) - sizes, np.repeat(np.arange(len(files), dtype=np.int64), sizes)
    )
    assert result.tolist() == [sum(sorted(item)[-3:]) for item in files]


def test_scaling() -> None:
    assert ranking_signals.scale_to_maximum(np.array([1, 4], np.float32)).tolist() == [0.25, 1]
    assert ranking_signals.scale_to_maximum(np.zeros(2, np.float32)).tolist() == [0, 0]
    assert ranking_signals.standardise(np.array([1, 3], np.float32)).tolist() == [-1, 1]
    # one file: no deviation
    assert ranking_signals.standardise(np.array([7], np.float32)).tolist() == [0]
    assert ranking_signals.standardise(np.zeros(0, np.float32)).tolist() == []


@pytest.mark.parametrize(
    ("whole_scores", "last", "shares"),
    [
        # the whole name is defined: what its last part names does not count
        ([0, 1, 0], [0, 1, 3], [0, 1, 0]),
        ([0, 0, 0], [2, 0.5, 0], [0.5, 0.5, 0]),  # whatever the values are, two files define it
        ([0, 0, 0], [0, 0, 0], [0, 0, 0]),
        ([], [], []),
    ],
)
def test_files_that_define_a_name_share_one(
    whole_scores: list[float], last: list[float], shares: list[float]
) -> None:
    assert (
        ranking_signals.definition_shares(
            np.array(whole_scores, np.float32), np.array(last, np.float32)
        ).tolist()
        == shares
    )


@pytest.mark.parametrize(
    ("query", "path", "share"),
    [
        ("route group", "src/router_group.go", 10 / 11),  # route and group of routergroup
        ("configuration", "app/config.py", 1.0),  # abbreviation, and beginning
        ("synchronise threads", "lib/sync.rs", 1.0),  # sync begins synchronise
        ("requests", "http/req.go", 1.0),
        ("message queue", "lib/msg.c", 1.0),  # abbreviation
        ("zebra", "lib/msg.c", 0.0),
        ("a of", "lib/a.c", 0.0),  # single letters are no evidence
    ],
)
def test_share_of_a_name_that_a_query_explains(query: str, path: str, share: float) -> None:
    terms = TermCache()
    parsed = terms.make_query_terms(query)
    names = file_stems_of(build_segment(documents({path: "x = 1"})))
    result = stem_coverage(
        names,
        make_name_query(parsed.words, [terms.stem(word) for word in parsed.words], parsed.shares),
    )
    assert result[0] == pytest.approx(share)


def test_a_stem_that_begins_a_word_counts_only_where_the_word_is_not_in_the_path() -> None:
    terms = TermCache()
    names = file_stems_of(
        build_segment(documents({"synchronise/sync.rs": "a", "lib/sync.rs": "b"}))
    )
    share = stem_coverage(
        names, make_name_query(("synchronise",), [terms.stem("synchronise")], [1.0])
    )
    assert share.tolist() == [0.0, 1.0]
    half = stem_coverage(
        names, make_name_query(("synchronise",), [terms.stem("synchronise")], [0.5])
    )
    assert half.tolist() == [0.0, 0.5]


def test_standing_among_others() -> None:
    rest = ranking_signals.mean_and_deviation(np.array([0.1, 0.5, np.nan], np.float32))
    assert ranking_signals.z_scores(
        np.array([0.3, 0.7, np.nan], np.float32), *rest
    ).tolist() == pytest.approx([0, 2, 0])
    alike = np.full(3, 0.5, np.float32)  # by chance: a tiny difference is no evidence
    result = ranking_signals.z_scores(
        alike + np.float32(0.03), *ranking_signals.mean_and_deviation(alike)
    )
    assert result.tolist() == pytest.approx([1, 1, 1], abs=1e-3)
    unknown = np.full(3, np.nan, np.float32)
    assert ranking_signals.z_scores(
        unknown, *ranking_signals.mean_and_deviation(unknown)
    ).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("path", "reexporter"),
    [
        ("web/index.ts", True),
        ("src/Utils.py", True),
        ("a/__init__.py", True),
        ("src/indexer.py", False),
    ],
)
def test_files_that_serve_all_others(path: str, reexporter: bool) -> None:
    assert (ranking_signals.file_stem(path) in ranking_signals.REEXPORTERS) is reexporter
    assert read_path_names(build_segment(documents({path: "x"}))).reexporter.tolist() == [
        reexporter
    ]


_NAMES = st.text(alphabet="aT._-/1tesSpcmokébx", max_size=12)


@settings(max_examples=300, deadline=None)
@given(_NAMES)
def test_names_are_taken_apart_as_the_standard_library_does(path: str) -> None:
    stem = posixpath.splitext(posixpath.basename(path))[0].lower()
    assert ranking_signals.file_stem(path) == stem
    assert ranking_signals.joined_stem(stem) == re.sub(r"[-_.]", "", stem)


@pytest.mark.parametrize(
    ("stem", "identifier", "value"),
    [
        ("router", "Router", 1.0),
        ("routers", "Router", 1.0),
        ("router", "Routers", 0.5),
        ("joinset", "join_set", 1.0),
        ("mergeconfig", "mergeConfigDeep", 0.5),
        ("abc", "abcdef", 0.0),  # three letters may begin anything
        ("router", "Route", 0.5),
        ("session", "Router", 0.0),
    ],
)
def test_name_match(stem: str, identifier: str, value: float) -> None:
    assert ranking_signals.name_match(stem, identifier) == value
    names = file_stems_of(build_segment(documents({f"lib/{stem}.py": "x"})))
    assert best_name_match(names, (identifier,)).tolist() == [value]


class _RecordingDict(dict[str, int]):
    """Dictionary that records how long the looked-up keys are."""

    longest = 0

    def __contains__(self, key: object) -> bool:
        self.longest = max(self.longest, len(str(key)))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.longest = max(self.longest, len(key))
        return super().get(key, default)


def test_a_long_word_is_looked_up_only_up_to_the_length_of_names() -> None:
    names = file_stems_of(build_segment(documents({"lib/router.py": "x", "lib/rou.py": "y"})))
    recorder = _RecordingDict(names.stem_numbers)
    word = "router" + "s" * 100
    assert best_name_match(replace(names, stem_numbers=recorder), (word,)).tolist() == [0.5, 0.0]
    assert stem_coverage(
        replace(names, stem_numbers=recorder), make_name_query((word,), [word], [1.0])
    ).tolist() == [
        1.0,
        1.0,
    ]
    assert recorder.longest == len("router")


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("tests of the router", True),
        ("how is the session mocked", True),
        ("benchmark of parsing", True),
        ("where is test_router", True),
        ("specs of the parser", True),
        ("the latest route", False),
        ("specification of the protocol", False),
    ],
)
def test_questions_about_tests(question: str, asks: bool) -> None:
    assert ranking_signals.asks_for_tests(TermCache().make_query_terms(question).words) is asks


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ab\u00e9\U0001f980", min_size=1, max_size=6), min_size=1, max_size=8),
    st.text("ab\u00e9", min_size=1, max_size=5),
)
def test_a_text_is_found_wherever_it_stands_in_a_name(stems: list[str], part: str) -> None:
    names = file_stems_of(build_segment(documents({f"{stem}.py": "x" for stem in stems})))
    every = [at for at in range(len(names.joined)) if names.joined.startswith(part, at)]
    assert find_in_names(names, part) == every
    assert find_in_names(names, f"\n{part}") == [
        at - 1 for at in every if names.joined[at - 1] == "\n"
    ]
