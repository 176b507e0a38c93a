"""Unsaved text: the answers equal those after a save, for one client alone."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cocosearchd.api import overlay_sessions
from cocosearchd.api.overlay_sessions import (
    EMBEDDING_BATCH,
    MAX_SESSIONS,
    MAX_UNSAVED_FILES,
    OverlayRules,
    OverlaySessions,
)
from cocosearchd.config.settings import IndexingSettings, SearchSettings
from cocosearchd.embedding.base import Vectors
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.errors import EmbedderUnavailable, InvalidInput, NotFound, Refused
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.indexing.pipeline.skip_rules import SkipRules
from cocosearchd.indexing.pool.overlay_parser import OverlayParser
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.model import Chunk, Hit
from cocosearchd.search.answers.disk_files import VerifiedFiles, make_contents
from cocosearchd.search.answers.file_content import get_file
from cocosearchd.search.answers.multi_index import search_several
from cocosearchd.search.answers.related import find_related
from cocosearchd.search.overlay import Overlay, OverlayFile, make_overlay
from cocosearchd.search.plan import Query, parse_query
from cocosearchd.search.trace import Trace
from cocosearchd.store.connection.database import Database
from tests.search.corpus import Corpus, new_corpus

pytestmark = pytest.mark.anyio

RULES = OverlayRules(
    chunker_limits(IndexingSettings()),
    SkipRules(max_file_bytes=1 << 20, index_secrets=False, any_type=False),
)
FILES = {
    "app/users.py": '''"""Users."""


class UserRepository:
    """Reads and writes users."""

    def get_user_by_id(self, user_id):
        """The user with an id."""
        return self.rows[user_id]
''',
    "app/mail.py": '''def send_mail(address, subject, body):
    """Deliver a message to a mailbox."""
    connection.sendmail(address, f"{subject}\\n\\n{body}")
''',
    "web/list.ts": "export function listUsers(page: number): string[] {\n  return fetchPage('/users', page);\n}\n",
    "notes.md": "# Mail\n\nHow messages are delivered, and users told.\n",
}
# Another function in a known file, and a file that is not there yet.
UNSAVED = {
    "app/mail.py": '''def send_mail(address, subject, body):
    """Deliver a message to a mailbox."""
    queue.put((address, subject, body))


def bounce_message(message, reason):
    """Return an undeliverable message to its sender."""
    send_mail(message.sender, reason, message.body)
''',
    "app/quota.py": '''def mailbox_quota(user):
    """How many messages a mailbox may hold."""
    return user.plan.quota
''',
}
QUERIES = (
    parse_query("deliver a message to a mailbox"),
    parse_query("bounce_message"),
    parse_query("send_mail"),
    parse_query("return undeliverable message to sender", all_chunks=True, limit=20),
    parse_query("mailbox quota sym:function"),
    parse_query("message path:app/** -path:quota.py"),
    parse_query('"undeliverable message" sender'),
    parse_query("name:*mail* sym:function"),
    parse_query("users lang:typescript"),
)


class Away(BuiltinEmbedder):
    """The built-in model, for as long as it `answers`."""

    answers = True

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if not self.answers:
            raise EmbedderUnavailable("the model is away", "wait")
        return await super().embed_documents(texts)


class Reversed(BuiltinEmbedder):
    """Another model of the same dimension: the built-in one with its axes in reverse."""

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return np.ascontiguousarray((await super().embed_documents(texts))[:, ::-1])


class Slow(BuiltinEmbedder):
    """The built-in model; texts that contain `word` wait until `release` is set."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self.word = word
        self.waiting = asyncio.Event()
        self.release = asyncio.Event()

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if any(self.word in text for text in texts):
            self.waiting.set()
            await self.release.wait()
        return await super().embed_documents(texts)


