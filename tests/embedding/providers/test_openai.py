"""OpenAI-compatible servers, over real sockets: several dialects of the contract."""

import base64
import json
import struct
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import anyio
import numpy as np
import pytest

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.errors import EmbedderUnavailable
from tests.embedding.ollama_server import serving, vector_of

pytestmark = pytest.mark.anyio


@dataclass
class Script:
    """Answers of the server: one of `statuses` for each request, then 200."""

    # or base64, or nothing, or reversed: the order of `data` is not promised, `index` is
    dialect: str = "float"
    statuses: list[int] = field(default_factory=list)
    retry_after: str = "0"
    longest: int = 10_000
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # head and body are two writes: otherwise 40 ms pass between them
    disable_nagle_algorithm = True
    script: Script

    def do_POST(self) -> None:
        script = self.script
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        script.requests.append(body)
        script.keys.append(self.headers.get("authorization", ""))
        status = script.statuses.pop(0) if script.statuses else 200
        if self.path != "/v1/embeddings":
            status = 404
        elif status == 200 and any(len(text) > script.longest for text in body["input"]):
            status = 400
        dimension = body.get("dimensions", 8)
        data = [
            {"index": i, "embedding": self._vector(text, dimension)}
            for i, text in enumerate(body["input"])
        ]
        answer: dict[str, Any] = {"data": data[::-1] if script.dialect == "reversed" else data}
        raw = json.dumps(answer if status == 200 else {"error": {"message": "no"}}).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(raw)))
        self.send_header("retry-after", script.retry_after)
        self.end_headers()
        self.wfile.write(raw)

    def _vector(self, text: str, dimension: int) -> str | list[float] | list[None] | None:
        if self.script.dialect == "nothing":
            return None
        if self.script.dialect == "nulls":
            return [None] * dimension
        vector = [2 * value for value in vector_of(text, dimension)]  # not every server normalises
        if self.script.dialect == "base64":
            return base64.b64encode(struct.pack(f"<{dimension}f", *vector)).decode()
        return vector

    def log_message(self, *args: object) -> None:
        """Silent: the test's output is the report."""


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def settings(script: Script) -> Iterator[EmbedderSettings]:
    with serving(type("ScriptedHandler", (Handler,), {"script": script})) as url:
        yield EmbedderSettings(provider="openai", url=f"{url}/v1/", model="small", batch_size=3)


@pytest.fixture
async def embedder(settings: EmbedderSettings) -> AsyncIterator[Embedder]:
    opened = await open_embedder(settings, "sk-test")
    yield opened
    await opened.aclose()


@pytest.mark.parametrize("dialect", ["float", "base64", "reversed"])
async def test_every_dialect_gives_the_same_vectors(
    embedder: Embedder, script: Script, dialect: str
) -> None:
    script.dialect = dialect
    texts = [f"text {number}" for number in range(7)]
    vectors = await embedder.embed_documents(texts)
    np.testing.assert_allclose(vectors, np.array([vector_of(text, 8) for text in texts]), atol=1e-6)
    assert [len(body["input"]) for body in script.requests] == [1, 3, 3, 1]
    assert set(script.keys) == {"Bearer sk-test"}


async def test_too_many_requests_are_waited_for_when_indexing(
    embedder: Embedder, script: Script
) -> None:
    script.statuses = [429, 429]
    assert (await embedder.embed_documents(["a"])).any()
    script.statuses = [429] * 9
    with pytest.raises(EmbedderUnavailable, match="429"):
        await embedder.embed_documents(["a"])


async def test_too_many_requests_are_said_at_once_to_a_person(
    embedder: Embedder, script: Script
) -> None:
    script.statuses, script.retry_after = [429], "20"
    with pytest.raises(EmbedderUnavailable, match="429"):
        await embedder.embed_query("a")


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "OPENAI_API_KEY"), (404, "embedder.model"), (502, "tried again")]
)
async def test_errors_name_the_remedy(
    settings: EmbedderSettings, script: Script, status: int, hint: str
) -> None:
    script.statuses = [status]
    with pytest.raises(EmbedderUnavailable) as caught:
        await open_embedder(settings)
    assert hint in caught.value.hint


async def test_an_answer_without_vectors_is_said_to_be_one(
    settings: EmbedderSettings, script: Script
) -> None:
    script.dialect = "nothing"
    with pytest.raises(EmbedderUnavailable, match="does not answer with embeddings"):
        await open_embedder(settings)


async def test_a_server_without_a_number_for_any_text_is_down(
    embedder: Embedder, script: Script
) -> None:
    """Some servers answer so when the model overflows: no text is given up for that."""
    script.dialect = "nulls"
    with pytest.raises(EmbedderUnavailable, match="not numbers"):
        await embedder.embed_documents(["a", "b"])


@pytest.mark.parametrize("expected", ["nan", "-1", "Wed, 21 Oct 2026 07:28:00 GMT"])
async def test_a_pause_that_is_no_time_is_our_own(
    embedder: Embedder, script: Script, expected: str
) -> None:
    script.statuses, script.retry_after = [429], expected
    with anyio.fail_after(15):  # less than the longest pause
        assert (await embedder.embed_documents(["a"])).any()


async def test_a_text_that_is_too_long_is_cut(embedder: Embedder, script: Script) -> None:
    script.longest = 600
    vectors = await embedder.embed_documents(["short", "x" * 1000, "also short"])
    np.testing.assert_allclose(vectors[1], vector_of("x" * 500, 8), atol=1e-6)
    np.testing.assert_allclose(vectors[2], vector_of("also short", 8), atol=1e-6)


async def test_nothing_there() -> None:
    with pytest.raises(EmbedderUnavailable, match="does not answer"):
        await open_embedder(EmbedderSettings(provider="openai", url="http://127.0.0.1:1/v1"))
