"""The whole read flow over real PostgreSQL and real files."""

import os
import threading
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from cocosearchd.config.settings import (
    DatabaseSettings,
    EmbedderSettings,
    Profile,
    SearchSettings,
)
from cocosearchd.embedding.base import Vectors
from cocosearchd.embedding.embedder_registry import EmbedderRegistry
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.errors import EmbedderUnavailable, IdentityMismatch, InvalidInput, StoreUnavailable
from cocosearchd.exclusion import find_exclusion
from cocosearchd.model import IndexRecord
from cocosearchd.search import pipeline
from cocosearchd.search.answers import ranked_answer
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.search.plan import Query, parse_query
from cocosearchd.search.query_cache import RankedHits
from cocosearchd.search.trace import Trace
from cocosearchd.store.chunks.rows import Key
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads import chunk_reads
from tests.embedding.ollama_server import Script, ollama_server, vector_of
from tests.search.corpus import Corpus, CountingEmbedder, new_corpus

pytestmark = pytest.mark.anyio

FILES = {
    "app/users.py": '''"""Users."""


class UserRepository:
    """Reads and writes users."""

    def get_user_by_id(self, user_id):
        """The user with an id."""
        return self.rows[user_id]

    def delete_user(self, user_id):
        del self.rows[user_id]
''',
    "app/mail.py": '''def send_mail(address, subject, body):
    """Deliver a message to a mailbox."""
    connection.sendmail(address, f"{subject}\\n\\n{body}")


def welcome(repository, user_id):
    user = repository.get_user_by_id(user_id)
    send_mail(user.address, "Welcome", "hello")
''',
    "cmd/main.go": """package main

// retryLater waits a little longer after each failure.
func retryLater(attempt int) int {
	return attempt * attempt
}

type Server struct {
	Port int
}
""",
    "web/list.ts": """export interface ListOptions { page: number }

export function listUsers(options: ListOptions): string[] {
  return fetchPage("/users", options.page);
}
""",
    "deploy/run.sh": """#!/bin/sh
start_server() {
    exec server --port 80
}
start_server
""",
}


@pytest.fixture
async def corpus(db: Database, tmp_path: Path) -> Corpus:
    return await new_corpus(db, tmp_path / "root", FILES)