class Counting(BuiltinEmbedder):
    """The built-in model; `sizes` are the numbers of texts that it was given at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = list[int]()

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.sizes.append(len(texts))
        return await super().embed_documents(texts)


class Unhurried(Counting):
    """The built-in model, which needs a while for each text when it is `busy`."""

    TEXT_S = 0.05
    busy = False
    running = 0
    most_running = 0

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(self.TEXT_S * len(texts) if self.busy else 0)
        finally:
            self.running -= 1
        return await super().embed_documents(texts)


@pytest.fixture
async def corpus(db: Database, tmp_path: Path) -> Corpus:
    return await new_corpus(db, tmp_path / "root", FILES, lexical=tmp_path / "words")


async def held(
    corpus: Corpus, files: dict[str, str], overlays: OverlaySessions, session: str
) -> Overlay:
    for path, text in files.items():
        await overlays.put(session, corpus.record, path, text.encode(), RULES)
    overlay = await overlays.overlay(session, corpus.record)
    assert overlay is not None
    return overlay


def shown(hits: Sequence[Hit]) -> list[tuple[object, ...]]:
    return [
        (h.path, h.start_byte, h.start_line, h.content, h.context_before, h.context_after, h.match_type,
         h.symbol_name, round(h.score, 5))
        for h in hits
    ]  # fmt: skip


async def ask(corpus: Corpus, query: Query, overlay: Overlay | None) -> tuple[Hit, ...]:
    return (await corpus.pipeline.run(corpus.record, query, Trace(), overlay=overlay)).hits


@pytest.mark.parametrize("way", ["code", "cold", "classic"])
async def test_the_answer_is_that_of_saved_text(
    db: Database, tmp_path: Path, way: str, overlay_parser: OverlayParser
) -> None:
    """With the lexical index, before it is there, and with the other profile; with words, vectors,
    and both.
    """
    warm = tmp_path / "words" if way == "code" else None
    settings = SearchSettings(profile="classic" if way == "classic" else "code")
    corpus = await new_corpus(db, tmp_path / "root", FILES, lexical=warm, settings=settings)
    overlays = OverlaySessions(lambda _: corpus.embedder, overlay_parser)
    queries = [
        replace(query, ranking=replace(query.ranking, use_hybrid=hybrid))
        for query in QUERIES
        for hybrid in (None, True, False)
    ]
    with overlays.session() as session:
        overlay = await held(corpus, UNSAVED, overlays, session)
        expected = [await ask(corpus, query, None) for query in queries]
        unsaved = [await ask(corpus, query, overlay) for query in queries]
        # nobody else sees it
        assert [await ask(corpus, query, None) for query in queries] == expected
    for path, text in UNSAVED.items():
        await corpus.save(path, text)
    for query, hits in zip(queries, unsaved, strict=True):
        saved = shown(await ask(corpus, query, None))
        # see `retrieve`: of unsaved chunks that have some of the words only, the vectors speak
        if way == "cold":
            assert [hit.path for hit in hits[:1]] == [row[0] for row in saved[:1]], query
        else:
            assert shown(hits) == saved, query
    assert any(unsaved)
    assert unsaved != expected
    assert {hit.path for hits in unsaved for hit in hits if hit.overlay} == set(UNSAVED)
    assert not any(hit.overlay and hit.path not in UNSAVED for hits in unsaved for hit in hits)


async def test_a_cold_index_finds_an_unsaved_name_by_its_definition(
    corpus: Corpus, overlay_parser: OverlayParser
) -> None:
    assert corpus.lexical is not None
    await corpus.lexical.delete()
    overlays = OverlaySessions(lambda _: corpus.embedder, overlay_parser)
    with overlays.session() as session:
        overlay = await held(corpus, UNSAVED, overlays, session)
        unsaved = await ask(corpus, parse_query("bounce_message"), overlay)
    for path, text in UNSAVED.items():
        await corpus.save(path, text)
    saved = await ask(corpus, parse_query("bounce_message"), None)
    assert saved[0].match_type == "both"
    assert shown(unsaved) == shown(saved)


async def test_a_file_emptied_in_the_editor_is_not_found(
    corpus: Corpus, overlay_parser: OverlayParser
) -> None:
    overlays = OverlaySessions(lambda _: corpus.embedder, overlay_parser)
    with overlays.session() as session:
        overlay = await held(corpus, {"app/mail.py": "\n"}, overlays, session)
        hits = await ask(corpus, parse_query("send_mail deliver a message to a mailbox"), overlay)
        assert hits
        assert "app/mail.py" not in {hit.path for hit in hits}


async def test_texts_are_shown_and_related_as_they_are_in_the_editor(
    corpus: Corpus, overlay_parser: OverlayParser
) -> None:
    overlays = OverlaySessions(lambda _: corpus.embedder, overlay_parser)
    with overlays.session() as session:
        overlay = await held(corpus, UNSAVED, overlays, session)
        file = await get_file(
            corpus.db,
            [corpus.record],
            "app/mail.py",
            VerifiedFiles(),
            first_line=3,
            last_line=3,
            overlays={"code": overlay},
        )
        assert (file.source, file.content, file.lines) == (
            "overlay",
            "    queue.put((address, subject, body))",
            8,
        )
        related = await find_related(corpus.db, corpus.record, "app/quota.py", 1, 3, overlay)
        assert related
        assert related[0].path != "app/quota.py"
        with pytest.raises(NotFound):
            await find_related(corpus.db, corpus.record, "app/quota.py", 1, 3)
        with pytest.raises(InvalidInput, match=r"quota\.py has no text at line 99"):
            await find_related(corpus.db, corpus.record, "app/quota.py", 99, 3, overlay)
        merged = await search_several(
            corpus.pipeline,
            [corpus.record],
            parse_query("mailbox_quota"),
            overlays={"code": overlay},
        )
        assert merged.hits[0].path == "app/quota.py"
        assert merged.hits[0].overlay
        trace = Trace(explain=True)
        query = parse_query("mailbox_quota", why_not="app/quota.py")
        await corpus.pipeline.run(corpus.record, query, trace, overlay=overlay)
        assert trace.details["why_not"]["status"] == "shown"


def test_a_cosine_of_unsaved_text_is_at_most_one() -> None:
    """In 32 bits, the cosine of a vector with itself is often above one."""
    chunk = Chunk(0, 1, 1, 1, "x", "", "python")
    random_numbers = np.random.default_rng(1)
    for _ in range(20):
        vector = random_numbers.normal(size=256).astype(np.float16).astype(np.float32)
        file = OverlayFile("a.py", make_contents(b"x"), "python", (chunk,), vector[None])
        overlay = make_overlay([file])
        assert overlay is not None
        (row,) = overlay.compare_vectors(Filter(), vector)
        assert row.score == pytest.approx(1)
        assert row.score <= 1


@pytest.mark.parametrize("text", ["def post_letter(): ...\n", "", UNSAVED["app/mail.py"]])
@pytest.mark.parametrize("all_chunks", [False, True])
async def test_an_index_around_the_one_that_holds_a_text_does_not_show_what_is_on_disk(
    db: Database, tmp_path: Path, text: str, all_chunks: bool, overlay_parser: OverlayParser
) -> None:
    inside = {"app/mail.py": FILES["app/mail.py"]}
    inner = await new_corpus(db, tmp_path / "root" / "inner", inside, name="inner")
    outer = {f"inner/{path}": saved for path, saved in inside.items()} | {
        "web.ts": FILES["web/list.ts"]
    }
    around = await new_corpus(db, tmp_path / "root", outer, name="outer", pipeline=inner.pipeline)
    overlays = OverlaySessions(lambda _: inner.embedder, overlay_parser)
    query = parse_query("deliver a message to a mailbox", all_chunks=all_chunks)
    with overlays.session() as session:
        await overlays.put(session, inner.record, "app/mail.py", text.encode(), RULES)
        overlay = await overlays.overlay(session, inner.record)
        assert overlay is not None
        for records in ([inner.record, around.record], [around.record, inner.record]):
            merged = await search_several(
                inner.pipeline, records, query, overlays={"inner": overlay}
            )
            lines = [
                (hit.index, hit.overlay) for hit in merged.hits if hit.path.endswith("mail.py")
            ]
            assert set(lines) == ({("inner", True)} if text else set())


async def test_a_session_ends_with_all_its_text(
    corpus: Corpus, overlay_parser: OverlayParser
) -> None:
    overlays = OverlaySessions(lambda _: corpus.embedder, overlay_parser)
    with overlays.session() as mine, overlays.session() as second:
        await held(corpus, UNSAVED, overlays, mine)
        assert await overlays.overlay(second, corpus.record) is None
        assert overlays.clear(mine, corpus.record, "app/mail.py").files == 1
        again = await overlays.overlay(mine, corpus.record)
        assert again is not None
        assert set(again.files) == {"app/quota.py"}
        assert overlays.clear(mine).files == 0
        assert await overlays.overlay(mine, corpus.record) is None
    with pytest.raises(NotFound):
        await overlays.overlay(mine, corpus.record)
    with pytest.raises(NotFound):
        await overlays.put(mine, corpus.record, "app/mail.py", b"x = 1\n", RULES)


async def test_bounds_and_refusals(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, overlay_parser: OverlayParser
) -> None:
    overlays = OverlaySessions(lambda _: corpus.embedder, overlay_parser)
    with overlays.session() as session:
        for data in (
            b"a\0b",
            b"x" * (1 << 21),
            b"-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n",
        ):
            with pytest.raises(Refused):
                await overlays.put(session, corpus.record, "a.py", data, RULES)
        for number in range(MAX_UNSAVED_FILES):
            await overlays.put(session, corpus.record, f"{number}.py", b"", RULES)
        with pytest.raises(Refused, match=str(MAX_UNSAVED_FILES)):
            await overlays.put(session, corpus.record, "more.py", b"", RULES)
        monkeypatch.setattr("cocosearchd.api.overlay_sessions.MAX_UNSAVED_BYTES", 10)
        await overlays.put(session, corpus.record, "0.py", b"ten bytes\n", RULES)
        await overlays.put(session, corpus.record, "0.py", b"10 again.\n", RULES)
        with pytest.raises(Refused, match="unsaved text"):
            await overlays.put(session, corpus.record, "1.py", b"one\n", RULES)
    sessions = [overlays.session() for _ in range(MAX_SESSIONS)]
    for one_session in sessions:
        one_session.__enter__()
    with pytest.raises(Refused), overlays.session():
        pass
    for one_session in sessions:
        one_session.__exit__(None, None, None)


async def test_bounds_hold_for_what_is_put_at_the_same_time(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, overlay_parser: OverlayParser
) -> None:
    monkeypatch.setattr("cocosearchd.api.overlay_sessions.MAX_UNSAVED_FILES", 2)
    overlays = OverlaySessions(lambda _: corpus.embedder, overlay_parser)
    with overlays.session() as session:
        put = [
            overlays.put(session, corpus.record, f"{number}.py", b"x = 1\n", RULES)
            for number in range(5)
        ]
        done = await asyncio.gather(*put, return_exceptions=True)
        assert sum(isinstance(outcome, Refused) for outcome in done) == 3
        assert overlays.clear(session, corpus.record, "other.py").files == 2


async def test_words_are_found_while_the_model_is_away(
    corpus: Corpus, overlay_parser: OverlayParser
) -> None:
    embedder = Away()
    overlays = OverlaySessions(lambda _: embedder, overlay_parser)
    with overlays.session() as session:
        await held(corpus, {"app/quota.py": UNSAVED["app/quota.py"]}, overlays, session)
        embedder.answers = False
        reply = await overlays.put(
            session, corpus.record, "app/quota.py", UNSAVED["app/quota.py"].encode(), RULES
        )
        assert reply.warning is None  # the vectors of the same text are taken over
        lost = await overlays.put(
            session, corpus.record, "app/new.py", UNSAVED["app/mail.py"].encode(), RULES
        )
        assert lost.warning is not None
        assert "words only" in lost.warning
        overlay = await overlays.overlay(session, corpus.record)
        assert overlay is not None
        assert not overlay.files["app/new.py"].vectors.any()
        query = parse_query("bounce_message", use_hybrid=True)
        assert (await ask(corpus, query, overlay))[0].path == "app/new.py"
        embedder.answers = True
        mended = await overlays.put(
            session, corpus.record, "app/new.py", UNSAVED["app/mail.py"].encode(), RULES
        )
        assert mended.warning is None
        overlay = await overlays.overlay(session, corpus.record)
        assert overlay is not None
        assert np.all(overlay.files["app/new.py"].vectors.any(axis=1))


async def test_questions_complete_the_vectors_of_a_slow_model_together(
    corpus: Corpus, overlay_parser: OverlayParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them asks the model, and what it made in time is not made again."""
    monkeypatch.setattr(overlay_sessions, "RETRY_WAIT_S", 0.5)
    monkeypatch.setattr(overlay_sessions, "RETRY_S", 0.0)
    call = "    send(message, to=queue)\n"
    text = "".join(f"def unsaved_{n}():\n{call * 40}\n\n" for n in range(40))
    path = "app/quota.py"
    away = Away()
    away.answers = False
    slow = Unhurried()
    slow.busy = True
    embedders: dict[bool, BuiltinEmbedder] = {True: slow, False: away}
    overlays = OverlaySessions(lambda _: embedders[away.answers], overlay_parser)
    with overlays.session() as session:
        await overlays.put(session, corpus.record, path, text.encode(), RULES)
        away.answers = True
        counts = list[int]()  # of chunks with a vector, after each turn of questions
        for _ in range(60):
            replies = await asyncio.gather(
                *(overlays.overlay(session, corpus.record) for _ in range(5))
            )
            overlay = replies[-1]
            assert overlay is not None
            vectors = overlay.files[path].vectors
            counts.append(int(vectors.any(axis=1).sum()))
            if counts[-1] == len(vectors):
                break
    assert counts[-1] == len(vectors) == sum(slow.sizes)
    assert len(counts) > 1
    assert slow.most_running == 1


