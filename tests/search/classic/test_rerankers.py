"""CocoRAG's rerankers: weights, multipliers, blend and each feature."""

import importlib.util
from typing import Any

import numpy as np
import pytest

from cocosearchd.errors import InvalidInput
from cocosearchd.search.classic.rerankers.base import vector_scores
from cocosearchd.search.classic.rerankers.functional import (
    WEIGHTS,
    FunctionalReranker,
    analyse_candidate,
    analyse_query,
    dynamic_weights,
    features,
)
from cocosearchd.search.classic.rerankers.question_words import (
    classify_intent,
    classify_query,
    keywords,
)
from cocosearchd.search.classic.rerankers.reranker_choice import Rerankers, spacy_installed
from cocosearchd.search.classic.rerankers.spacy import WEIGHTS as SPACY_WEIGHTS
from cocosearchd.search.classic.rerankers.spacy import SpacyReranker, extract_prose
from cocosearchd.search.scored_candidates import ScoredCandidate
from tests.search.candidates import candidate


def scored(
    path: str = "a.py", content: str = "x", cosine: float | None = 0.5, language: str = "python"
) -> ScoredCandidate:
    return ScoredCandidate(
        candidate(path, content=content, language=language), 0.1, "both", 1, 1, cosine
    )


def test_the_documented_weights() -> None:
    assert sum(WEIGHTS.values()) == pytest.approx(0.60)
    assert list(WEIGHTS.values()) == [0.15, 0.08, 0.08, 0.08, 0.07, 0.05, 0.05, 0.03, 0.01]
    assert sum(SPACY_WEIGHTS.values()) == pytest.approx(0.60)


@pytest.mark.parametrize(
    ("text", "kind", "aim"),
    [
        ("how to open a file", "how_to", "learn"),
        ("fix the connection error", "fix_error", "debug"),
        ("example of a route", "find_example", "other"),
        ("implement a route", "other", "implement"),
        ("explain the cache", "other", "learn"),
        ("parser", "other", "other"),
    ],
)
def test_what_kind_of_question_it_is(text: str, kind: str, aim: str) -> None:
    assert (classify_query(text), classify_intent(text)) == (kind, aim)


@pytest.mark.parametrize(
    "text", ["how to open a file", "fix the error", "example usage", "create a route", "parser"]
)
def test_weights_always_sum_to_one(text: str) -> None:
    assert sum(dynamic_weights(text).values()) == pytest.approx(1.0)


def test_multipliers_of_type_and_intent_are_combined() -> None:
    weights = dynamic_weights("how to open a file")  # how_to and learn
    raw = {
        **WEIGHTS,
        "educational_value": 0.03 * 1.5 * 1.4,
        "file_appropriateness": 0.08 * 1.3,
        "code_structure_match": 0.05 * 1.2,
    }
    total = sum(raw.values())
    assert weights == pytest.approx({name: value / total for name, value in raw.items()})


PERFECT = '''"""Example: create a database table.

>>> create_database_table("users")
"""


def create_database_table(name):
    # create the database table, then the function returns
    database.create(table(name)); function = database; table = function
'''


def test_features_really_reach_their_whole_share() -> None:
    entry = scored("create_database_table_function.py", PERFECT, 1.0)
    best = FunctionalReranker().rerank("create database table function", [entry])[0]
    values = dict(best.signals)
    assert {name: value for name, value in values.items() if value < 1} == {}
    assert best.score == pytest.approx(1.0)


def test_the_blend_is_forty_to_sixty() -> None:
    nothing = scored("zzz.bin", "", 1.0)
    text = "create database table function"
    quality = dict(features(analyse_query(text), analyse_candidate(nothing)))["code_quality"]
    share = 0.60 * dynamic_weights(text)["code_quality"] * quality
    assert FunctionalReranker().rerank(text, [nothing])[0].score == pytest.approx(0.40 + share)


@pytest.mark.parametrize(
    ("feature", "text", "good", "bad"),
    [
        (
            "entity_relevance",
            "call getUserById",
            scored(content="x.getUserById(1)"),
            scored(content="x.get(1)"),
        ),
        (
            "entity_relevance",
            "http.Client",
            scored(content="class Client: 'http.client'"),
            scored(content="x"),
        ),
        (
            "action_match",
            "delete a user",
            scored(content="def remove_user(): ..."),
            scored(content="def user(): ..."),
        ),
        (
            "technical_overlap",
            "parse tokens",
            scored(content="parseTokens()"),
            scored(content="read()"),
        ),
        (
            "file_appropriateness",
            "user service",
            scored("src/UserService.java"),
            scored("src/other.java"),
        ),
        (
            "file_appropriateness",
            "docker port",
            scored("x", language="dockerfile"),
            scored("x", language="go"),
        ),
        ("keyword_matches", "retry", scored(content="retry retry retry"), scored(content="retry")),
        (
            "domain_relevance",
            "sql query",
            scored(content="open a cursor"),
            scored(content="paint a circle"),
        ),
        (
            "code_structure_match",
            "error handling",
            scored(content="try: pass\nexcept E: ..."),
            scored(content="x = 1"),
        ),
        ("educational_value", "x", scored(content="# an example\nx = 1"), scored(content="x = 1")),
        (
            "code_quality",
            "x",
            scored(content="def f():\n    # why\n    x"),
            scored(content="x" * 500),
        ),
    ],
)
def test_each_feature_tells_good_from_bad(
    feature: str, text: str, good: ScoredCandidate, bad: ScoredCandidate
) -> None:
    question = analyse_query(text)
    better = features(question, analyse_candidate(good))[feature]
    worse = features(question, analyse_candidate(bad))[feature]
    assert 0 <= worse < better <= 1


