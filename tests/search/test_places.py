"""Results made of places: grouping by file, other places, lists, limits, and the line to open."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.languages.symbol_table import PackedSymbols, pack
from cocosearchd.model import Symbol
from cocosearchd.search.places import (
    MAX_OTHER_PLACES,
    HeadingRules,
    ScoredResult,
    best_line,
    query_words,
    select_results,
    to_hit,
    word_roots,
)
from cocosearchd.search.plan import Plan
from cocosearchd.search.scored_candidates import ScoredCandidate
from tests.search.candidates import candidate

PLAN = Plan("find the user", Filter(), "code", 3, 100, True, (), "disabled", 0.0, False, False)


def entry(
    path: str, start: int, score: float, place_score: float, relevance: float = 0.5
) -> ScoredCandidate:
    return ScoredCandidate(
        candidate(path, start, content=f"{path} {start}"),
        score,
        "both",
        own_place_score=place_score,
        relevance=relevance,
    )


SCORED = [
    entry("strong.py", 0, 9.0, 5.0),
    entry("strong.py", 10, 9.0, 4.0),
    entry("strong.py", 20, 9.0, 1.0),
    entry("middle.py", 0, 6.0, 3.0, relevance=0.3),
    entry("weak.py", 0, 2.0, 2.0, relevance=0.1),
    entry("last.py", 0, 1.0, 9.0),
]


def shape(results: tuple[ScoredResult, ...]) -> list[tuple[str, int, list[int]]]:
    return [
        (
            result.best.candidate.path,
            result.best.candidate.start_byte,
            [extra.candidate.start_byte for extra in result.more_places],
        )
        for result in results
    ]


def test_other_places_are_shown_where_they_are_among_the_best() -> None:
    assert shape(select_results(PLAN, SCORED)) == [
        ("strong.py", 0, [10]),  # its third place is worse than the three best of all
        ("middle.py", 0, []),
        ("weak.py", 0, []),
    ]


def test_one_place_stands_for_those_that_are_nearly_equal() -> None:
    twins = [
        twin._replace(candidate=twin.candidate._replace(content="def send(self): ..."))
        for twin in (entry("a.py", 0, 9.0, 5.0), entry("a.py", 10, 9.0, 4.0))
    ]
    scored = [twins[0], twins[1], entry("a.py", 20, 9.0, 3.0), entry("b.py", 0, 1.0, 1.0)]
    (result, last) = select_results(replace(PLAN, collapse=True), scored)
    assert shape((result, last)) == [("a.py", 0, [20]), ("b.py", 0, [])]
    assert to_hit("index", result).similar_lines == (11,)
    separate = select_results(replace(PLAN, collapse=False), scored)
    assert shape(separate) == [("a.py", 0, [10, 20]), ("b.py", 0, [])]
    first, second = twins
    behind = [entry("a.py", 30, 9.0, 6.0), first, second]
    (result,) = select_results(replace(PLAN, collapse=True), behind)
    assert [extra.similar_lines for extra in to_hit("index", result).other_places] == [(11,)]


def test_all_chunks_are_a_plain_list_by_relevance() -> None:
    plan = replace(PLAN, all_chunks=True, limit=4)
    assert shape(select_results(plan, SCORED)) == [
        ("last.py", 0, []),  # as relevant as the next three, and the best place
        ("strong.py", 0, []),
        ("strong.py", 10, []),
        ("strong.py", 20, []),
    ]


def test_a_minimum_of_relevance_leaves_out_places() -> None:
    plan = replace(PLAN, min_relevance=0.3)
    assert [path for path, _, _ in shape(select_results(plan, SCORED))] == [
        "strong.py",
        "middle.py",
        "last.py",
    ]


def test_a_list_of_symbols_has_all_symbols_of_a_file_in_their_order() -> None:
    plan = replace(PLAN, listing=True, limit=2)
    listed = [entry("b.py", 0, 0, 0), entry("b.py", 10, 0, 0), entry("a.py", 0, 0, 0)]
    assert shape(select_results(plan, listed)) == [("b.py", 0, []), ("b.py", 10, [])]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(0, 9), st.integers(0, 9)), max_size=40
    ),
    st.integers(1, 8),
)
def test_results_are_the_files_in_order_each_once(
    rows: list[tuple[str, int, int]], limit: int
) -> None:
    scored = [
        entry(path, 10 * number, score, rating) for number, (path, score, rating) in enumerate(rows)
    ]
    results = select_results(replace(PLAN, limit=limit, collapse=False), scored)
    files = list(dict.fromkeys(path for path, _, _ in rows))
    assert [result.best.candidate.path for result in results] == files[:limit]
    places = [extra for result in results for extra in (result.best, *result.more_places)]
    assert len({extra.candidate.key for extra in places}) == len(places)
    for result in results:
        assert len(result.more_places) <= MAX_OTHER_PLACES
        assert {extra.candidate.path for extra in result.more_places} <= {
            result.best.candidate.path
        }
        scores = [extra.place_score for extra in result.more_places]
        assert scores == sorted(scores, reverse=True)


def test_the_line_to_open_has_the_most_words_of_the_query() -> None:
    content = "\ndef other():\n    pass\n\ndef find_user(name):\n    return name\n"
    assert best_line(content, query_words(PLAN)) == 4
    assert best_line(content, frozenset({"absent"})) is None
    assert best_line("", frozenset({"absent"})) is None
    assert query_words(replace(PLAN, text="is it the")) == {"is", "it", "the"}  # better than none


@pytest.mark.parametrize(
    ("word", "root"),
    [("redirects", "redirect"), ("followed", "follow"), ("queries", "quer"), ("is", "is")],
)
def test_all_forms_of_a_word_have_its_root(word: str, root: str) -> None:
    assert word_roots(frozenset({word})) == {root}


def test_a_place_without_words_opens_at_the_definition_that_names_it() -> None:
    content = "\nimport os\n\nclass Client:\n    timeout = 3\n"
    chunk = candidate("a.py", content=content, definitions=("Client",), symbol_name="Client")
    best = entry("a.py", 0, 1.0, 1.0)._replace(
        candidate=chunk._replace(end_byte=len(content), end_line=5)
    )
    client = Symbol("class", "Client", "Client", "class Client", None, 12, len(content), 4, 5)
    for words, with_symbols, without in (({"absent"}, 4, 2), ({"import"}, 2, 2)):
        rules = HeadingRules(frozenset(words))
        symbols = PackedSymbols(pack([client]))
        assert to_hit("i", ScoredResult(best), rules, symbols).line == with_symbols
        assert to_hit("i", ScoredResult(best), rules).line == without


def test_a_hit_has_its_places_and_what_it_was_scored_by() -> None:
    best = entry("a.py", 0, 0.1, 2.0, relevance=0.7)._replace(
        vector_rank=3, keyword_rank=1, cosine=0.5
    )
    hit = to_hit("index", ScoredResult(best, (entry("a.py", 10, 0.1, 1.0, relevance=0.4),)))
    assert (hit.index, hit.path, hit.score, hit.relevance) == ("index", "a.py", 0.1, 0.7)
    assert dict(hit.signals) == {
        "relevance": 0.7,
        "every_word": 0.0,
        "vector_rank": 3.0,
        "keyword_rank": 1.0,
        "cosine": 0.5,
    }
    assert [(extra.start_byte, extra.relevance) for extra in hit.other_places] == [(10, 0.4)]