async def test_a_text_that_ends_its_parser_is_found_without_definitions(corpus: Corpus) -> None:
    code = """
import os
from cocosearchd.indexing.pipeline import parse_result
from cocosearchd.indexing.pipeline.chunker import chunk_ranges
from cocosearchd.indexing.pool.parser_worker import parser_handler
from cocosearchd.sandbox.worker_loop import run_worker
parse_result.parse = lambda *_: os.abort()
run_worker(lambda: parser_handler(chunk_ranges))
"""
    overlay_parser = OverlayParser((sys.executable, "-c", code))
    overlays = OverlaySessions(lambda _: corpus.embedder, overlay_parser)
    with overlays.session() as session:
        put = await overlays.put(
            session, corpus.record, "app/quota.py", UNSAVED["app/quota.py"].encode(), RULES
        )
        assert put.warning is not None
        assert "without its definitions" in put.warning
        (hit,) = await ask(
            corpus,
            parse_query("mailbox_quota path:app/quota.py"),
            await overlays.overlay(session, corpus.record),
        )
        assert (hit.path, hit.symbol_name, hit.context_before) == ("app/quota.py", None, "")
    await overlay_parser.aclose()


@pytest.mark.parametrize("written_again", [False, True])
async def test_after_a_switch_to_another_model_of_the_same_dimension_vectors_are_of_that_one(
    corpus: Corpus, overlay_parser: OverlayParser, written_again: bool
) -> None:
    """The dimension does not tell them apart, and vectors of two models are never compared."""
    path = "app/quota.py"
    data = UNSAVED["app/quota.py"].encode()
    other_record = replace(
        corpus.record,
        identity=replace(
            corpus.record.identity, embedder=(("provider", "test"), ("model", "reversed"))
        ),
    )
    models = {
        corpus.record.identity.embedder: corpus.embedder,
        other_record.identity.embedder: Reversed(),
    }
    overlays = OverlaySessions(models.__getitem__, overlay_parser)
    with overlays.session() as old_session, overlays.session() as after:
        await overlays.put(after, other_record, path, data, RULES)
        expected = await overlays.overlay(after, other_record)
        await overlays.put(old_session, corpus.record, path, data, RULES)
        former = await overlays.overlay(old_session, corpus.record)
        if written_again:  # of an unchanged text, whose vectors may be taken over
            await overlays.put(old_session, other_record, path, data, RULES)
        switched = await overlays.overlay(old_session, other_record)
        assert expected is not None
        assert former is not None
        assert switched is not None
        vectors = [overlay.files[path].vectors for overlay in (expected, former, switched)]
        assert vectors[0].shape == vectors[1].shape
        assert not np.allclose(vectors[0], vectors[1])
        assert np.array_equal(vectors[2], vectors[0])


