"""Cached vectors of texts: found across processes, bounded, and never wrong."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import EmbedderFingerprint, Vectors
from cocosearchd.embedding.caching import CachingEmbedder, ReuseCounters
from cocosearchd.embedding.vector_cache import RecentVectors
from tests.embedding.ollama_server import vector_of

pytestmark = pytest.mark.anyio

SIZE = 64


class Model:
    """A model that can be watched: no shipped one tells what it was asked."""

    fingerprint = EmbedderFingerprint("test", "model", "1", SIZE)

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        rows = [[0.0] * SIZE if text == "refused" else vector_of(text, SIZE) for text in texts]
        return np.array(rows, np.float32).reshape(len(texts), SIZE)

    async def embed_query(self, text: str) -> Vectors:
        row: Vectors = (await self.embed_documents([text]))[0]
        return row

    async def aclose(self) -> None:
        return None


def file_names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


async def test_a_text_is_embedded_once_in_all_processes(tmp_path: Path) -> None:
    model, counters = Model(), ReuseCounters()
    first = await CachingEmbedder.create(model, tmp_path, 1 << 20, counters)
    vectors_made = await first.embed_documents(["one", "two", "one"])
    again = await first.embed_documents(["two", "three"])
    await first.aclose()
    assert model.asked == ["one", "two", "three"]
    second = await CachingEmbedder.create(model, tmp_path, 1 << 20, counters)
    vectors_found = await second.embed_documents(["three", "one", "four"])
    await second.aclose()
    assert model.asked == ["one", "two", "three", "four"]
    assert (counters.computed, counters.reused) == (4, 4)
    np.testing.assert_array_equal(vectors_made[0], vectors_made[2])
    np.testing.assert_array_equal(vectors_made[1], again[0])
    np.testing.assert_array_equal(vectors_found[1], vectors_made[0])
    stored = np.array(vector_of("one", SIZE), np.float32).astype(np.float16)
    # what a fresh index would hold
    np.testing.assert_array_equal(vectors_made[0].astype(np.float16), stored)


async def test_a_text_without_a_vector_is_asked_again(tmp_path: Path) -> None:
    model = Model()
    embedder = await CachingEmbedder.create(model, tmp_path, 1 << 20, ReuseCounters())
    assert not (await embedder.embed_documents(["refused"])).any()
    await embedder.aclose()
    embedder = await CachingEmbedder.create(model, tmp_path, 1 << 20, ReuseCounters())
    await embedder.embed_documents(["refused"])
    await embedder.aclose()
    assert model.asked == ["refused"] * 2


async def test_without_room_for_it_everything_is_computed(tmp_path: Path) -> None:
    (tmp_path / "in the way").write_text("")
    for folder, limit in ((tmp_path / "in the way", 1 << 20), (tmp_path / "off", 0)):
        model = Model()
        embedder = await CachingEmbedder.create(model, folder, limit, ReuseCounters())
        await embedder.embed_documents(["one"])
        await embedder.embed_documents(["one"])
        await embedder.aclose()
        assert model.asked == ["one"] * 2
    assert not (tmp_path / "off").exists()


async def test_without_a_cache_on_disk_its_file_is_removed(tmp_path: Path) -> None:
    model, counters = Model(), ReuseCounters()
    first = await CachingEmbedder.create(model, tmp_path, 1 << 20, counters)
    await first.embed_documents(["one"])
    await first.aclose()
    assert file_names(tmp_path)
    second = await CachingEmbedder.create(model, tmp_path, 0, counters, recent_texts=10)
    assert not file_names(tmp_path)
    vectors = await second.embed_documents(["one", "one"])
    np.testing.assert_array_equal(vectors[0], vectors[1])
    again = await second.embed_documents(["two", "one"])
    np.testing.assert_array_equal(again[1], vectors[0])
    second.add_vectors(lambda: ["three"], vectors[:1].astype(np.float16))
    await second.aclose()
    assert model.asked == ["one", "one", "two"]
    assert (counters.computed, counters.reused) == (4, 2)
    assert not file_names(tmp_path)


def test_the_last_vectors_are_those_that_were_looked_up() -> None:
    recent = RecentVectors(limit=3)
    vectors = {bytes([n]): np.full(2, n, np.float16) for n in range(1, 6)}
    recent.put_vectors({key: vectors[key] for key in (b"\1", b"\2", b"\3")})
    assert recent.vectors([b"\1", b"\4"]).keys() == {b"\1"}
    recent.put_vectors({b"\4": vectors[b"\4"]})
    assert recent.vectors(list(vectors)).keys() == {b"\1", b"\3", b"\4"}


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        (EmbedderSettings(), 0),
        (EmbedderSettings(cache_bytes=4096), 4096),
        (EmbedderSettings(provider="ollama"), 256 << 20),
        (EmbedderSettings(provider="ollama", cache_bytes=0), 0),
    ],
)
def test_the_built_in_model_has_no_cache_by_default(settings: EmbedderSettings, size: int) -> None:
    assert settings.vector_cache_bytes == size
