"""The contract of every provider; optional ones are tested where they are installed."""

import importlib
import importlib.util
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from cocosearchd.config.settings import EmbedderSettings, Provider
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.factory import PROVIDERS, open_embedder
from cocosearchd.errors import BadSettings
from tests.embedding.ollama_server import Script, ollama_server, serving
from tests.embedding.providers import test_openai
from tests.embedding.tiny_onnx import write_model

pytestmark = pytest.mark.anyio
NEEDS = {"onnx": "onnxruntime", "sentence-transformers": "sentence_transformers"}
TEXTS = (
    "open a file",
    "close the socket",
    "def read_file(path):\n    return open(path).read()",
    "write",
    "ünïcode €",
)


def installed(provider: Provider) -> bool:
    return provider not in NEEDS or importlib.util.find_spec(NEEDS[provider]) is not None


@pytest.fixture(
    params=[*((provider, "") for provider in PROVIDERS), ("sentence-transformers", "table")],
    ids="-".join,
)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbedderSettings]:
    provider: Provider
    provider, kind = request.param
    if not installed(provider):
        pytest.skip(f"{NEEDS[provider]} is not installed")
    with ExitStack() as stack:
        if provider == "ollama":
            yield EmbedderSettings(
                provider=provider, ollama_url=stack.enter_context(ollama_server(Script()))
            )
        elif provider == "openai":
            handler = type(
                "ScriptedHandler", (test_openai.Handler,), {"script": test_openai.Script()}
            )
            yield EmbedderSettings(
                provider=provider, url=stack.enter_context(serving(handler)) + "/v1"
            )
        elif provider == "onnx":
            write_model(tmp_path)
            yield EmbedderSettings(provider=provider, model=str(tmp_path))
        elif provider == "sentence-transformers":
            writers = importlib.import_module("tests.embedding.tiny_sentence_transformers")
            (writers.write_table if kind else writers.write_encoder)(tmp_path)
            yield EmbedderSettings(provider=provider, model=str(tmp_path))
        else:
            yield EmbedderSettings(provider=provider)


@pytest.fixture
async def embedder(settings: EmbedderSettings) -> AsyncIterator[Embedder]:
    opened = await open_embedder(settings)
    yield opened
    await opened.aclose()


async def test_vectors_are_unit_float32_rows_in_order(embedder: Embedder) -> None:
    dimension = embedder.fingerprint.dimension
    vectors = await embedder.embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    backwards = await embedder.embed_documents(TEXTS[::-1])
    np.testing.assert_allclose(backwards[::-1], vectors, atol=1e-5)
    assert not np.allclose(vectors[0], vectors[1])


async def test_a_query_is_one_unit_row(embedder: Embedder) -> None:
    vector = await embedder.embed_query("open a file")
    assert vector.shape == (embedder.fingerprint.dimension,)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


async def test_the_batch_size_changes_no_vector(
    settings: EmbedderSettings, embedder: Embedder
) -> None:
    together = await embedder.embed_documents(TEXTS)
    one_by_one = np.concatenate([await embedder.embed_documents([text]) for text in TEXTS])
    np.testing.assert_allclose(one_by_one, together, atol=1e-5)


async def test_nothing_gives_nothing_and_blank_gives_zero(embedder: Embedder) -> None:
    assert (await embedder.embed_documents([])).shape == (0, embedder.fingerprint.dimension)
    vectors = await embedder.embed_documents(["", " \n\t", "open"])
    assert not vectors[:2].any()
    assert vectors[2].any()
    assert not (await embedder.embed_query("")).any()


async def test_the_identity_is_whole_and_stable(
    settings: EmbedderSettings, embedder: Embedder
) -> None:
    fingerprint = embedder.fingerprint
    assert fingerprint.provider == settings.provider
    assert fingerprint.model
    assert fingerprint.dimension > 0
    again = await open_embedder(settings)
    assert again.fingerprint.digest() == fingerprint.digest()
    await again.aclose()


async def test_closing_twice_is_allowed(settings: EmbedderSettings) -> None:
    opened = await open_embedder(settings)
    await opened.aclose()
    await opened.aclose()


async def test_a_dimension_the_model_does_not_have_is_refused(
    settings: EmbedderSettings, tmp_path: Path
) -> None:
    if settings.provider in ("ollama", "openai"):
        # these servers shorten vectors when asked; a server that does not is refused by the same
        # check
        return
    with pytest.raises(BadSettings, match="999"):
        await open_embedder(
            EmbedderSettings(provider=settings.provider, model=settings.model, dimension=999)
        )
