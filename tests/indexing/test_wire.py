"""What one process writes, the other reads."""

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.indexing import wire
from cocosearchd.indexing.lane import Piece
from cocosearchd.model import IndexIdentity, IndexRecord, encode_path
from cocosearchd.settings import DatabaseSettings, EmbedderSettings, IndexingSettings

paths = st.binary(min_size=1, max_size=40).map(encode_path)


@given(st.binary(min_size=1), st.lists(st.text()), st.dictionaries(st.text(), st.text()))
def test_a_record_survives(root: bytes, topics: list[str], embedder: dict[str, str]) -> None:
    identity = IndexIdentity(tuple(sorted(embedder.items())), "recursive-1:1000/300", 3)
    record = IndexRecord(7, "näme", "name", root, tuple(topics), 256, identity, 12)
    line = wire.encode({"do": "open", "record": wire.record_to_json(record)})
    assert line.count(b"\n") == 1
    assert wire.record_from_json(wire.decode(line)["record"]) == record


def test_a_spec_survives_with_all_its_settings() -> None:
    indexing = IndexingSettings(include=("*.py", "*.go"), exclude=(), chunk_size=5, nice=3, respect_gitignore=False)
    embedder = EmbedderSettings(provider="ollama", document_prefix=None, query_prefix="", timeout_s=2.5)
    spec = wire.WorkerSpec(
        "host=/tmp", "/state", DatabaseSettings(pool_max=3), embedder, indexing, "key", 2.5, "poison.py"
    )
    assert wire.spec_from_json(wire.decode(wire.encode(wire.spec_to_json(spec)))) == spec
    assert {field.name for field in fields(spec)} == set(wire.spec_to_json(spec))
    assert "key" not in repr(spec).replace("api_key", "")


@given(st.lists(paths, min_size=2, max_size=40, unique=True), st.integers(0, 40))
def test_halves_lose_nothing(every: list[str], cut: int) -> None:
    piece = Piece(tuple(every[:cut]), tuple(every[cut:]))
    first, second = piece.halves()
    assert sorted(first.all + second.all) == sorted(every)
    assert abs(len(first.all) - len(second.all)) <= 1
    assert set(first.paths + second.paths) == set(piece.paths)
