"""The profile `code` from the warm lexical index, through the pipeline: order, filters, explain,
giving way.
"""

import gc
import json
import threading
import weakref
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import anyio
import pytest

from cocosearchd.config.settings import SearchSettings
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.errors import BadSettings
from cocosearchd.model import Commit
from cocosearchd.search.answers.multi_index import search_several
from cocosearchd.search.code import code_query
from cocosearchd.search.code.code_profile import RankedChunk, ScoredMatrix, load_weights
from cocosearchd.search.grep.bloom_cache import BloomCache
from cocosearchd.search.lexical.analysis.analyser import BY_PATH_ALONE, ReducedFile
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.lexical.scoring import candidate_selection
from cocosearchd.search.pipeline import Answer, Pipeline
from cocosearchd.search.plan import Query, parse_query
from cocosearchd.search.retrieval import COLD_WARNING
from cocosearchd.search.trace import Trace
from cocosearchd.store.connection.database import Database
from tests.search.corpus import Corpus, new_corpus
from tests.search.lexical.direct import DirectAnalyser

pytestmark = pytest.mark.anyio

FILES = {
    "server/router.py": '''"""Routes."""


class Router:
    def add_route(self, path, handler):
        """Register a route."""
''',
    "server/route_group.py": '''"""Groups of routes under one prefix."""


def mount(router, prefix):
    router.prefix = prefix
''',
    "server/session.go": """package server

// Session keeps values between requests.
type Session struct {
\tID string
}
""",
    "tests/test_router.py": """def test_add_route():
    router = Router()
    router.add_route('/', None)
    assert router.routes
""",
    "notes.md": """# Routing

The router knows each route, see add_route.
""",
}


@dataclass
class Warm:
    """A corpus whose pipeline asks a lexical index."""

    corpus: Corpus
    lexical: LexicalIndex

    async def ask(self, query: Query | str, trace: Trace | None = None) -> list[str]:
        return [hit.path for hit in (await self.answer(query, trace)).hits]

    async def answer(self, query: Query | str, trace: Trace | None = None) -> Answer:
        return await self.corpus.ask(query, trace)


@pytest.fixture
async def warm(db: Database, tmp_path: Path) -> Warm:
    embedder = BuiltinEmbedder()
    indexes: dict[str, LexicalIndex] = {}
    pipeline = Pipeline(db, embedder, SearchSettings(), indexes.get)
    corpus = await new_corpus(db, tmp_path / "root", FILES, embedder=embedder, pipeline=pipeline)
    lexical = LexicalIndex(db, corpus.record, tmp_path / "words", DirectAnalyser())
    await lexical.catch_up()
    indexes[corpus.record.name] = lexical
    return Warm(corpus, lexical)


async def test_names_paths_and_words_decide(warm: Warm) -> None:
    assert (await warm.ask("Router"))[0] == "server/router.py"
    assert (await warm.ask("route group"))[0] == "server/route_group.py"
    assert (await warm.ask("keep values between requests"))[0] == "server/session.go"
    paths = await warm.ask("how is a route registered")
    assert len(set(paths)) == len(paths)
    assert paths.index("server/router.py") < paths.index("tests/test_router.py")


async def test_filters_on_files_and_chunks(warm: Warm) -> None:
    assert await warm.ask(parse_query("router", languages=("go",))) in ([], ["server/session.go"])
    assert set(await warm.ask(parse_query("router", paths=("server/*",)))) <= {
        path for path in FILES if "server" in path
    }
    assert "notes.md" not in await warm.ask(parse_query("router", not_paths=("*.md",)))
    assert await warm.ask('"register a route" router') == ["server/router.py"]
    assert set(await warm.ask(parse_query("route", symbol_types=("function",)))) <= {
        "server/route_group.py",
        "tests/test_router.py",
    }


async def test_explains_where_the_answer_is_from(warm: Warm) -> None:
    trace = Trace(explain=True)
    assert not (await warm.answer("Router", trace)).warnings
    assert trace.details["lexical"] == {
        "state": "warm",
        "generation": warm.corpus.record.generation,
    }
    features = trace.details["ranking"]["results"][0]["features"]
    assert features["defined_exactly"] > 0
    assert features["coverage"] == pytest.approx(1.0)
    await warm.lexical.delete()
    trace = Trace(explain=True)
    answer = await warm.answer(parse_query("Router class", use_cache=False), trace)
    assert trace.details["lexical"]["state"] == "cold"
    assert answer.hits[0].path == "server/router.py"
    assert answer.warnings == (COLD_WARNING,)


async def test_an_answer_that_may_lack_files_says_so(warm: Warm) -> None:
    """All answers from memory do; those of PostgreSQL lack nothing."""
    warm.lexical.reduced.update(
        [], [ReducedFile(path, BY_PATH_ALONE) for path in ("notes.md", "server/router.py")]
    )
    await warm.lexical.catch_up()
    note = (
        "searched notes.md and 1 more file by less than the text: `cocosearchctl status` says why"
    )
    for question in ("Router", "sym:function", '"register a route" router'):
        assert note in (await warm.answer(question)).warnings, question
    assert not (await warm.answer(parse_query("Router", profile="classic"))).warnings
    warm.lexical.reduced.update(["notes.md", "server/router.py"], [])
    await warm.lexical.catch_up()
    assert not (await warm.answer("Router prefix")).warnings


