"""Messages between daemon and indexer: one process reads what the other writes."""

import asyncio
import json
import socket
from contextlib import suppress
from dataclasses import fields

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cocosearchd.config.settings import DatabaseSettings, EmbedderSettings, IndexingSettings
from cocosearchd.forms.path_forms import path_text
from cocosearchd.indexing import indexer_messages
from cocosearchd.indexing.coordinator.indexer_link import IndexerDied, IndexerLink
from cocosearchd.indexing.index_queue import BatchPart
from cocosearchd.model import IndexIdentity, IndexRecord

ANSWER = {
    "id": 7,
    "generation": 12,
    "failed": {"a.py": "it stalls"},
    "set_aside": ["a.py"],
    "done": {"computed": 3, "reused": 0, "parsed": 1},
}
SOMETHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from([*ANSWER, "ready"]) | st.text(), inner)
    ),
    max_leaves=20,
)
paths = st.binary(min_size=1, max_size=40).map(path_text)


@given(st.binary(min_size=1), st.lists(st.text()), st.dictionaries(st.text(), st.text()))
def test_a_record_survives(root: bytes, topics: list[str], embedder: dict[str, str]) -> None:
    identity = IndexIdentity(tuple(sorted(embedder.items())), "recursive-1:1000/300", 3)
    record = IndexRecord(7, "näme", "name", root, tuple(topics), 256, identity, 12)
    line = indexer_messages.encode_message(
        {"do": "open", "record": indexer_messages.record_to_json(record)}
    )
    assert line.count(b"\n") == 1
    assert (
        indexer_messages.record_from_json(indexer_messages.decode_message(line)["record"]) == record
    )


def test_a_spec_survives_with_all_its_settings() -> None:
    indexing = IndexingSettings(
        include=("*.py", "*.go"), exclude=(), chunk_size=5, nice=3, respect_gitignore=False
    )
    embedder = EmbedderSettings(
        provider="ollama", document_prefix=None, query_prefix="", timeout_s=2.5
    )
    spec = indexer_messages.IndexerSpec(
        "host=/tmp",
        "/state",
        DatabaseSettings(pool_max=3),
        embedder,
        indexing,
        "key",
        2.5,
        "poison.py",
    )
    assert (
        indexer_messages.spec_from_json(
            indexer_messages.decode_message(
                indexer_messages.encode_message(indexer_messages.spec_to_json(spec))
            )
        )
        == spec
    )
    assert {field.name for field in fields(spec)} == set(indexer_messages.spec_to_json(spec))
    assert "key" not in repr(spec).replace("api_key", "")


@given(st.lists(paths, min_size=2, max_size=40, unique=True), st.integers(0, 40))
def test_halves_lose_nothing(every: list[str], cut: int) -> None:
    piece = BatchPart(tuple(every[:cut]), tuple(every[cut:]))
    first, second = piece.split()
    assert sorted(first.all_paths + second.all_paths) == sorted(every)
    assert abs(len(first.all_paths) - len(second.all_paths)) <= 1
    assert set(first.paths + second.paths) == set(piece.paths)


@given(st.binary(max_size=200) | SOMETHING.map(lambda value: json.dumps(value).encode()))
@example(b"[" * 200_000)
@example(b'{"id":' * 100_000)
@example(b"9" * 10_000)
def test_an_invalid_answer_is_refused(line: bytes) -> None:
    with suppress(ValueError):
        message = indexer_messages.decode_answer(line)
        assert message.get("ready") is True or isinstance(message["id"], int)


@given(SOMETHING)
def test_a_commit_has_a_generation(value: object) -> None:
    with suppress(ValueError):
        line = indexer_messages.encode_message({"id": 3, "committed": value})
        assert type(indexer_messages.decode_answer(line)["committed"]) is int


@given(st.sampled_from([*ANSWER]), SOMETHING)
def test_an_answer_has_what_is_read_of_it(name: str, value: object) -> None:
    with suppress(ValueError):
        message = indexer_messages.decode_answer(
            indexer_messages.encode_message({**ANSWER, name: value})
        )
        assert set(message["set_aside"]) <= set(message["failed"])
        assert sum(message["done"].values()) + message["generation"] + message["id"] is not None


def test_answers_as_they_are_sent_are_read() -> None:
    for answer in (ANSWER, {"ready": True}, {"id": 3}, {"id": 3, "committed": 12}):
        assert indexer_messages.decode_answer(indexer_messages.encode_message(answer)) == answer


@pytest.mark.anyio
@pytest.mark.parametrize(
    "message", [b"{]\n", b"\xff\n", b'{"id": 9}\n', b'{"ready": true}\n', b"x" * 400 + b"\n"]
)
async def test_an_indexer_that_sends_no_valid_answer_has_died(message: bytes) -> None:
    ours, child = socket.socketpair()
    link = IndexerLink(*await asyncio.open_connection(sock=ours, limit=256))
    first, second = link.request({"do": "ping"}), link.request({"do": "ping"})
    with child:
        child.sendall(indexer_messages.encode_message({"id": 1}) + message)
        await link.listen()
    link.fail()
    assert await first == {"id": 1}
    with pytest.raises(IndexerDied):
        await second
