"""Fusion, boosts and selection; `score_classic` against a slow reference."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.search.classic.fusion import (
    RRF_K,
    SCORERS,
    fuse,
    score_candidates,
    score_classic,
    score_code_fallback,
    starts_definition,
)
from cocosearchd.search.places import select_results
from cocosearchd.search.plan import Plan
from cocosearchd.search.scored_candidates import RetrievedCandidates, listed_candidate
from cocosearchd.store.chunks.rows import Candidate
from tests.search.candidates import candidate

PLAN = Plan(
    "find getUser", Filter(), "classic", 10, 20, True, ("getUser",), "disabled", 0.0, True, False
)
SEMANTIC = replace(PLAN, uses_keywords=False)


def reference(
    vector: list[Candidate], keyword: list[Candidate], hybrid: bool, limit: int
) -> list[tuple[object, ...]]:
    """Return the documented ranking, one sentence at a time: (path, start, end, score, match
    type) of each result.

    Vector search alone sorts by cosine similarity. Hybrid search: results are identified by path,
    start and end byte; the score is the sum of 1/(60 + rank) over the lists that have the result;
    the match type says which have it; sorted by score, ties prefer keyword matches. Then chunks
    whose content starts with a definition keyword count twice, and the list is sorted again. The
    limit comes last.
    """
    keywords = [
        "async def", "def", "class",
        "function", "const", "let", "var", "interface", "type",
        "func",
        "fn", "struct", "trait", "enum", "impl",
    ]  # fmt: skip
    rows: list[tuple[str, int, int, float, str]] = []
    if not hybrid:
        rows = [(hit.path, hit.start_byte, hit.end_byte, hit.score, "semantic") for hit in vector]
        rows.sort(key=lambda row: (-row[3], row[0], row[1], row[2]))
        return list(rows[:limit])
    identities: list[tuple[str, int, int]] = []
    contents: dict[tuple[str, int, int], str] = {}
    for hit in vector + keyword:
        identity = (hit.path, hit.start_byte, hit.end_byte)
        contents[identity] = hit.content
        if identity not in identities:
            identities.append(identity)
    for identity in identities:
        total = 0.0
        in_vector = in_keyword = False
        for rank in range(1, len(vector) + 1):
            if (
                vector[rank - 1].path,
                vector[rank - 1].start_byte,
                vector[rank - 1].end_byte,
            ) == identity:
                total = total + 1 / (60 + rank)
                in_vector = True
        for rank in range(1, len(keyword) + 1):
            if (
                keyword[rank - 1].path,
                keyword[rank - 1].start_byte,
                keyword[rank - 1].end_byte,
            ) == identity:
                total = total + 1 / (60 + rank)
                in_keyword = True
        text = contents[identity].lstrip()
        for word in keywords:
            if text == word or (
                text.startswith(word) and not (text[len(word)].isalnum() or text[len(word)] == "_")
            ):
                total = total * 2.0
                break
        kind = "both" if in_vector and in_keyword else "semantic" if in_vector else "keyword"
        rows.append((*identity, total, kind))
    rows.sort(key=lambda row: (-row[3], 1 if row[4] == "semantic" else 0, row[0], row[1], row[2]))
    return list(rows[:limit])


CONTENTS = [
    "def f(): pass",
    "  class A:",
    "x = 1",
    "define(x)",
    "fn main() {}",
    "async def f",
    "type",
    "types = 1",
    "",
]


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[Candidate], list[Candidate]]:
    """Chunks of a few files, drawn into a vector list with falling cosines and a keyword list."""
    keys = draw(
        st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5)), unique=True, max_size=20)
    )
    chunks = [
        candidate(path, start * 10, content=draw(st.sampled_from(CONTENTS))) for path, start in keys
    ]
    vector = draw(st.permutations(chunks))[: draw(st.integers(0, len(chunks)))]
    keyword = draw(st.permutations(chunks))[: draw(st.integers(0, len(chunks)))]
    cosines = sorted(
        draw(st.lists(st.floats(-1, 1, width=32), min_size=len(vector), max_size=len(vector)))
    )
    # The store gives ties in the order of their keys.
    scored = sorted(
        (
            chunk._replace(score=cosine)
            for chunk, cosine in zip(vector, reversed(cosines), strict=True)
        ),
        key=lambda chunk: (-chunk.score, chunk.key),
    )
    return scored, list(keyword)


@settings(max_examples=300, deadline=None)
@given(corpora(), st.booleans(), st.integers(1, 25))
def test_classic_is_what_the_documents_say(
    corpus: tuple[list[Candidate], list[Candidate]], hybrid: bool, limit: int
) -> None:
    vector, keyword = corpus
    plan = replace(PLAN, uses_keywords=hybrid, limit=limit)
    chosen = select_results(
        plan,
        score_classic(
            plan, RetrievedCandidates(tuple(vector), tuple(keyword if hybrid else ()), len(keyword))
        ),
    )
    rows = [
        (
            entry.candidate.path,
            entry.candidate.start_byte,
            entry.candidate.end_byte,
            entry.score,
            entry.match_type,
        )
        for entry in (result.best for result in chosen)
    ]
    assert rows == reference(vector, keyword, hybrid, limit)


@settings(max_examples=100, deadline=None)
@given(corpora())
def test_fusion_does_not_care_which_leg_is_which(
    corpus: tuple[list[Candidate], list[Candidate]],
) -> None:
    vector = tuple(corpus[0])
    keyword = tuple(corpus[1])
    forward = {
        item.candidate.key: item.score for item in fuse(RetrievedCandidates(vector, keyword))
    }
    backward = {
        item.candidate.key: item.score for item in fuse(RetrievedCandidates(keyword, vector))
    }
    assert forward == pytest.approx(backward)


def test_fusion_by_hand() -> None:
    a = candidate("a")
    b = candidate("b")
    c = candidate("c")
    scored = fuse(RetrievedCandidates((a, b), (b, c), 1))
    assert [entry.candidate.path for entry in scored] == ["b", "a", "c"]
    assert [entry.match_type for entry in scored] == ["both", "semantic", "keyword"]
    assert [entry.score for entry in scored] == [1 / 62 + 1 / 61, 1 / 61, 1 / 62]
    assert [(entry.vector_rank, entry.keyword_rank, entry.every_word) for entry in scored] == [
        (2, 1, True),
        (1, 0, False),
        (0, 2, False),
    ]


def test_ties_prefer_keyword_matches() -> None:
    scored = fuse(RetrievedCandidates((candidate("a"),), (candidate("b"),), 1))
    assert scored[0].score == scored[1].score
    assert [entry.match_type for entry in scored] == ["keyword", "semantic"]


@pytest.mark.parametrize(
    ("content", "is_definition"),
    [
        ("def f():", True),
        ("\n  async def f():", True),
        ("func (r *Repo) Get()", True),
        ("impl Trait for X {", True),
        ("default = 1", False),
        ("typed = 1", False),
        ("return class", False),
    ],
)
def test_what_starts_like_a_definition(content: str, is_definition: bool) -> None:
    assert starts_definition(candidate("a", content=content)) is is_definition


def test_code_doubles_only_definitions_of_what_is_named() -> None:
    uses = candidate("uses", content="def other(): getUser()", definitions=("other",))
    defines = candidate("defines", content="def getUser():", definitions=("Repo.getUser",))
    retrieved = RetrievedCandidates((), (uses, defines), 2)
    by_name = score_code_fallback(PLAN, retrieved)
    assert [entry.candidate.path for entry in by_name] == ["defines", "uses"]
    assert by_name[0].score == 2 / (RRF_K + 2)
    plain = score_code_fallback(replace(PLAN, text="find the user", identifiers=()), retrieved)
    assert [entry.candidate.path for entry in plain] == ["uses", "defines"]


def test_relevance_grows_with_evidence() -> None:
    def relevance_of(cosine: float, every_word: bool, text: str) -> float:
        hit = candidate("a", score=cosine)
        plan = replace(PLAN, text=text)
        retrieved = RetrievedCandidates((hit,), (hit,), int(every_word))
        return score_candidates(plan, retrieved)[0].relevance

    assert 0 < relevance_of(0.1, False, "find the user") < 0.05
    assert relevance_of(0.3, False, "find the user") < relevance_of(0.3, True, "find the user")
    assert relevance_of(0.5, False, "find the user") < relevance_of(0.7, False, "find the user") < 1
    # Words in common say much of a name and little of a sentence.
    assert relevance_of(0.3, False, "getUser") < relevance_of(0.3, False, "find the user")
    assert relevance_of(0.9, True, "getUser") > 0.5


def test_what_was_asked_for_literally_is_relevant() -> None:
    hit = candidate("a", score=0.1)
    phrase = replace(PLAN, where=Filter(phrases=("exact text",)))
    retrieved = RetrievedCandidates((), (hit,), 1)
    assert [entry.relevance for entry in score_candidates(phrase, retrieved)] == [1.0]
    assert listed_candidate(hit, 1).relevance == 1.0


def test_both_profiles_are_there() -> None:
    assert set(SCORERS) == {"classic", "code"}
