"""Ollama, through the real client and real sockets; the server is `ollama_server`, see there
why.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.errors import EmbedderUnavailable
from tests.embedding.ollama_server import (
    MODEL_CONTEXT_CHARACTERS,
    NOT_A_NUMBER,
    OVERLONG,
    Script,
    ollama_server,
    vector_of,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def url(script: Script) -> Iterator[str]:
    with ollama_server(script) as address:
        yield address


class Opener:
    """Opens embedders and closes them when the test is over."""

    def __init__(self) -> None:
        self._opened: list[Embedder] = []

    async def __call__(self, url: str, **changes: Any) -> Embedder:
        settings = EmbedderSettings(**({"provider": "ollama", "ollama_url": url} | changes))
        self._opened.append(await open_embedder(settings, "a key of another service"))
        return self._opened[-1]

    async def aclose(self) -> None:
        for embedder in self._opened:
            await embedder.aclose()


@pytest.fixture
async def opened() -> AsyncIterator[Opener]:
    opener = Opener()
    yield opener
    await opener.aclose()


async def test_identity_comes_from_the_server(opened: Opener, url: str) -> None:
    embedder = await opened(url)
    fingerprint = embedder.fingerprint
    assert (fingerprint.provider, fingerprint.model, fingerprint.revision) == (
        "ollama",
        "nomic-embed-text",
        "sha256:0a109f42",
    )
    assert (fingerprint.dimension, fingerprint.document_prefix, fingerprint.query_prefix) == (
        768,
        "search_document: ",
        "search_query: ",
    )
    await embedder.aclose()
    await embedder.aclose()


async def test_other_weights_under_the_same_name_are_another_identity(
    opened: Opener, url: str, script: Script
) -> None:
    previous = (await opened(url)).fingerprint.digest()
    script.models["nomic-embed-text:latest"] = "sha256:ffff"
    assert (await opened(url)).fingerprint.digest() != previous


async def test_the_address_of_the_server_is_not_part_of_the_identity(
    opened: Opener, url: str, script: Script
) -> None:
    with ollama_server(script) as elsewhere:
        assert (await opened(url)).fingerprint == (await opened(elsewhere)).fingerprint


async def test_documents_and_queries_get_their_prefixes_in_order_and_in_batches(
    opened: Opener, url: str, script: Script
) -> None:
    embedder = await opened(url, batch_size=4)
    texts = [f"def function_{number}(): pass" for number in range(10)]
    script.requests.clear()
    vectors = await embedder.embed_documents(texts)
    assert [len(body["input"]) for body in script.requests] == [4, 4, 2]
    expected = np.array(
        [vector_of("search_document: " + text, 768) for text in texts], dtype=np.float32
    )
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    query = await embedder.embed_query("where")
    np.testing.assert_allclose(
        query, np.array(vector_of("search_query: where", 768), dtype=np.float32), atol=1e-6
    )


async def test_prefixes_can_be_set_and_models_without_known_ones_get_none(
    opened: Opener, url: str, script: Script
) -> None:
    script.models["other:v2"] = "sha256:1"
    plain = await opened(url, model="other:v2")
    assert (plain.fingerprint.document_prefix, plain.fingerprint.query_prefix) == ("", "")
    prefixed = await opened(url, document_prefix="d: ", query_prefix="")
    np.testing.assert_allclose(
        (await prefixed.embed_documents(["x"]))[0], vector_of("d: x", 768), atol=1e-6
    )
    np.testing.assert_allclose(await prefixed.embed_query("x"), vector_of("x", 768), atol=1e-6)


async def test_nothing_and_blank_texts_are_not_sent(
    opened: Opener, url: str, script: Script
) -> None:
    embedder = await opened(url)
    script.requests.clear()
    assert (await embedder.embed_documents([])).shape == (0, 768)
    vectors = await embedder.embed_documents(["", "a", " \n"])
    assert [body["input"] for body in script.requests] == [["search_document: a"]]
    assert not vectors[0].any()
    assert vectors[1].any()
    assert not vectors[2].any()


async def test_long_texts_are_cut_by_the_server(opened: Opener, url: str, script: Script) -> None:
    embedder = await opened(url, max_tokens=2048)
    assert embedder.fingerprint.max_tokens == 2048
    vector = (await embedder.embed_documents(["x" * 20_000]))[0]
    expected = vector_of(("search_document: " + "x" * 20_000)[:MODEL_CONTEXT_CHARACTERS], 768)
    np.testing.assert_allclose(vector, expected, atol=1e-6)
    assert script.requests[-1]["truncate"] is True
    assert script.requests[-1]["options"]["num_ctx"] == 2048


@pytest.mark.parametrize("bad", [OVERLONG, NOT_A_NUMBER])
async def test_one_refused_text_costs_its_own_vector_only(
    opened: Opener, url: str, bad: str
) -> None:
    embedder = await opened(url)
    texts = [f"text {number}" for number in range(9)]
    texts[5] = bad
    vectors = await embedder.embed_documents(texts)
    assert not vectors[5].any()
    good = [number for number in range(9) if number != 5]
    expected = [vector_of("search_document: " + texts[number], 768) for number in good]
    np.testing.assert_allclose(vectors[good], np.array(expected, dtype=np.float32), atol=1e-6)


async def test_a_refused_text_is_tried_shorter_first(opened: Opener, url: str) -> None:
    embedder = await opened(url)
    text = "y" * 1000 + OVERLONG
    expected = vector_of("search_document: " + text[: len(text) // 2], 768)
    np.testing.assert_allclose((await embedder.embed_documents([text]))[0], expected, atol=1e-6)


async def test_a_server_that_refuses_everything_is_down_after_few_requests(
    opened: Opener, url: str, script: Script
) -> None:
    embedder = await opened(url)
    script.requests.clear()
    script.status = 500
    with pytest.raises(EmbedderUnavailable, match="refuses every text"):
        await embedder.embed_documents([f"text {number}" for number in range(32)])
    assert len(script.requests) == 2


@pytest.mark.parametrize("status", [499, 503])
async def test_a_busy_server_is_for_the_caller_to_wait_for(
    opened: Opener, url: str, script: Script, status: int
) -> None:
    embedder = await opened(url)
    script.requests.clear()
    script.status = status
    with pytest.raises(EmbedderUnavailable, match=str(status)):
        await embedder.embed_documents(["a", "b"])
    assert len(script.requests) == 1


async def test_missing_model_says_how_to_get_it(opened: Opener, url: str, script: Script) -> None:
    script.models.clear()
    with pytest.raises(EmbedderUnavailable) as caught:
        await opened(url)
    assert caught.value.hint == "ollama pull nomic-embed-text"


async def test_model_removed_while_running(opened: Opener, url: str, script: Script) -> None:
    embedder = await opened(url)
    script.models.clear()
    with pytest.raises(EmbedderUnavailable) as caught:
        await embedder.embed_documents(["a"])
    assert caught.value.hint == "ollama pull nomic-embed-text"


async def test_server_down_at_the_start_and_later(opened: Opener, script: Script) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        with pytest.raises(EmbedderUnavailable, match="does not answer") as caught:
            await opened(f"http://127.0.0.1:{listener.getsockname()[1]}")
    assert "ollama serve" in caught.value.hint
    with ollama_server(script) as url:
        embedder = await opened(url)
    with pytest.raises(EmbedderUnavailable, match="does not answer"):
        await embedder.embed_query("a")


async def test_a_slow_server_is_given_up(opened: Opener, url: str, script: Script) -> None:
    embedder = await opened(url, timeout_s=1.0)  # in time for a server that works
    script.delay_s = 2.0
    with pytest.raises(EmbedderUnavailable, match="too slow"):
        await embedder.embed_query("a")


@pytest.mark.parametrize(
    "raw",
    [
        b"<html>",
        b"{}",
        b'{"embeddings": []}',
        b'{"embeddings": [[]]}',
        b'{"embeddings": [[1.0], [1.0]]}',
    ],
)
async def test_an_invalid_response_is_refused(
    opened: Opener, url: str, script: Script, raw: bytes
) -> None:
    embedder = await opened(url)
    script.raw = raw
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_query("a")


async def test_no_request_outlives_a_query_that_fails(
    opened: Opener, url: str, script: Script
) -> None:
    embedder = await opened(url)
    script.raw = b"<html>"
    script.lists_models.clear()
    tasks = asyncio.all_tasks()
    try:
        with pytest.raises(EmbedderUnavailable):
            await embedder.embed_query("a")
        assert asyncio.all_tasks() == tasks
    finally:
        script.lists_models.set()


async def test_another_model_behind_the_name_is_noticed(
    opened: Opener, url: str, script: Script
) -> None:
    embedder = await opened(url)
    script.dimension = 384
    with pytest.raises(EmbedderUnavailable, match="768 dimensions"):
        await embedder.embed_query("a")


async def test_asked_dimension_is_passed_on(opened: Opener, url: str) -> None:
    embedder = await opened(url, dimension=256)
    assert embedder.fingerprint.dimension == 256
    assert (await embedder.embed_query("a")).shape == (256,)


async def test_something_else_behind_the_url(opened: Opener) -> None:
    with ollama_server(Script()) as url, pytest.raises(EmbedderUnavailable):
        await opened(url + "/elsewhere")


async def test_proxies_are_not_used_on_this_machine(
    opened: Opener, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert (await (await opened(url)).embed_query("a")).any()


async def test_the_key_of_another_service_is_not_sent(
    opened: Opener, url: str, script: Script
) -> None:
    await opened(url)
    assert script.headers
    assert not any("authorization" in sent for sent in script.headers)