async def test_the_later_of_two_writes_of_a_path_stays_even_if_the_earlier_ends_last(
    corpus: Corpus, overlay_parser: OverlayParser
) -> None:
    embedder = Slow("slow_typing")
    overlays = OverlaySessions(lambda _: embedder, overlay_parser)
    with overlays.session() as session:
        slow = b"def slow_typing():\n    return 1\n"
        earlier = asyncio.create_task(
            overlays.put(session, corpus.record, "app/quota.py", slow, RULES)
        )
        await asyncio.wait_for(embedder.waiting.wait(), 30)
        later = await overlays.put(
            session, corpus.record, "app/quota.py", b"def quick_typing(): ...\n", RULES
        )
        embedder.release.set()
        assert (later.files, (await earlier).files) == (1, 1)
        overlay = await overlays.overlay(session, corpus.record)
        assert overlay is not None
        assert overlay.files["app/quota.py"].text.data == b"def quick_typing(): ...\n"
        assert [hit.symbol_name for hit in await ask(corpus, parse_query("quick_typing"), overlay)][
            :1
        ] == ["quick_typing"]


async def test_a_write_that_ends_after_its_path_was_cleared_leaves_nothing(
    corpus: Corpus, overlay_parser: OverlayParser
) -> None:
    embedder = Slow("slow_typing")
    overlays = OverlaySessions(lambda _: embedder, overlay_parser)
    with overlays.session() as session:
        slow = b"def slow_typing():\n    return 1\n"
        write = asyncio.create_task(
            overlays.put(session, corpus.record, "app/quota.py", slow, RULES)
        )
        await asyncio.wait_for(embedder.waiting.wait(), 30)
        overlays.clear(session, corpus.record, "app/quota.py")
        embedder.release.set()
        assert (await write).files == 0
        assert await overlays.overlay(session, corpus.record) is None


async def test_a_long_text_is_embedded_in_steps(
    corpus: Corpus, overlay_parser: OverlayParser
) -> None:
    """The built-in model holds up the event loop: others are served between the steps."""
    embedder = Counting()
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += bool(embedder.sizes)
            await asyncio.sleep(0)

    long = "".join(
        f"def long_{n}():\n    return {n}\n" + "    # said of it\n" * 40 for n in range(400)
    )
    overlays = OverlaySessions(lambda _: embedder, overlay_parser)
    with overlays.session() as session:
        task = asyncio.create_task(take_turns())
        await held(corpus, {"long.py": long}, overlays, session)
        task.cancel()
    assert len(embedder.sizes) > 2
    assert max(embedder.sizes) == EMBEDDING_BATCH
    assert turns >= len(embedder.sizes) - 1