async def joinable_corpora(db: Database, folder: Path) -> list[tuple[Corpus, LexicalIndex]]:
    """Make two small warm indexes, which one pipeline scores together."""
    embedder = BuiltinEmbedder()
    indexes: dict[str, LexicalIndex] = {}
    pipeline = Pipeline(db, embedder, SearchSettings(), indexes.get)
    corpora = list[tuple[Corpus, LexicalIndex]]()
    for name, files in (("one", FILES), ("two", {"zoo.py": "class Elephant: ...\n"})):
        corpus = await new_corpus(
            db,
            folder / name,
            files,
            name=name,
            embedder=embedder,
            pipeline=pipeline,
            lexical=folder / "words" / name,
        )
        assert corpus.lexical is not None
        indexes[name] = corpus.lexical
        corpora.append((corpus, corpus.lexical))
    return corpora


async def test_an_index_of_a_joint_question_that_may_lack_files_says_so(
    db: Database, tmp_path: Path
) -> None:
    corpora = await joinable_corpora(db, tmp_path)
    for (_, lexical), path in zip(corpora, ("notes.md", "zoo.py"), strict=True):
        lexical.reduced.update([], [ReducedFile(path, BY_PATH_ALONE)])
        await lexical.catch_up()
    records = [corpus.record for corpus, _ in corpora]
    merged = await search_several(corpora[0][0].pipeline, records, parse_query("Router"))
    assert [answer.warnings for answer in merged.answers] == [
        (f"searched {path} by less than the text: `cocosearchctl status` says why",)
        for path in ("notes.md", "zoo.py")
    ]


async def test_a_replaced_snapshot_frees_its_memory_before_the_next_question(
    db: Database, tmp_path: Path
) -> None:
    """Neither a joint question nor a grep keeps it."""
    corpora = await joinable_corpora(db, tmp_path)
    records = [corpus.record for corpus, _ in corpora]
    await search_several(corpora[0][0].pipeline, records, parse_query("Router"))
    corpus, lexical = corpora[1]
    assert lexical.current_snapshot is not None
    blooms = BloomCache()
    blooms.table(lexical.current_snapshot)
    snapshot = weakref.ref(lexical.current_snapshot)
    joined_part = weakref.ref(lexical.current_snapshot.corpus)
    await corpus.save("zoo.py", "class Zebra: ...\n")
    with anyio.fail_after(60):
        while snapshot() is not None or joined_part() is not None:
            gc.collect()
            await anyio.sleep(0.01)


async def test_the_explained_answer_is_the_answer(
    warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    # stands for a size that no test builds
    monkeypatch.setattr(candidate_selection, "MIN_CANDIDATES", 2)
    monkeypatch.setattr(candidate_selection, "NAME_CANDIDATES", 1)
    report = f"""{"The router does not add a route with its prefix. " * 9}

  File "notes.md", line 1
"""
    texts = ("route", "add route", "keep values between requests", "prefix", report)
    for text, limit, all_chunks in product(texts, (1, 2, 3, 4), (False, True)):
        query = parse_query(text, limit=limit, all_chunks=all_chunks, use_cache=False)
        plain = await warm.answer(query)
        explained = await warm.answer(query, Trace(explain=True))
        assert [(hit.path, hit.score) for hit in explained.hits] == [
            (hit.path, hit.score) for hit in plain.hits
        ]


async def test_answers_are_never_older_than_the_index(warm: Warm) -> None:
    generation = await warm.corpus.save(
        "server/limits.py", "def throttle_clients():\n    return 429\n"
    )
    # The hook has not come: PostgreSQL answers.
    assert (await warm.ask("throttle_clients"))[0] == "server/limits.py"
    await warm.lexical.apply(Commit("code", generation, ("server/limits.py",)))
    answer = await warm.answer(parse_query("throttle_clients", use_cache=False))
    assert answer.hits[0].path == "server/limits.py"
    assert answer.generation == generation
    generation = await warm.corpus.delete("server/limits.py")
    await warm.lexical.apply(Commit("code", generation, ("server/limits.py",)))
    assert "server/limits.py" not in await warm.ask("throttle_clients")


async def test_several_chunks_of_a_file_on_request(warm: Warm) -> None:
    body = "\n\n\n".join(
        f"def ping_{n}(peer):\n" + '    """Ping a peer."""\n' * 30 for n in range(4)
    )
    generation = await warm.corpus.save("server/ping.py", body)
    await warm.lexical.apply(Commit("code", generation, ("server/ping.py",)))
    assert (await warm.ask("ping a peer")).count("server/ping.py") == 1
    assert (await warm.ask(parse_query("ping a peer", all_chunks=True))).count(
        "server/ping.py"
    ) >= 3


async def test_nothing_speaks_for_a_file(warm: Warm) -> None:
    # No letter and no digit: the model gives the zero vector, as it does for no word, however
    # strange.
    assert await warm.ask(parse_query("→ ⇒", use_hybrid=True)) == []


async def test_weights_of_a_file_rank_instead_of_the_shipped_ones(
    warm: Warm, tmp_path: Path
) -> None:
    only = {"test": 1.0}  # whatever was asked, tests first
    kinds = ("plain", "symbol", "plain_without_vectors", "symbol_without_vectors")
    file = tmp_path / "weights.json"
    file.write_text(json.dumps({"weights": dict.fromkeys(kinds, only)}))
    settings = SearchSettings(weights_file=str(file))
    pipeline = Pipeline(warm.corpus.db, warm.corpus.embedder, settings, lambda _: warm.lexical)
    answer = await replace(warm.corpus, pipeline=pipeline).ask("Router")
    assert answer.hits[0].path == "tests/test_router.py"


def test_a_weights_file_that_holds_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="has no weights"):
        load_weights(str(tmp_path / "absent.json"))


