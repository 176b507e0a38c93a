"""Ranks on a small corpus, as a golden file: a change of ranking is a diff to review.

`pytest tests/quality --update-golden` writes ranks.json anew. The floors below are what no change
may fall under.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cocosearchd.config.settings import SearchSettings
from cocosearchd.search.classic.word_splitter import split_in_thread
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.search.plan import parse_query
from cocosearchd.store.connection.database import Database
from cocosearchd.store.words.words_table import drop_words, fill_words
from tests.search.corpus import Corpus, new_corpus

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
GOLDEN = HERE / "ranks.json"
QUERIES = tomllib.loads((HERE / "queries.toml").read_text())["query"]
DEPTH = 10
# Mean reciprocal rank. `code` with and without the lexical index; `classic` as documented.
FLOORS = {
    "code": 0.93,
    "code, cold": 0.93,
    "code, cold, vectors alone": 0.93,
    "classic": 0.90,
    "classic, hybrid": 0.65,
    "classic, functional": 0.90,
}


@dataclass(frozen=True)
class Way:
    """A way to rank: parameters of a query, whether the lexical index is there, and whether
    PostgreSQL has words.
    """

    options: Mapping[str, object]
    lexical: bool = False
    words: bool = True


WAYS = {
    "code": Way({"profile": "code"}, lexical=True),
    "code, cold": Way({"profile": "code"}),
    "code, cold, vectors alone": Way({"profile": "code"}, words=False),
    "classic": Way({"profile": "classic"}),
    "classic, hybrid": Way({"profile": "classic", "use_hybrid": True}),
    "classic, functional": Way({"profile": "classic", "reranker": "functional"}),
}


@pytest.fixture(scope="module")
async def corpus(module_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    source = HERE / "corpus"
    files = {
        str(path.relative_to(source)): path.read_text()
        for path in sorted(source.rglob("*"))
        if path.is_file()
    }
    folder = tmp_path_factory.mktemp("quality")
    return await new_corpus(module_db, folder / "root", files, lexical=folder / "words")


async def rank_of(corpus: Corpus, way: Way, text: str, relevant: list[str]) -> int | None:
    """The place of the first wanted file, None if it is not among the first ten."""
    answer = await corpus.ask(parse_query(text, limit=DEPTH, **way.options))
    paths = [hit.path for hit in answer.hits]
    return next((rank for rank, path in enumerate(paths, 1) if path in relevant), None)


def mean_reciprocal_rank(ranks: dict[str, int | None]) -> float:
    return sum(1 / rank for rank in ranks.values() if rank) / len(ranks)


@pytest.mark.parametrize("name", WAYS)
async def test_ranks(corpus: Corpus, name: str, update_golden: bool) -> None:
    way = WAYS[name]
    lexical = corpus.lexical if way.lexical else None
    if way.words:
        await fill_words(corpus.db, corpus.record, split_in_thread)
    else:
        await drop_words(corpus.db, corpus.record, grace_s=0)
    way_corpus = replace(
        corpus, pipeline=Pipeline(corpus.db, corpus.embedder, SearchSettings(), lambda _: lexical)
    )
    ranks = {
        query["text"]: await rank_of(way_corpus, way, query["text"], query["files"])
        for query in QUERIES
    }
    score = mean_reciprocal_rank(ranks)
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if update_golden:
        golden[name] = {"mean_reciprocal_rank": round(score, 4), "ranks": ranks}
        ordered = {way: golden[way] for way in WAYS if way in golden}
        GOLDEN.write_text(json.dumps(ordered, indent=1) + "\n")
        return
    moved = {
        text: f"{golden[name]['ranks'].get(text)} -> {rank}"
        for text, rank in ranks.items()
        if golden[name]["ranks"].get(text, -1) != rank
    }
    assert not moved, (
        f"ranks moved (mean reciprocal rank {score:.4f}); if meant: pytest tests/quality --update-golden"
    )
    assert score >= FLOORS[name]


def test_every_file_that_is_asked_for_exists() -> None:
    assert len(QUERIES) >= 60
    for query in QUERIES:
        assert all((HERE / "corpus" / path).is_file() for path in query["files"]), query
