"""One question to several indexes."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.config.settings import SearchSettings
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.errors import IdentityMismatch, NotFound
from cocosearchd.model import Hit
from cocosearchd.search.answers.multi_index import merge_hits, order_hits, search_several
from cocosearchd.search.pipeline import Answer, Pipeline
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
            selected = order_hits([entry.hits for entry in widened], limit, is_name=" " not in text)
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
    assert {hit.index for hit in merged.hits} == {"one", "three"}
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
    assert [(hit.index, hit.path) for hit in merged.hits[:2]] == [
        ("named", "a.py"),
        ("named", "b.py"),
    ]
    assert merged.hits[2].index != "named"
    merged = await search_several(
        pipeline, records, parse_query("settle the invoice balance", limit=3)
    )
    assert (merged.hits[0].index, merged.hits[0].path) == ("named", "a.py")
    assert len({hit.index for hit in merged.hits}) == 3


def answer(index: str, *scores: float, relevance: tuple[float, ...] = ()) -> Answer:
    hits = tuple(
        Hit(index, f"{n}.py", 0, 1, 1, 1, "python", score, "both", "", "", None, None, None, "x")
        for n, score in enumerate(scores)
    )
    warnings = (
        replace(hit, scores=(("relevance", entry),))
        for hit, entry in zip(hits, relevance, strict=True)
    )
    return Answer(index, tuple(warnings) if relevance else hits, 1)


def in_order(answers: list[Answer], limit: int, *, name: bool = False) -> tuple[Hit, ...]:
    return merge_hits(answers, order_hits([entry.hits for entry in answers], limit, is_name=name))


def test_merging_goes_by_rank_and_never_by_score() -> None:
    merged = in_order([answer("a", 0.01, 0.009, 0.008), answer("b", 900.0, 800.0), answer("c")], 4)
    assert [(hit.index, hit.path) for hit in merged] == [
        ("a", "0.py"),
        ("b", "0.py"),
        ("a", "1.py"),
        ("b", "1.py"),
    ]
    assert [hit.score for hit in merged] == [1 / 61, 1 / 61, 1 / 62, 1 / 62]
    assert dict(merged[1].scores)["own_score"] == 900.0


@pytest.mark.parametrize(
    ("name", "expected"), [(False, "b0 a0 b1 a1 b2 a2"), (True, "b0 b1 a0 a1 b2 a2")]
)
def test_of_one_rank_the_most_relevant_comes_first(name: bool, expected: str) -> None:
    answers = [
        answer("a", 3, 2, 1, relevance=(0.4, 0.4, 0.1)),
        answer("b", 3, 2, 1, relevance=(0.5, 1.0, 0.9)),
    ]
    merged = in_order(answers, 6, name=name)
    assert " ".join(hit.index + hit.path[0] for hit in merged) == expected


@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=6), max_size=5),
    st.integers(1, 12),
    st.booleans(),
)
def test_each_index_contributes_its_first_hits(
    relevances: list[list[float]], limit: int, name: bool
) -> None:
    answers = [
        answer(str(number), *([1.0] * len(entry)), relevance=tuple(entry))
        for number, entry in enumerate(relevances)
    ]
    selected = order_hits([entry.hits for entry in answers], limit, is_name=name)
    assert len(selected) == min(limit, sum(map(len, relevances)))
    for number in range(len(relevances)):
        ranks = [rank for where, rank in selected if where == number]
        assert ranks == list(range(1, len(ranks) + 1))
