"""Unsaved text in the code graph equals the same text as a stored file."""

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf
from types import SimpleNamespace
from typing import Any

import anyio
import numpy as np
import pytest

from cocosearchd.api import overlay_sessions
from cocosearchd.api.graph import graph_questions
from cocosearchd.api.graph.unsaved_code import unsaved_files
from cocosearchd.api.overlay_sessions import OverlayRules, OverlaySessions
from cocosearchd.embedding.base import Vectors
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.errors import EmbedderUnavailable
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.graph.questions.target import parse_target
from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pipeline.parse_result import parse_file
from cocosearchd.indexing.pipeline.skip_rules import SkipRules
from cocosearchd.indexing.pool.parse_task import ParseResult
from cocosearchd.languages import name_hashes
from cocosearchd.languages.name_hashes import hash_name
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.languages.parse import parse
from cocosearchd.languages.references import fact_table
from cocosearchd.model import NO_CODE, PackedCode
from cocosearchd.search.answers.disk_files import make_contents
from cocosearchd.search.overlay import OverlayFile, make_overlay

TEXT = b"from net import Client\n\n\ndef load():\n    return Client().get()\n"


def test_an_overlay_gives_symbols_facts_and_names() -> None:
    parsed = parse("a.py", TEXT, language="python")
    file = OverlayFile(
        path="a.py",
        text=make_contents(TEXT),
        language="python",
        chunks=(),
        vectors=np.zeros((0, 4), np.float32),
        code=pack_code(parsed.symbols, fact_table.pack(parsed.facts)),
        symbols=parsed.symbols,
    )
    (unsaved,) = unsaved_files(make_overlay([file]))
    assert (unsaved.file.path, unsaved.file.language) == ("a.py", "python")
    assert [symbol.name for symbol in unsaved.file.symbols] == ["load"]
    assert [item.name for item in unsaved.file.facts.imports] == ["Client"]
    assert {use.name for use in unsaved.file.facts.uses} == {"Client", "get"}
    defined, used = name_hashes.split(unsaved.name_hashes)
    assert defined == hash_name("load").to_bytes(4, "little")
    assert hash_name("get").to_bytes(4, "little") in used


def test_no_overlay_gives_no_files() -> None:
    assert unsaved_files(None) == ()


@pytest.mark.anyio
async def test_a_question_unpacks_unsaved_files_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = list[threading.Thread]()

    def unpack(overlay: object) -> tuple[()]:
        threads.append(threading.current_thread())
        return ()

    class Graph:
        async def ask(self, *_: object) -> str:
            return "answer"

    monkeypatch.setattr(graph_questions, "unsaved_files", unpack)
    parts: Any = None
    index: Any = SimpleNamespace(graph=Graph(), lexical=SimpleNamespace(current_snapshot=None))
    overlay: Any = object()
    questions = graph_questions.GraphQuestions(parts, parts, parts, parts)
    answer = await questions._run(index, overlay, parse_target("run"), Filter(), lambda _: "")
    assert answer == "answer"
    assert threads
    assert threading.main_thread() not in threads


class Parser:
    """Parses in this process."""

    async def parse(
        self, path: str, language: str, data: bytes, limits: ChunkLimits, _: object
    ) -> ParseResult:
        return ParseResult(*parse_file(path, language, data, limits, ()))


class FailingEmbedder(BuiltinEmbedder):
    """An embedder that is unavailable at first."""

    is_available = False

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if not self.is_available:
            raise EmbedderUnavailable("it is away", "start it")
        return await super().embed_documents(texts)


def record_of(embedder: BuiltinEmbedder) -> Any:
    return SimpleNamespace(
        name="code",
        root=b"/r",
        identity=SimpleNamespace(embedder=embedder.fingerprint.pairs()),
        dimension=embedder.fingerprint.dimension,
        is_followed=False,
    )


RULES = OverlayRules(
    ChunkLimits("definitions", 1000, 0), SkipRules(1 << 20, index_secrets=True, any_type=True)
)


@asynccontextmanager
async def text_put_while_the_embedder_is_away() -> AsyncIterator[tuple[OverlaySessions, str, Any]]:
    """Yield the sessions, one with unsaved text without vectors, and the record of its index.

    The embedder answers by then.
    """
    parser: Any = Parser()
    embedder = FailingEmbedder()
    record = record_of(embedder)
    sessions = OverlaySessions(lambda _: embedder, parser)
    with sessions.session() as name:
        change = await sessions.put(name, record, "a.py", TEXT, RULES)
        assert "words only" in (change.warning or "")
        embedder.is_available = True
        yield sessions, name, record


@pytest.mark.anyio
async def test_unsaved_text_is_packed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = list[threading.Thread]()

    def pack(*_: object) -> PackedCode:
        threads.append(threading.current_thread())
        return NO_CODE

    monkeypatch.setattr(overlay_sessions, "pack_code", pack)
    parser: Any = Parser()
    embedder = BuiltinEmbedder()
    sessions = OverlaySessions(lambda _: embedder, parser)
    with sessions.session() as name:
        change = await sessions.put(name, record_of(embedder), "a.py", TEXT, RULES)
    assert change.files == 1
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.anyio
async def test_vectors_of_an_embedder_that_was_away_are_made_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with text_put_while_the_embedder_is_away() as (sessions, name, record):
        first = await sessions.overlay(name, record)
        monkeypatch.setattr(anyio, "current_time", lambda: inf)
        second = await sessions.overlay(name, record)
    assert first is not None
    assert second is not None
    assert not first.files["a.py"].vectors.any(), "not yet"
    assert second.files["a.py"].vectors.any()
    assert first.digest != second.digest


@pytest.mark.anyio
async def test_a_question_that_compares_no_vectors_waits_for_no_embedder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with text_put_while_the_embedder_is_away() as (sessions, name, record):
        monkeypatch.setattr(anyio, "current_time", lambda: inf)
        plain = await sessions.overlay(name, record, with_vectors=False)
        by_index = await sessions.overlays(name, [record], with_vectors=False)
        complete = await sessions.overlay(name, record)
    assert plain is not None
    assert complete is not None
    assert by_index == {record.name: plain}
    assert not plain.files["a.py"].vectors.any()
    assert complete.files["a.py"].vectors.any()