def test_weights_of_what_is_no_signal_are_refused(tmp_path: Path) -> None:
    kinds = ("plain", "symbol", "plain_without_vectors", "symbol_without_vectors")
    file = tmp_path / "weights.json"
    file.write_text(json.dumps({"weights": {kind: {"charm": 2.0} for kind in kinds}}))
    with pytest.raises(BadSettings, match="unknown signals: charm"):
        load_weights(str(file))


LOCALES = (
    *("ar", "de", "en", "es", "fr", "he", "it", "ja", "ko", "nl"),
    *("pl", "pt", "ru", "tr", "uk", "vi", "zh", "zh-hant"),
)
PAGES = ("hooks", "queues", "tokens", "cookies")


async def translated_pages(db: Database, directory: Path) -> Corpus:
    """Make an index of `PAGES` in all `LOCALES`."""
    files = {
        f"docs/{code}/{page}.md": f"# Webhook {page} of {code}\n\nA webhook and its {page}.\n"
        for code in LOCALES
        for page in PAGES
    }
    return await new_corpus(db, directory / "docs", files, name="docs", lexical=directory / "words")


@pytest.mark.parametrize(
    ("max_chunks", "is_on_loop"), [(code_query.MAX_CHUNKS_ON_LOOP, True), (0, False)]
)
async def test_many_chunks_are_ranked_again_in_a_thread(
    db: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    max_chunks: int,
    is_on_loop: bool,
) -> None:
    """Files of many chunks must not hold the event loop."""
    threads = list[threading.Thread]()
    rank = code_query.CodeQuery.rank_scored

    def note_thread(query: code_query.CodeQuery, scored: ScoredMatrix) -> tuple[RankedChunk, ...]:
        threads.append(threading.current_thread())
        return rank(query, scored)

    corpus = await translated_pages(db, tmp_path)
    monkeypatch.setattr(code_query, "MAX_CHUNKS_ON_LOOP", max_chunks)
    monkeypatch.setattr(code_query.CodeQuery, "rank_scored", note_thread)
    query = parse_query("where are webhooks", limit=len(PAGES), use_cache=False)
    assert len((await corpus.ask(query)).hits) == len(PAGES)
    assert len(threads) > 1, "alike files left room"
    assert (threading.main_thread() in threads) is is_on_loop


async def test_alike_files_leave_room_for_as_many_results_as_asked_for(
    db: Database, tmp_path: Path
) -> None:
    corpus = await translated_pages(db, tmp_path)
    second_corpus = await new_corpus(
        db, tmp_path / "other", {"a.py": "x = 1\n"}, name="other", pipeline=corpus.pipeline
    )
    for limit in range(1, len(PAGES) + 1):
        query = parse_query("where are webhooks", limit=limit, use_cache=False)
        hits = (await corpus.ask(query)).hits
        merged = await search_several(corpus.pipeline, [corpus.record, second_corpus.record], query)
        assert (len(hits), len(merged.hits)) == (limit, limit)
    assert {hit.path.split("/")[1] for hit in hits} == {"en"}
    assert [len(hit.similar_paths) for hit in hits] == [len(LOCALES) - 1] * len(PAGES)


async def test_of_translations_the_one_in_the_language_of_the_question_is_shown(
    db: Database, tmp_path: Path
) -> None:
    files = {
        f"{code}/hooks.md": f"# Webhook of {code}\n\nA webhook.\n"
        for code in ("zh", "fr", "en", "de")
    }
    corpus = await new_corpus(db, tmp_path / "docs", files, lexical=tmp_path / "words")
    for question, code in (("where are webhooks", "en"), ("o\u00f9 sont les webhooks", "fr")):
        for limit in (1, 10):
            query = parse_query(question, limit=limit)
            (hit,) = (await corpus.ask(query)).hits
            assert (hit.path, len(hit.similar_paths)) == (f"{code}/hooks.md", 3)
