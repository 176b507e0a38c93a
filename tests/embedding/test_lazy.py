"""A slow model server delays no question, and is asked again in the background."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial

import anyio
import numpy as np
import pytest

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding import lazy
from cocosearchd.embedding.base import Vectors
from cocosearchd.embedding.factory import open_embedder, query_timeout_s
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import BadSettings, EmbedderUnavailable
from tests.embedding.ollama_server import Script, ollama_server, vector_of

# An answer of a server that works comes within a second on a busy machine as well.
QUERY_S, FROZEN_S = 1.0, 2.5


@pytest.fixture
def script() -> Script:
    return Script(dimension=8)


@pytest.fixture
def settings(script: Script) -> Iterator[EmbedderSettings]:
    with ollama_server(script) as url:
        yield EmbedderSettings(provider="ollama", ollama_url=url, query_timeout_s=QUERY_S)


@pytest.fixture
async def embedder(settings: EmbedderSettings) -> AsyncIterator[LazyEmbedder]:
    lazy = LazyEmbedder(partial(open_embedder, settings), query_timeout_s(settings))
    yield lazy
    await lazy.aclose()


async def refused(embedder: LazyEmbedder) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"^the model server has not answered for 1 s$"):
        await embedder.embed_query("where")


async def answered(embedder: LazyEmbedder) -> Vectors:
    """Ask until there is an answer."""
    with anyio.fail_after(60):
        while True:
            with contextlib.suppress(EmbedderUnavailable):
                return await embedder.embed_query("where")
            await anyio.sleep(0.05)


async def test_questions_do_not_wait_for_a_server_that_is_frozen(
    embedder: LazyEmbedder, script: Script
) -> None:
    await embedder.open()
    script.delay_s = FROZEN_S
    for _ in range(lazy.PENDING_LIMIT + 2):
        await refused(embedder)
    assert len(script.requests) <= 1 + lazy.PENDING_LIMIT, "it is not asked without end"
    script.delay_s = 0.0
    expected = vector_of("search_query: where", 8)
    np.testing.assert_allclose(await answered(embedder), expected, atol=1e-6)


async def test_a_server_that_loads_its_model_is_asked_on(
    embedder: LazyEmbedder, script: Script
) -> None:
    """Opening is part of the first question; who goes away before it ends does not begin it
    anew.
    """
    script.delay_s = FROZEN_S
    await refused(embedder)
    assert embedder.error is not None
    await embedder.open()
    assert [request["input"] for request in script.requests].count(["probe"]) == 1


async def test_a_cancelled_question_leaves_no_work_behind(
    embedder: LazyEmbedder, script: Script
) -> None:
    await embedder.open()
    script.delay_s = FROZEN_S
    with anyio.move_on_after(0.1) as scope:
        await embedder.embed_query("where")
    assert scope.cancelled_caught
    script.delay_s = 0.0
    await answered(embedder)


async def test_settings_that_a_late_server_proves_wrong_fail_no_question(script: Script) -> None:
    """At the start it ends the daemon; later there is one that answers by words."""
    script.status, script.ignores_dimensions = 503, True
    with ollama_server(script) as url:
        settings = EmbedderSettings(provider="ollama", ollama_url=url, dimension=64)
        embedder = LazyEmbedder(partial(open_embedder, settings), query_timeout_s(settings))
        with pytest.raises(EmbedderUnavailable, match="busy"):
            await embedder.embed_query("where")
        script.status = 0
        await anyio.sleep(lazy.OPEN_RETRY_S)
        with pytest.raises(EmbedderUnavailable, match="the settings ask for 64"):
            await embedder.embed_query("where")
        assert embedder.error is not None
        assert "the settings ask for 64" in embedder.error.message
        await anyio.sleep(lazy.OPEN_RETRY_S)
        with pytest.raises(BadSettings, match="the settings ask for 64"):
            await embedder.open()
        await embedder.aclose()


def test_a_model_in_this_process_is_waited_for() -> None:
    assert query_timeout_s(EmbedderSettings()) is None
    assert query_timeout_s(EmbedderSettings(provider="onnx")) is None
    assert query_timeout_s(EmbedderSettings(provider="openai", query_timeout_s=7.0)) == 7.0


async def test_a_vector_of_a_model_that_was_replaced_meanwhile_is_not_returned(
    settings: EmbedderSettings, script: Script
) -> None:
    """Callers compare `fingerprint` with that of the index, after the vector."""
    script.models["all-minilm:latest"] = "sha256:other"
    opened_settings = iter((settings, replace(settings, model="all-minilm")))
    embedder = LazyEmbedder(lambda: open_embedder(next(opened_settings)))
    await embedder.open()
    requests = len(script.requests)
    script.delay_s = 1.0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(refused_as_replaced, embedder)
        with anyio.fail_after(60):
            while len(script.requests) == requests:  # noqa: ASYNC110 - the server has no event
                await anyio.sleep(0.01)
        script.delay_s = 0.0
        await embedder.reopen()
    assert len(await embedder.embed_query("where")) == 8
    await embedder.aclose()


async def refused_as_replaced(embedder: LazyEmbedder) -> None:
    with pytest.raises(EmbedderUnavailable, match="another model"):
        await embedder.embed_query("where")
