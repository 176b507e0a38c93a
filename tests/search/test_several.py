"""One question to several indexes."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.embedding.base import Vectors
from cocosearchd.embedding.builtin import BuiltinEmbedder
from cocosearchd.errors import IdentityMismatch, NotFound
from cocosearchd.model import Hit
from cocosearchd.search.pipeline import Answer, Pipeline
from cocosearchd.search.plan import Query
from cocosearchd.search.several import merge, search_several, shown_of_each
from cocosearchd.search.trace import Trace
from cocosearchd.settings import SearchSettings
from cocosearchd.store.pool import Database
from cocosearchd.store.records import drop_index
from tests.search.corpus import Corpus, new_corpus

pytestmark = pytest.mark.anyio


class CountingEmbedder(BuiltinEmbedder):
    """Counts questions: the number of calls is what is tested."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def embed_query(self, text: str) -> Vectors:
        self.asked.append(text)
        return await super().embed_query(text)


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
    records, pipeline = [corpus.record for corpus in corpora], corpora[0].pipeline
    merged = await search_several(pipeline, records, Query("send mail"))
    assert [(hit.index, hit.path) for hit in merged.hits[:2]] == [("one", "mail.py"), ("two", "post.py")]
    assert embedder.asked == ["send mail"]
    assert {answer.index for answer in merged.answers} == {"one", "two", "three"}
    again = await search_several(pipeline, records, Query("send mail"))
    assert {answer.cache for answer in again.answers} == {"exact"}
    assert embedder.asked == ["send mail"], "nothing has to be embedded when all is kept"
    assert again.hits == merged.hits


async def test_limit_and_budget_are_for_all_together(db: Database, tmp_path: Path) -> None:
    _, corpora = await three(db, tmp_path)
    records, pipeline = [corpus.record for corpus in corpora], corpora[0].pipeline
    assert len((await search_several(pipeline, records, Query("send mail", limit=2))).hits) == 2
    small = await search_several(pipeline, records, Query("send mail", budget_chars=40))
    assert sum(len(hit.content) for hit in small.hits) <= 40


async def test_only_what_is_shown_is_widened_and_the_answer_is_as_if_all_were(db: Database, tmp_path: Path) -> None:
    _, corpora = await three(db, tmp_path)
    records, pipeline = [corpus.record for corpus in corpora], corpora[0].pipeline
    for limit in range(1, 7):
        for text in ("send mail", "elephant", "nothing else matters"):
            query = Query(text, limit=limit, use_cache=False)
            widened = [await pipeline.run(record, query, Trace()) for record in records]
            assert (await search_several(pipeline, records, query)).hits == merge(widened, limit)
    await corpora[1].save("post.py", "def send_mail_later(address):\n    return 1\n")
    (tmp_path / "two" / "post.py").write_text("another")
    only = Query("send mail", limit=1)
    for again in range(2):
        merged = await search_several(pipeline, records, only)
        assert [(hit.path, hit.stale) for hit in merged.hits] == [("mail.py", False)], again
        assert not any(answer.changed_paths for answer in merged.answers), "nobody reads what is not shown"
    both = await search_several(pipeline, records, replace(only, limit=2))
    assert [(hit.path, hit.stale) for hit in both.hits] == [("mail.py", False), ("post.py", True)]


async def test_one_that_fails_is_told_beside_the_others(db: Database, tmp_path: Path) -> None:
    _, corpora = await three(db, tmp_path)
    records, pipeline = [corpus.record for corpus in corpora], corpora[0].pipeline
    await drop_index(db, corpora[1].record)
    merged = await search_several(pipeline, records, Query("send mail"))
    assert [failed.index for failed in merged.failed] == ["two"]
    assert {hit.index for hit in merged.hits} == {"one", "three"}
    assert any(note.startswith("two: not searched") for note in merged.notes)


async def test_when_all_fail_the_error_is_told(db: Database, tmp_path: Path) -> None:
    _, corpora = await three(db, tmp_path)
    for corpus in corpora:
        await drop_index(db, corpus.record)
    with pytest.raises(NotFound, match="gone"):
        await search_several(corpora[0].pipeline, [corpus.record for corpus in corpora], Query("send mail"))


async def test_different_embedders_are_refused_with_both_names(db: Database, tmp_path: Path) -> None:
    _, corpora = await three(db, tmp_path)
    foreign = replace(
        corpora[1].record,
        identity=replace(corpora[1].record.identity, embedder=(("model", "nomic-embed-text"), ("provider", "ollama"))),
    )
    with pytest.raises(IdentityMismatch) as caught:
        await search_several(corpora[0].pipeline, [corpora[0].record, foreign], Query("send mail"))
    assert "builtin/" in caught.value.message
    assert "ollama/nomic-embed-text" in caught.value.message


def answer(index: str, *scores: float) -> Answer:
    hits = tuple(
        Hit(index, f"{n}.py", 0, 1, 1, 1, "python", score, "both", "", "", None, None, None, "x")
        for n, score in enumerate(scores)
    )
    return Answer(index, hits, 1)


def test_merging_goes_by_rank_and_never_by_score() -> None:
    merged = merge([answer("a", 0.01, 0.009, 0.008), answer("b", 900.0, 800.0), answer("c")], 4)
    assert [(hit.index, hit.path) for hit in merged] == [("a", "0.py"), ("b", "0.py"), ("a", "1.py"), ("b", "1.py")]
    assert [hit.score for hit in merged] == [1 / 61, 1 / 61, 1 / 62, 1 / 62]
    assert dict(merged[1].scores)["own_score"] == 900.0


@given(st.lists(st.integers(0, 6), max_size=5), st.integers(1, 12))
def test_so_many_are_shown_of_each_as_merging_takes(found: list[int], limit: int) -> None:
    answers = [answer(str(place), *([1.0] * count)) for place, count in enumerate(found)]
    shown = shown_of_each(found, limit)
    taken = Counter(hit.index for hit in merge(answers, limit))
    assert shown == [taken[str(place)] for place in range(len(found))]
    begun = [replace(each, hits=each.hits[:count]) for each, count in zip(answers, shown, strict=True)]
    assert merge(begun, limit) == merge(answers, limit)
