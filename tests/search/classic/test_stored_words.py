"""Answers of `classic` and `code` over one corpus, with and without stored words."""

from dataclasses import replace
from pathlib import Path

import pytest

from cocosearchd.config.settings import SearchSettings
from cocosearchd.embedding.base import Vectors
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.errors import EmbedderUnavailable
from cocosearchd.search.classic.word_splitter import split_in_thread
from cocosearchd.search.pipeline import Answer, Pipeline
from cocosearchd.search.plan import parse_query
from cocosearchd.search.relevance import WEAK
from cocosearchd.search.retrieval import COLD_WARNING
from cocosearchd.search.trace import Trace
from cocosearchd.store.connection.database import Database
from cocosearchd.store.words.keyword_search import has_words
from cocosearchd.store.words.words_table import drop_words, fill_words
from tests.search.corpus import Corpus, new_corpus

pytestmark = pytest.mark.anyio
FILES = {
    f"{folder}/{n}.{suffix}": text.format(n=n)
    for n in range(12)
    for folder, suffix, text in (
        ("app", "py", "class Store{n}:\n    def open_file(self):\n        return self.path_{n}\n"),
        ("web", "ts", "export function openFile{n}(path: string) {{ return read(path); }}\n"),
        ("docs", "md", "# Caf\u00e9 {n}\n\nHow to open the file, and \u6587\u5b57\u5217 too.\n"),
    )
}
QUESTIONS = [
    parse_query(text, profile=profile, use_hybrid=hybrid, limit=limit, use_cache=False, **filters)
    for text in (
        "open_file",
        "open the file",
        '"open the file" path',
        "cafe",
        "\u6587\u5b57",
        "Store7",
    )
    for profile in ("classic", "code")
    for hybrid in (None, True)
    for limit in (3, 50)
    for filters in (
        {},
        {"paths": ("app/**", "docs/**")},
        {"languages": ("typescript",)},
        {"symbol_types": ("function", "method")},
    )
]


async def answers(corpus: Corpus) -> list[Answer]:
    return [await corpus.ask(question) for question in QUESTIONS]


async def test_answers_are_the_same_before_and_after_words_are_stored(
    db: Database, tmp_path: Path
) -> None:
    corpus = await new_corpus(db, tmp_path / "root", FILES, lexical=tmp_path / "lexical")
    assert not await has_words(db, corpus.record)
    answers_by_reading = await answers(corpus)
    assert sum(bool(answer.hits) for answer in answers_by_reading) > len(answers_by_reading) / 2
    assert {hit.match_type for answer in answers_by_reading for hit in answer.hits} == {
        "both",
        "keyword",
        "semantic",
    }
    await fill_words(db, corpus.record, split_in_thread)
    assert await answers(corpus) == answers_by_reading
    await corpus.save("app/3.py", "def open_file():\n    return 'the file'\n")
    stored = await answers(corpus)
    await drop_words(db, corpus.record, grace_s=0)
    assert await answers(corpus) == stored
    assert stored != answers_by_reading


async def test_a_cold_index_without_stored_words_answers_by_vectors(
    db: Database, tmp_path: Path
) -> None:
    corpus = await new_corpus(db, tmp_path / "root", FILES, lexical=tmp_path / "lexical")
    assert corpus.lexical is not None
    await corpus.lexical.delete()
    answer = await corpus.ask("how to open the file")
    assert answer.hits
    assert {hit.match_type for hit in answer.hits} == {"semantic"}
    assert answer.warnings == (COLD_WARNING,)
    await fill_words(db, corpus.record, split_in_thread)
    again = await corpus.ask(parse_query("how to open the file", use_cache=False))
    assert "both" in {hit.match_type for hit in again.hits}


@pytest.mark.parametrize(
    ("text", "path"),
    [("Store7", "app/7.py"), ("openFile3", "web/3.ts"), ("where is openFile3 used", "web/3.ts")],
)
async def test_a_cold_index_finds_a_name_by_its_definition(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, path: str
) -> None:
    """The nearest vectors may be those of other names: here there are more of them than are read."""
    monkeypatch.setattr("cocosearchd.search.plan.CODE_DEPTH", 3)
    monkeypatch.setattr("cocosearchd.search.plan.RRF_DEPTH", 3)
    corpus = await new_corpus(db, tmp_path / "root", FILES, lexical=tmp_path / "lexical")
    assert corpus.lexical is not None
    await corpus.lexical.delete()
    answer = await corpus.ask(parse_query(text, limit=3))
    assert answer.is_cold
    assert (answer.hits[0].path, answer.hits[0].match_type) == (path, "both")
    assert answer.hits[0].relevance > WEAK
    elsewhere = await corpus.ask(parse_query(text, limit=3, paths=("docs/**",)))
    assert path not in {hit.path for hit in elsewhere.hits}


class DownEmbedder(BuiltinEmbedder):
    async def embed_query(self, text: str) -> Vectors:
        raise EmbedderUnavailable("the model does not answer", "start it")


async def test_without_a_vector_texts_are_read_for_the_words(db: Database, tmp_path: Path) -> None:
    corpus = await new_corpus(
        db, tmp_path / "root", FILES, lexical=tmp_path / "lexical", embedder=DownEmbedder()
    )
    assert corpus.lexical is not None
    await corpus.lexical.delete()
    for profile in ("code", "classic"):
        answer = await corpus.ask(parse_query("store7 open_file", profile=profile))
        assert [hit.path for hit in answer.hits] == ["app/7.py"]
        assert answer.hits[0].match_type == "keyword"


@pytest.mark.parametrize("with_words", [True, False])
async def test_why_a_file_is_not_shown(db: Database, tmp_path: Path, with_words: bool) -> None:
    corpus = await new_corpus(db, tmp_path / "root", FILES, lexical=tmp_path / "lexical")
    if with_words:
        await fill_words(db, corpus.record, split_in_thread)
    for path, has_every_word in (("app/7.py", True), ("web/7.ts", False)):
        trace = Trace(explain=True)
        query = parse_query(
            "open_file path_7", profile="classic", use_hybrid=True, limit=1, why_not=path
        )
        await corpus.pipeline.run(corpus.record, replace(query, use_cache=False), trace)
        reason = trace.details["why_not"]
        assert reason["status"] in ("shown", "ranked_lower", "not_retrieved")
        if reason["status"] == "not_retrieved":
            assert reason["has_every_word"] is has_every_word


async def test_only_a_search_of_words_by_classic_is_noted(db: Database, tmp_path: Path) -> None:
    names = list[str]()
    corpus = await new_corpus(db, tmp_path / "root", FILES)
    corpus.pipeline = Pipeline(db, corpus.embedder, SearchSettings(), note_classic=names.append)
    await corpus.ask("open_file")
    await corpus.ask(parse_query("open the file", profile="classic"))
    assert names == [], "vectors alone"
    await corpus.ask(parse_query("open_file", profile="classic"))
    await corpus.ask(parse_query("open_file", profile="classic"))
    assert names == ["code", "code"], "from the cache as well"