@pytest.fixture(scope="module")
async def indexed(module_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The files, indexed once."""
    return await new_corpus(module_db, tmp_path_factory.mktemp("root"), FILES)


@pytest.fixture(scope="module")
async def warm(module_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The same with a lexical index."""
    folder = tmp_path_factory.mktemp("warm")
    return await new_corpus(
        module_db, folder / "root", FILES, name="warm", lexical=folder / "words"
    )


@pytest.fixture
def shared(indexed: Corpus) -> Corpus:
    """For tests that change nothing: the same index, with a cache of the test's own."""
    return replace(indexed, pipeline=Pipeline(indexed.db, indexed.embedder, SearchSettings()))


async def test_an_identifier_finds_its_definition_first(shared: Corpus) -> None:
    answer = await shared.ask("get_user_by_id")
    assert answer.hits[0].path == "app/users.py"
    assert answer.hits[0].match_type == "both"
    assert "app/mail.py" in [hit.path for hit in answer.hits]
    assert answer.generation == shared.record.generation
    assert answer.index == "code"


async def test_plain_words_find_what_is_meant(shared: Corpus) -> None:
    answer = await shared.ask("deliver a message to a mailbox")
    assert answer.hits[0].path == "app/mail.py"


@pytest.mark.parametrize("limit", [0, 1 << 20])
async def test_many_symbols_are_unpacked_in_a_thread(
    shared: Corpus, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    threads = list[threading.Thread]()
    make = ranked_answer.make_ranked_hits

    def recording(*parts: Any) -> RankedHits:
        threads.append(threading.current_thread())
        return make(*parts)

    monkeypatch.setattr(pipeline, "make_ranked_hits", recording)
    monkeypatch.setattr(pipeline, "UNPACKED_ON_LOOP", limit)
    answer = await shared.ask("get_user_by_id")
    assert answer.hits[0].path == "app/users.py"
    assert [thread is threading.main_thread() for thread in threads] == [limit > 0]


async def test_one_chunk_per_file_unless_all_are_wanted(db: Database, tmp_path: Path) -> None:
    functions = "\n\n".join(
        f"def parse_{n}(text):\n    return text.split('{n}')\n" + "    # filler\n" * 60
        for n in range(8)
    )
    corpus = await new_corpus(
        db, tmp_path, {"many.py": functions, "one.py": "def parse(text):\n    return text\n"}
    )
    single = await corpus.ask("parse text")
    assert sorted(hit.path for hit in single.hits) == ["many.py", "one.py"]
    every = await corpus.ask(parse_query("parse text", all_chunks=True))
    assert [hit.path for hit in every.hits].count("many.py") > 1


FILTERED: list[tuple[str, set[str]]] = [
    ("user lang:python", {"app/users.py", "app/mail.py"}),
    ("server lang:go,shell", {"cmd/main.go", "deploy/run.sh"}),
    ("user path:app", {"app/users.py", "app/mail.py"}),
    ("user path:app/**  -path:*mail*", {"app/users.py"}),
    ("user path:*.ts", {"web/list.ts"}),
    ("user sym:class", {"app/users.py", "cmd/main.go"}),
    ("port sym:function,class name:server", {"cmd/main.go"}),
    ("sym:struct", {"cmd/main.go"}),
    ("users sym:function name:LIST*", {"web/list.ts"}),
    ("sym:class", {"app/users.py", "cmd/main.go"}),
    ("name:*user_by*", {"app/users.py"}),
    ('start "exec server"', {"deploy/run.sh"}),
    ('start "EXEC SERVER"', {"deploy/run.sh"}),
    ('start "exec  nothing"', set()),
]


@pytest.mark.parametrize("profile", ["classic", "code"])
@pytest.mark.parametrize(("text", "paths"), FILTERED)
async def test_filters_hold_in_postgresql(
    shared: Corpus, text: str, paths: set[str], profile: str
) -> None:
    answer = await shared.ask(parse_query(text, profile=profile, use_hybrid=True))
    assert {hit.path for hit in answer.hits} == paths


@pytest.mark.parametrize(("text", "paths"), FILTERED)
async def test_filters_hold_in_the_lexical_index(warm: Corpus, text: str, paths: set[str]) -> None:
    answer = await warm.ask(parse_query(text, use_cache=False))
    paths = {hit.path for hit in answer.hits}
    assert paths <= paths, "a file that nothing speaks for may be missing, but none may be too many"
    assert bool(paths) == bool(paths)


async def test_classic_is_vectors_alone_without_an_identifier(shared: Corpus) -> None:
    plain = await shared.ask(parse_query("send a message", profile="classic"))
    assert {hit.match_type for hit in plain.hits} == {"semantic"}
    assert [hit.score for hit in plain.hits] == sorted(
        (hit.score for hit in plain.hits), reverse=True
    )
    classic_answer = await shared.ask(parse_query("get_user_by_id", profile="classic"))
    assert classic_answer.hits[0].match_type == "both"
    assert classic_answer.hits[0].score < 0.1  # reciprocal ranks, not a cosine


async def test_classic_gives_as_many_results_as_asked_for(db: Database, tmp_path: Path) -> None:
    body = "    send(mail, message)\n" * 40
    files = {"many.py": "\n\n".join(f"def send_mail_{n}(mail):\n{body}" for n in range(40))}
    files |= {f"few{n}.py": f"def other_{n}(): ...  # mail message number {n}\n" for n in range(12)}
    corpus = await new_corpus(db, tmp_path / "root", files)
    query = parse_query("send mail message", profile="classic", use_hybrid=True, limit=10)
    answer = await corpus.ask(query)
    assert len({hit.path for hit in answer.hits}) == len(answer.hits) == 10
    assert answer.hits[0].path == "many.py"


async def test_min_evidence_means_the_same_in_every_mode(shared: Corpus) -> None:
    everything = await shared.ask(parse_query("send a message", profile="classic"))
    cosines = {hit.path: hit.score for hit in everything.hits}
    relevant = {path for path, cosine in cosines.items() if cosine >= 0.1}
    assert relevant != set(cosines), "the corpus must have something that is not alike"
    for hybrid in (False, True):
        answer = await shared.ask(
            parse_query("send a message", profile="classic", use_hybrid=hybrid, min_evidence=0.1)
        )
        assert {hit.path for hit in answer.hits} == relevant


@pytest.mark.parametrize("profile", ["code", "classic"])
async def test_min_relevance_leaves_out_less_relevant_hits(shared: Corpus, profile: str) -> None:
    everything = await shared.ask(parse_query("get_user_by_id", profile=profile))
    relevances = sorted({hit.relevance for hit in everything.hits})
    assert len(relevances) > 1
    assert 0 < relevances[0] < relevances[-1] <= 1
    answer = await shared.ask(
        parse_query("get_user_by_id", profile=profile, min_relevance=relevances[-1])
    )
    assert {hit.relevance for hit in answer.hits} == {relevances[-1]}


async def test_only_chunks_that_pass_the_limits_are_read(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = await new_corpus(db, tmp_path / "root", FILES, lexical=tmp_path / "words")
    everything = await corpus.ask("get_user_by_id")
    read = chunk_reads.chunks_with_files
    keys = list[Key]()

    async def note_keys(
        db: Database, record: IndexRecord, requested: Sequence[Key], size: int = 0
    ) -> chunk_reads.RowsWithFiles:
        keys.extend(requested)
        return await read(db, record, requested, size)

    monkeypatch.setattr(chunk_reads, "chunks_with_files", note_keys)
    highest = max(hit.relevance for hit in everything.hits)
    answer = await corpus.ask(parse_query("get_user_by_id", min_relevance=highest))
    assert 0 < len(answer.hits) < len(everything.hits)
    assert {path for path, _, _ in keys} == {hit.path for hit in answer.hits}


async def test_a_second_question_is_answered_from_the_cache(shared: Corpus) -> None:
    first = await shared.ask("get_user_by_id")
    second = await shared.ask("get_user_by_id")
    assert (first.cache, second.cache) == ("miss", "exact")
    assert second.hits == first.hits
    assert shared.pipeline.cache_statistics().exact_hits == 1


async def test_the_semantic_level_is_consulted(shared: Corpus) -> None:
    await shared.ask("deliver mail message")
    answer = await shared.ask("message mail deliver")
    assert answer.cache == "semantic"
    assert shared.pipeline.cache_statistics().semantic_hits == 1


async def test_a_long_question_that_differs_in_one_word_is_another_one(
    db: Database, tmp_path: Path
) -> None:
    words = ("zorblax", "quokkito", "frobnix")
    files = {
        f"{word}.py": f"def handle(config):\n    # the {word} config is parsed here\n"
        for word in words
    }
    corpus = await new_corpus(db, tmp_path / "root", files, lexical=tmp_path / "words")
    for word in words:
        text = f"where in the code base is the {word} config parsed when the service starts and handles requests"
        answer = await corpus.ask(text)
        assert (answer.hits[0].path, answer.cache) == (f"{word}.py", "miss")


@pytest.mark.parametrize(
    "second",
    [
        parse_query("deliver mail", limit=3),
        parse_query("deliver mail", languages=("go",)),
        parse_query("deliver mail", paths=("cmd",)),
        parse_query("deliver mail", not_paths=("cmd",)),
        parse_query("deliver mail", symbol_types=("class",)),
        parse_query("deliver mail", symbol_name="x*"),
        parse_query("deliver mail", profile="classic"),
        parse_query("deliver mail", use_hybrid=False),
        parse_query("deliver mail", reranker="functional"),
        parse_query("deliver mail", min_relevance=0.2),
        parse_query("deliver mail", min_evidence=0.2),
        parse_query("deliver mail", collapse=False),
        parse_query("deliver mail", all_chunks=True),
        parse_query('"deliver mail"'),
    ],
)
async def test_no_parameter_is_missing_from_the_key(shared: Corpus, second: Query) -> None:
    await shared.ask("deliver mail")
    assert (await shared.ask(second)).cache == "miss"


async def test_display_options_do_not_miss_the_cache(shared: Corpus) -> None:
    plain = await shared.ask(parse_query("get_user_by_id", smart_context=False))
    wide = await shared.ask(parse_query("get_user_by_id", lines_before=1, lines_after=1))
    assert wide.cache == "exact"
    assert plain.hits[0].context_before == plain.hits[0].context_after == ""


async def test_the_cache_can_be_left_aside(shared: Corpus) -> None:
    await shared.ask("deliver mail")
    assert (await shared.ask(parse_query("deliver mail", use_cache=False))).cache == "miss"


async def test_an_edit_of_one_index_leaves_the_cache_of_another(
    corpus: Corpus, tmp_path: Path
) -> None:
    second = await new_corpus(
        corpus.db, tmp_path / "other", FILES, name="other", pipeline=corpus.pipeline
    )
    await corpus.ask("deliver mail")
    await second.ask("deliver mail")
    await corpus.save("app/new.py", "def deliver_mail(): ...\n")
    edited = await corpus.ask("deliver mail")
    assert edited.cache == "miss"
    assert "app/new.py" in [hit.path for hit in edited.hits]
    assert (await second.ask("deliver mail")).cache == "exact"


async def test_a_changed_file_is_never_shown_as_current(corpus: Corpus) -> None:
    first = await corpus.ask("get_user_by_id")
    (corpus.root / "app/users.py").write_text("# all gone\n")
    answer = await corpus.ask("get_user_by_id")
    assert answer.cache == "exact"
    assert answer.changed_paths == ("app/users.py",)
    stale = next(hit for hit in answer.hits if hit.path == "app/users.py")
    assert stale.stale
    assert stale.content == first.hits[0].content
    assert stale.context_before == stale.context_after == ""
    assert not any(hit.stale for hit in answer.hits if hit.path != "app/users.py")


async def test_a_deleted_file_is_marked(corpus: Corpus) -> None:
    (corpus.root / "app/users.py").unlink()
    assert (await corpus.ask("get_user_by_id")).changed_paths == ("app/users.py",)


async def test_a_file_behind_a_link_out_of_the_root_is_not_read(
    corpus: Corpus, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(FILES["app/users.py"])
    (corpus.root / "app/users.py").unlink()
    (corpus.root / "app/users.py").symlink_to(outside)
    assert (await corpus.ask("get_user_by_id")).changed_paths == ("app/users.py",)


async def test_hits_are_widened_to_their_definition(db: Database, tmp_path: Path) -> None:
    body = "\n".join(f"    step_{n} = compute(step_{n - 1})  # {'x' * 40}" for n in range(1, 41))
    corpus = await new_corpus(
        db, tmp_path, {"long.py": f"def pipeline(step_0):\n{body}\n    return step_40\n"}
    )
    answer = await corpus.ask("step_30")
    hit = answer.hits[0]
    text = "\n".join(
        part for part in (hit.context_before, hit.content.rstrip("\n"), hit.context_after) if part
    )
    assert text.startswith("def pipeline(step_0):")
    assert text.endswith("return step_40")
    assert len(text.splitlines()) == 42


async def test_a_budget_keeps_the_best(shared: Corpus) -> None:
    everything = await shared.ask("user server mail")
    assert len(everything.hits) > 2
    small = await shared.ask(parse_query("user server mail", budget_chars=300))
    visible = sum(
        len(hit.content) + len(hit.context_before) + len(hit.context_after) for hit in small.hits
    )
    assert 0 < visible <= 300
    assert (everything.omitted, small.omitted) == (0, len(everything.hits) - len(small.hits))
    assert [hit.path for hit in small.hits] == [hit.path for hit in everything.hits][
        : len(small.hits)
    ]


class DownEmbedder(BuiltinEmbedder):
    """A model server that is away. (A real one cannot be told to be away at the right moment.)"""

    async def embed_query(self, text: str) -> Vectors:
        raise EmbedderUnavailable("the model does not answer", "start it")


async def test_words_are_found_while_the_model_is_away(db: Database, tmp_path: Path) -> None:
    corpus = await new_corpus(db, tmp_path, FILES, embedder=DownEmbedder())
    for profile in ("code", "classic"):
        answer = await corpus.ask(parse_query("deliver message", profile=profile))
        assert answer.hits[0].path == "app/mail.py"
        assert answer.hits[0].match_type == "keyword"
        assert "the model does not answer" in answer.warnings[0]
        again = await corpus.ask(parse_query("deliver message", profile=profile))
        assert again.cache == "miss", "the model may be back"


async def test_a_text_the_model_knows_nothing_of(shared: Corpus) -> None:
    answer = await shared.ask("??? !!!")
    assert answer.hits == ()
    assert "none of them" in answer.warnings[0]


async def test_vectors_of_different_models_are_never_compared(shared: Corpus) -> None:
    foreign_identity = replace(
        shared.record.identity, embedder=(("model", "nomic-embed-text"), ("provider", "ollama"))
    )
    foreign = replace(shared.record, identity=foreign_identity)
    with pytest.raises(IdentityMismatch, match="ollama/nomic-embed-text"):
        await shared.pipeline.run(foreign, parse_query("deliver"), Trace())


async def test_a_model_that_is_not_reached_yet_is_not_mistaken_for_that_of_the_index(
    module_db: Database,
) -> None:
    """The configured model is known by its provider until it is open, and that of the index has the
    same provider.
    """
    script = Script({"nomic-embed-text:latest": "sha256:1", "all-minilm:latest": "sha256:2"}, 8)
    with ollama_server(script) as url:
        earlier = EmbedderSettings(provider="ollama", model="nomic-embed-text", ollama_url=url)
        present = replace(earlier, model="all-minilm")
        async with aclosing(await open_embedder(earlier)) as embedder:
            pairs = embedder.fingerprint.pairs()
        configured = LazyEmbedder(partial(open_embedder, present))
        async with aclosing(EmbedderRegistry(configured, present, open_embedder)) as embedders:
            pipeline = Pipeline(
                module_db, configured, SearchSettings(), find_embedder=embedders.get
            )
            assert embedders.get(pairs) is configured
            query_vector = await pipeline.embed(pairs, "where", Trace())
            assert embedders.get(pairs) is not configured
    assert query_vector.embedder == pairs
    assert query_vector.vector is not None
    np.testing.assert_allclose(query_vector.vector, vector_of("search_query: where", 8), atol=1e-6)


async def test_an_earlier_answer_is_better_than_none(dsn: str, tmp_path: Path) -> None:
    async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=2)) as db:
        corpus = await new_corpus(db, tmp_path, FILES)
        first = await corpus.ask("deliver mail")
    corpus.record = replace(corpus.record, generation=corpus.record.generation + 1)
    answer = await corpus.ask("deliver mail")  # the pool is closed now: nothing answers
    assert answer.stale is not None
    assert answer.stale.code == "earlier_answer"
    assert [hit.path for hit in answer.hits] == [hit.path for hit in first.hits]
    assert answer.generation == first.generation
    with pytest.raises(StoreUnavailable):
        await corpus.ask("something else")


async def test_an_explained_run_is_the_same_run(shared: Corpus) -> None:
    plain = await shared.ask("get_user_by_id lang:python")
    trace = Trace(explain=True)
    explained = await shared.ask("get_user_by_id lang:python", trace)
    assert explained.hits == plain.hits
    details = trace.details
    assert details["plan"]["where"] == {"languages": ("python",)}
    assert details["cache"] == {"exact": True}
    assert details["ranking"]["results"][0]["path"] == "app/users.py"
    assert details["ranking"]["results"][0]["features"] == {"definition_boost": 2.0}
    assert {"plan", "embed", "retrieve", "rank", "verify", "expand"} <= set(trace.timings_ms)
    first = details["ranking"]["results"][0]
    assert first["fused"] == {
        "vector": 1 / (60 + first["vector_rank"]),
        "keyword": 1 / (60 + first["keyword_rank"]),
    }
    assert first["score"] == 2.0 * sum(first["fused"].values())
    by_meaning = Trace(explain=True)
    await shared.ask(parse_query("get_user_by_id", profile="classic", use_hybrid=False), by_meaning)
    assert "fused" not in by_meaning.details["ranking"]["results"][0], "a cosine is no sum of ranks"


async def test_a_plain_run_keeps_no_details(shared: Corpus) -> None:
    trace = Trace()
    await shared.ask("deliver", trace)
    assert trace.details == {}
    assert trace.timings_ms["retrieve"] > 0


@pytest.mark.parametrize(
    ("query", "path", "status"),
    [
        (parse_query("get_user_by_id"), "app/users.py", "shown"),
        (parse_query("get_user_by_id", limit=1), "app/mail.py", "ranked_lower"),
        (parse_query("get_user_by_id", min_relevance=1.0), "cmd/main.go", "below_min_score"),
        (parse_query("get_user_by_id lang:go"), "app/users.py", "filtered"),
        (parse_query("get_user_by_id -path:app"), "./app/users.py", "filtered"),
        (parse_query("get_user_by_id path:web"), "app/users.py", "filtered"),
        (parse_query("get_user_by_id sym:interface"), "app/users.py", "filtered"),
        (
            parse_query("get_user_by_id limit", use_hybrid=False, profile="classic", limit=1),
            "deploy/run.sh",
            "not_retrieved",
        ),
        (parse_query("get_user_by_id"), "app/nothing.py", "not_indexed"),
    ],
)
async def test_why_not(shared: Corpus, query: Query, path: str, status: str) -> None:
    trace = Trace(explain=True)
    await shared.ask(replace(query, why_not=path), trace)
    assert trace.details["why_not"]["status"] == status, trace.details["why_not"]


@pytest.mark.parametrize(
    ("path", "status", "rank"),
    [
        ("docs/en/webhooks.md", "shown", 1),
        ("docs/de/webhooks.md", "alike", 1),
        ("src/other.py", "shown", 2),
    ],
)
async def test_why_not_counts_alike_files_once(
    corpus: Corpus, path: str, status: str, rank: int
) -> None:
    for locale in ("en", "de", "fr", "es", "ja"):
        await corpus.save(
            f"docs/{locale}/webhooks.md", f"# Webhooks\n\nwebhooks webhooks {locale}\n"
        )
    await corpus.save("src/other.py", "def send():\n    return 'to all webhooks'\n")
    trace = Trace(explain=True)
    answer = await corpus.ask(parse_query("all the webhooks", limit=2, why_not=path), trace)
    assert [hit.path for hit in answer.hits] == ["docs/en/webhooks.md", "src/other.py"]
    explanation = trace.details["why_not"]
    assert (explanation["status"], explanation["rank"]) == (status, rank)


async def test_why_not_names_the_filter(shared: Corpus) -> None:
    trace = Trace(explain=True)
    await shared.ask(parse_query("user lang:go sym:interface", why_not="app/users.py"), trace)
    assert trace.details["why_not"]["filters"] == ["language", "symbol type"]


async def test_why_not_a_skipped_file(corpus: Corpus) -> None:
    await corpus.index("big.py", b"x = 1\n", skip="too_large")
    (corpus.root / "later.py").write_text("x = 1\n")
    trace = Trace(explain=True)
    await corpus.ask(parse_query("x", why_not="big.py"), trace)
    assert (
        trace.details["why_not"]["reason"]
        == f"seen and skipped: {find_exclusion('too_large').sentence}"
    )
    await corpus.ask(parse_query("x", why_not="later.py"), trace)
    assert trace.details["why_not"]["on_disk"] is True


async def test_why_not_a_file_on_a_file_server_that_hangs(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, lexists = threading.Event(), os.path.lexists

    def hang(path: bytes) -> bool:
        return answers.wait(120) if os.fsencode(path).endswith(b"/hung.py") else lexists(path)

    monkeypatch.setattr(os.path, "lexists", hang)
    trace = Trace(explain=True)
    try:
        with anyio.fail_after(60):
            await corpus.ask(parse_query("x", why_not="hung.py"), trace)
    finally:
        answers.set()
    assert trace.details["why_not"]["on_disk"] is None
    assert "does not answer" in trace.details["why_not"]["reason"]


async def test_rerankers_reorder_and_show_their_features(shared: Corpus) -> None:
    answer = await shared.ask(
        parse_query("how to send a mail message", profile="classic", reranker="functional")
    )
    assert answer.hits[0].path == "app/mail.py"
    scores = dict(answer.hits[0].signals)
    assert {"vector_score", "entity_relevance", "code_quality"} <= set(scores)
    assert 0 < answer.hits[0].score <= 1


async def test_a_wrong_value_is_refused_before_anything_is_read(shared: Corpus) -> None:
    with pytest.raises(InvalidInput):
        await shared.ask("x lang:cobol2000")


async def test_exact_hits_and_listings_are_not_embedded(db: Database, tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    corpus = await new_corpus(db, tmp_path, FILES, embedder=embedder)
    await corpus.ask("deliver mail lang:python")
    await corpus.ask("deliver mail lang:python")
    await corpus.ask("sym:class")
    assert embedder.asked == ["deliver mail"]


async def test_a_list_of_symbols_names_the_symbol_that_was_asked_for(
    db: Database, tmp_path: Path
) -> None:
    text = "class Small:\n    pass\n\n\nclass Wanted:\n    pass\n\n\ndef tail():\n    return 1\n"
    corpus = await new_corpus(
        db, tmp_path / "root", {"a.py": text, "b.py": "def wanted_too():\n    return 2\n"}
    )
    hits = (await corpus.ask(parse_query("name:*Wanted*"))).hits
    assert [(hit.path, hit.symbol_type, hit.symbol_name) for hit in hits] == [
        ("a.py", "class", "Wanted"),
        ("b.py", "function", "wanted_too"),
    ]
    # All of a file, without being asked for all chunks.
    long = "\n\n".join(
        f"def step_{n}(value):\n" + f"    value += {n}\n" * 30 + "    return value"
        for n in range(4)
    )
    await corpus.save("c.py", long)
    hits = (await corpus.ask(parse_query("sym:function name:step_*"))).hits
    assert [hit.symbol_name for hit in hits] == [f"step_{n}" for n in range(4)]
    # A definition that is several chunks is one symbol, one with other parameters another.
    body = "\n".join(f"    value = change_it(value, {n})  # step {n}" for n in range(120))
    await corpus.save(
        "d.py",
        f"def far_too_long(value):\n{body}\n    return value\n\n\ndef far_too_long(a, b):\n{body}\n",
    )
    hits = (await corpus.ask(parse_query("name:far_too_long", limit=5))).hits
    assert [(hit.start_line, hit.symbol_signature) for hit in hits] == [
        (1, "def far_too_long(value)"),
        (125, "def far_too_long(a, b)"),
    ]


PACKED = '''class Store:
    """Rows."""

    limit = 10

    def delete(self, key):
        del self.rows[key]


def brand_new_thing(): return 1


def close_quietly(store):
    store.close()


def outer(values):
    """Values."""

    class Inner:
        pass

    return Inner(values)
'''


@pytest.mark.parametrize("profile", ["code", "classic"])
@pytest.mark.parametrize("lexical", [True, False])
@pytest.mark.parametrize(
    ("text", "symbol", "line"),
    [
        ("brand_new_thing", ("function", "brand_new_thing", "def brand_new_thing()"), 10),
        ("close_quietly", ("function", "close_quietly", "def close_quietly(store)"), 13),
        ("Store.limit", ("class", "Store", "class Store"), 1),
        ("Store delete", ("method", "Store.delete", "def delete(self, key)"), 6),
        ("rows", ("class", "Store", "class Store"), 2),
        ("store sym:function", ("function", "close_quietly", "def close_quietly(store)"), 13),
        ("close name:brand*", ("function", "brand_new_thing", "def brand_new_thing()"), 10),
        ("rows sym:class", ("class", "Store", "class Store"), 2),
        ("values sym:class name:Inner", ("class", "outer.Inner", "class Inner"), 20),
    ],
)
async def test_a_hit_is_named_by_the_definition_of_its_line(
    db: Database,
    tmp_path: Path,
    profile: Profile,
    lexical: bool,
    text: str,
    symbol: tuple[str, str, str],
    line: int,
) -> None:
    corpus = await new_corpus(
        db, tmp_path / "root", {"a.py": PACKED}, lexical=tmp_path / "words" if lexical else None
    )
    (hit,) = (await corpus.ask(parse_query(text, profile=profile))).hits
    assert ((hit.symbol_type, hit.symbol_name, hit.symbol_signature), hit.line) == (symbol, line)
