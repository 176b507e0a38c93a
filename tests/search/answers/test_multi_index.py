"""One question to several indexes: merged answers."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.config.settings import SearchSettings
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.errors import IdentityMismatch, NotFound
from cocosearchd.model import Hit
from cocosearchd.search.alike import WantedVariant
from cocosearchd.search.answers.multi_index import (
    SelectedHit,
    collapse_hits,
    merge_hits,
    search_several,
)
from cocosearchd.search.joint.hit_order import (
    MIN_SHARE_OF_BEST,
    HitRelevances,
    RelevanceBounds,
    indexes_that_may_add,
    order_hits,
    relevances_of,
)
from cocosearchd.search.pipeline import Answer, Pipeline
from cocosearchd.search.places import content_words, wanted_variant
from cocosearchd.search.plan import parse_query
from cocosearchd.search.trace import Trace
from cocosearchd.store.connection.database import Database
from cocosearchd.store.index_records import drop_index
from tests.search.corpus import Corpus, CountingEmbedder, new_corpus

pytestmark = pytest.mark.anyio


async def three(db: Database, root: Path) -> tuple[CountingEmbedder, list[Corpus]]:
    embedder = CountingEmbedder()
    pipeline = Pipeline(db, embedder, SearchSettings())
    files = {
        "one": {"mail.py": "def send_mail(address): ...\n", "other.py": "def nothing(): ...\n"},
        "two": {"post.py": "def send_mail_later(address): ...\n"},
        "three": {"zoo.py": "class Elephant: ...\n"},
    }
    corpora = [
        await new_corpus(db, root / name, texts, name=name, embedder=embedder, pipeline=pipeline)
        for name, texts in files.items()
    ]
    return embedder, corpora


async def test_all_are_asked_and_embedded_once(db: Database, tmp_path: Path) -> None:
    embedder, corpora = await three(db, tmp_path)
    records = [corpus.record for corpus in corpora]
    pipeline = corpora[0].pipeline
    merged = await search_several(pipeline, records, parse_query("send mail"))
    assert [(hit.index, hit.path) for hit in merged.hits[:2]] == [
        ("one", "mail.py"),
        ("two", "post.py"),
    ]
    assert embedder.asked == ["send mail"]
    assert {answer.index for answer in merged.answers} == {"one", "two", "three"}
    again = await search_several(pipeline, records, parse_query("send mail"))
    assert {answer.cache for answer in again.answers} == {"exact"}
    assert embedder.asked == ["send mail"], "nothing has to be embedded when all is kept"
    assert again.hits == merged.hits


async def test_limit_and_budget_are_for_all_together(db: Database, tmp_path: Path) -> None:
    _, corpora = await three(db, tmp_path)
    records = [corpus.record for corpus in corpora]
    pipeline = corpora[0].pipeline
    assert (
        len((await search_several(pipeline, records, parse_query("send mail", limit=2))).hits) == 2
    )
    small = await search_several(pipeline, records, parse_query("send mail", budget_chars=40))
    assert sum(len(hit.content) for hit in small.hits) <= 40


async def test_only_what_is_shown_is_widened_and_the_answer_is_as_if_all_were(
    db: Database, tmp_path: Path
) -> None:
    _, corpora = await three(db, tmp_path)
    records = [corpus.record for corpus in corpora]
    pipeline = corpora[0].pipeline
    for limit in range(1, 7):
        for text in ("send mail", "elephant", "nothing else matters"):
            query = parse_query(text, limit=limit, use_cache=False)
            widened = [await pipeline.run(record, query, Trace()) for record in records]
            selected = collapse_hits(
                hits := [entry.hits for entry in widened],
                order_hits([relevances_of(of_index) for of_index in hits]),
                limit,
                wanted_variant(text, content_words(text)),
            )
            assert (await search_several(pipeline, records, query)).hits == merge_hits(
                widened, selected
            )
    await corpora[1].save("post.py", "def send_mail_later(address):\n    return 1\n")
    (tmp_path / "two" / "post.py").write_text("another")
    only = parse_query("send mail", limit=1)
    for again in range(2):
        merged = await search_several(pipeline, records, only)
        assert [(hit.path, hit.stale) for hit in merged.hits] == [("mail.py", False)], again
        assert not any(answer.changed_paths for answer in merged.answers), (
            "nobody reads what is not shown"
        )
    merged = await search_several(pipeline, records, parse_query("send mail", limit=2))
    assert [(hit.path, hit.stale) for hit in merged.hits] == [("mail.py", False), ("post.py", True)]


async def test_a_failing_index_is_reported_beside_the_others(db: Database, tmp_path: Path) -> None:
    _, corpora = await three(db, tmp_path)
    records = [corpus.record for corpus in corpora]
    pipeline = corpora[0].pipeline
    await drop_index(db, corpora[1].record)
    merged = await search_several(pipeline, records, parse_query("send mail"))
    assert [failed.index for failed in merged.failed] == ["two"]
    assert {hit.index for hit in merged.hits} <= {"one", "three"}
    assert any(note.startswith("two: not searched") for note in merged.warnings)


async def test_when_all_fail_the_error_is_told(db: Database, tmp_path: Path) -> None:
    _, corpora = await three(db, tmp_path)
    for corpus in corpora:
        await drop_index(db, corpus.record)
    with pytest.raises(NotFound, match="gone"):
        await search_several(
            corpora[0].pipeline, [corpus.record for corpus in corpora], parse_query("send mail")
        )


async def test_different_embedders_are_refused_with_both_names(
    db: Database, tmp_path: Path
) -> None:
    _, corpora = await three(db, tmp_path)
    foreign = replace(
        corpora[1].record,
        identity=replace(
            corpora[1].record.identity,
            embedder=(("model", "nomic-embed-text"), ("provider", "ollama")),
        ),
    )
    with pytest.raises(IdentityMismatch) as caught:
        await search_several(
            corpora[0].pipeline, [corpora[0].record, foreign], parse_query("send mail")
        )
    assert "builtin/" in caught.value.message
    assert "ollama/nomic-embed-text" in caught.value.message


async def test_a_name_of_one_index_comes_before_what_is_like_it_in_all_others(
    db: Database, tmp_path: Path
) -> None:
    embedder = BuiltinEmbedder()
    pipeline = Pipeline(db, embedder, SearchSettings())
    files = {f"like{n}": {f"{n}.py": f"def invoice_total_{n}(balance): ...\n"} for n in range(4)}
    files["named"] = {
        "a.py": "def settle_invoice_balance(): ...\n",
        "b.py": "settle_invoice_balance()\n",
    }
    corpora = [
        await new_corpus(
            db, tmp_path / name, texts, name=name, embedder=embedder, pipeline=pipeline
        )
        for name, texts in files.items()
    ]
    records = [corpus.record for corpus in corpora]
    merged = await search_several(
        pipeline, records, parse_query("settle_invoice_balance -path:x", limit=3)
    )
    assert [(hit.index, hit.path) for hit in merged.hits] == [("named", "a.py"), ("named", "b.py")]
    merged = await search_several(
        pipeline, records, parse_query("settle the invoice balance", limit=3)
    )
    assert (merged.hits[0].index, merged.hits[0].path) == ("named", "a.py")
    relevances = [hit.relevance for hit in merged.hits]
    assert relevances == [hit.score for hit in merged.hits]
    assert min(relevances) >= relevances[0] * MIN_SHARE_OF_BEST


def answer(index: str, *relevances: float) -> Answer:
    """Make an answer with a hit for each relevance; its score is ten times as large."""
    hits = tuple(
        Hit(
            index=index,
            path=f"{number}.py",
            start_byte=0,
            end_byte=1,
            start_line=1,
            end_line=1,
            language="python",
            score=10 * relevance,
            match_type="both",
            block_type="",
            hierarchy="",
            symbol_type=None,
            symbol_name=None,
            symbol_signature=None,
            content="x",
            relevance=relevance,
        )
        for number, relevance in enumerate(relevances)
    )
    return Answer(index, hits, 1)


def in_order(answers: list[Answer], limit: int) -> tuple[Hit, ...]:
    ordered = order_hits([relevances_of(entry.hits) for entry in answers])
    return merge_hits(answers, [SelectedHit(*chosen) for chosen in ordered[:limit]])


def names_of(hits: tuple[Hit, ...]) -> str:
    return " ".join(hit.index + hit.path[0] for hit in hits)


def test_merging_goes_by_relevance_and_never_by_score() -> None:
    merged = in_order([answer("a", 0.9, 0.3), answer("b", 0.6, 0.5, 0.4), answer("c")], 4)
    assert names_of(merged) == "a0 b0 b1 b2"
    assert [hit.score for hit in merged] == [0.9, 0.6, 0.5, 0.4]
    assert dict(merged[0].signals)["own_score"] == 9.0


def test_hits_of_one_index_keep_their_order() -> None:
    assert names_of(in_order([answer("a", 0.6, 0.4), answer("b", 0.3, 0.9, 0.1)], 5)) == (
        "b0 b1 a0 a1 b2"
    )


def test_an_index_without_an_answer_adds_nothing() -> None:
    assert names_of(in_order([answer("a", 0.9, 0.2), answer("b", 0.2, 0.1)], 10)) == "a0 a1"
    (weak,) = answer("b", 0.1).hits
    literal = Answer("b", (replace(weak, signals=(("every_word", 1.0),)),), 1)
    assert names_of(in_order([answer("a", 0.9), literal], 10)) == "a0 b0"
    unsure = [answer("a", 0.2, 0.1), answer("b", 0.15)]
    assert names_of(in_order(unsure, 10)) == "a0 b0 a1"  # nothing is sure, so all are shown


@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=6), max_size=5),
    st.integers(1, 12),
)
def test_the_shown_hits_of_an_index_are_its_first(
    relevances: list[list[float]], limit: int
) -> None:
    answers = [answer(str(number), *entry) for number, entry in enumerate(relevances)]
    selected = order_hits([relevances_of(entry.hits) for entry in answers])[:limit]
    best = max((max(entry, default=0.0) for entry in relevances), default=0.0)
    added = [entry for entry in relevances if entry and max(entry) >= best * MIN_SHARE_OF_BEST]
    assert len(selected) == min(limit, sum(map(len, added)))
    for number in range(len(relevances)):
        ranks = [rank for index, rank in selected if index == number]
        assert ranks == list(range(1, len(ranks) + 1))


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.6, 0.9]), st.booleans()), max_size=4
        ),
        max_size=40,
    ),
    st.sampled_from([0.0, 0.05, 0.3]),
    st.integers(0, 2),
    st.integers(1, 30),
)
def test_indexes_that_are_not_ranked_add_no_hit(
    indexes: list[list[tuple[float, bool]]], excess: float, spare: int, compared: int
) -> None:
    """Bounds may be too high, by `excess`, or too many, by `spare`, and never too low or too few."""
    hits = [
        HitRelevances(
            tuple(relevance for relevance, _ in entry), any(every_word for _, every_word in entry)
        )
        for entry in indexes
    ]
    bounds = {
        number: RelevanceBounds(
            number, [value + excess for value in entry.running_maxima()] + [excess] * spare, True
        )
        for number, entry in enumerate(hits)
        if entry.values
    }
    ranked = [HitRelevances((), has_every_word=False)] * len(indexes)
    while numbers := indexes_that_may_add(ranked, list(bounds.values()), compared):
        for number in numbers:
            del bounds[number]
            ranked[number] = hits[number]
    assert order_hits(ranked)[:compared] == order_hits(hits)[:compared]


def test_copies_in_several_indexes_are_shown_once() -> None:
    answers = [answer("fork", 0.9), answer("project", 0.8, 0.7)]
    copies = [
        replace(
            entry,
            hits=tuple(
                replace(hit, path=f"{number}/{hit.path}", content=f"content {hit.path}")
                for hit in entry.hits
            ),
        )
        for number, entry in enumerate(answers)
    ]
    hits = [entry.hits for entry in copies]
    ordered = order_hits([relevances_of(of_index) for of_index in hits])
    selected = collapse_hits(hits, ordered, 10, WantedVariant())
    assert [(hit.index, hit.path, hit.similar_paths) for hit in merge_hits(copies, selected)] == [
        ("fork", "0/0.py", ("1/0.py",)),
        ("project", "1/1.py", ()),
    ]
    own_hits = collapse_hits(hits, ordered, 10, WantedVariant(), "project")
    assert [(hit.index, hit.path, hit.similar_paths) for hit in merge_hits(copies, own_hits)] == [
        ("project", "1/0.py", ("0/0.py",)),
        ("project", "1/1.py", ()),
    ]