def test_identifiers_are_split_before_they_are_lowered() -> None:
    assert keywords("getUserById") == ("get", "user", "id", "getuserbyid")
    assert keywords("the a of") == ("the", "a", "of"), "something must be left"


def test_candidates_without_a_cosine_take_the_lowest() -> None:
    assert vector_scores(
        [scored(cosine=0.9), scored(cosine=0.2), scored(cosine=None), scored(cosine=-0.5)]
    ) == [
        0.9,
        0.2,
        0.0,
        0.0,
    ]
    assert vector_scores([scored(cosine=0.9), scored(cosine=None)]) == [0.9, 0.9]
    assert vector_scores([scored(cosine=None)]) == [0.0]


def test_the_order_follows_the_blend() -> None:
    near = scored("near.py", "paint a circle", 0.9)
    right = scored("database_table.py", PERFECT, 0.6)
    again = FunctionalReranker().rerank("create database table function", [near, right])
    assert [entry.candidate.path for entry in again] == ["database_table.py", "near.py"]


def test_the_choice_of_a_reranker() -> None:
    rerankers = Rerankers()
    candidates = [scored()]
    assert rerankers.choose("disabled", "x", candidates) is None
    assert rerankers.choose("functional", "x", []) is None
    functional = rerankers.choose("functional", "x", candidates)
    assert functional is not None
    assert functional.name == "functional"
    short = rerankers.choose("auto", "getUserById", candidates)
    assert short is not None
    assert short.name == "functional"


@pytest.mark.skipif(spacy_installed(), reason="spaCy and its model are installed")
def test_auto_never_picks_what_is_not_installed() -> None:
    commented = [
        scored()._replace(candidate=candidate("a", content="# why the lock is held\nlock()"))
    ]
    chosen = Rerankers().choose("auto", "explain how the lock works and why it is held", commented)
    assert chosen is not None
    assert chosen.name == "functional"


@pytest.mark.skipif(importlib.util.find_spec("spacy") is not None, reason="spaCy is installed")
def test_spacy_by_name_says_what_to_install() -> None:
    with pytest.raises(InvalidInput) as caught:
        Rerankers().choose("spacy", "x", [scored()])
    assert "cocosearchd[spacy]" in caught.value.hint


@pytest.mark.skipif(not spacy_installed(), reason="needs spaCy and en_core_web_sm")
def test_spacy_reads_comments() -> None:
    right = scored("a.py", '"""Sends letters to customers."""\ndef f(): ...', 0.5)
    wrong = scored("b.py", '"""Paints a circle."""\ndef f(): ...', 0.5)
    chosen = Rerankers().choose("spacy", "send a letter to the customer", [wrong, right])
    assert chosen is not None
    again = chosen.rerank("send a letter to the customer", [wrong, right])
    assert again[0].candidate.path == "a.py"
    assert set(dict(again[0].signals)) == {"vector_score", *SPACY_WEIGHTS}


@pytest.mark.parametrize(
    ("language", "code", "prose"),
    [
        ("python", "x = 1  # one\ny = 2", "one"),
        ("python", 'def f():\n    """Two words."""', "Two words."),
        ("c", "// three\nfoo(); /* four */", "three four"),
        ("vim", '  " five', "five"),
        ("python", "x = 1", ""),
    ],
)
def test_the_prose_of_code_is_its_comments(language: str, code: str, prose: str) -> None:
    assert extract_prose(code, language) == prose


def test_spacy_features_on_a_small_language() -> None:
    """Real spaCy without its model: vectors and tags of a few words are given by hand."""
    spacy = pytest.importorskip("spacy")
    language = spacy.blank("en")
    lemmas = {"sends": "send", "letters": "letter", "customers": "customer"}

    def given_tags(doc: Any) -> Any:
        for token in doc:
            token.lemma_ = lemmas.get(token.text.lower(), token.text.lower())
            token.pos_ = (
                "VERB"
                if token.lemma_ == "send"
                else "NOUN"
                if token.lemma_ in lemmas.values()
                else "X"
            )
        return doc

    spacy.Language.component("given_tags", func=given_tags)
    language.add_pipe("given_tags")
    for number, (plural, lemma) in enumerate(lemmas.items()):
        for word in (plural, lemma):
            language.vocab.set_vector(word, np.eye(3, dtype=np.float32)[number])
    right = scored("a.py", '"""Sends letters to customers."""\ndef f(): ...', 0.5)
    wrong = scored("b.py", '"""Paints a circle."""\ndef f(): ...', 0.5)
    again = SpacyReranker(language).rerank("send a letter to the customer", [wrong, right])
    assert [entry.candidate.path for entry in again] == ["a.py", "b.py"]
    values = dict(again[0].signals)
    assert set(values) == {"vector_score", *SPACY_WEIGHTS}
    assert values["syntactic_match"] == 1.0
    assert values["semantic_similarity"] > 0.5
