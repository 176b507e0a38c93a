"""Behaviour that both kinds of model servers share: URLs, keys, clients and broken answers."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import anyio
import pytest

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.factory import api_key, open_embedder
from cocosearchd.embedding.model_catalogue import list_models
from cocosearchd.errors import BadSettings, CocoSearchError, EmbedderUnavailable
from cocosearchd.runtime.masking import mask_address
from tests.embedding.ollama_server import serving

pytestmark = pytest.mark.anyio
PROVIDERS = pytest.mark.parametrize("provider", ["ollama", "openai"])
TAGS = b'{"models": [{"name": "m:latest", "model": "m:latest", "digest": "1"}]}'
SECRET = "hunter2"


class Handler(BaseHTTPRequestHandler):
    """Answers all that is asked of it; a byte each tenth of a second if it is to drip."""

    tags, vectors, drips = TAGS, b"{}", False

    def do_GET(self) -> None:
        self._send(self.tags)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._send(self.vectors)

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        for at in range(len(body)) if self.drips else ():
            time.sleep(0.1)
            self.wfile.write(body[at : at + 1])
        self.wfile.write(b"" if self.drips else body)

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:  # who asked has gone
            return

    def log_message(self, *args: object) -> None:
        """Silent: the test's output is the report."""


@contextmanager
def answering(**answers: object) -> Iterator[str]:
    with serving(type("Answering", (Handler,), answers)) as url:
        yield url


def settings(provider: str, url: str) -> EmbedderSettings:
    return EmbedderSettings(provider=provider, url=url, ollama_url=url, model="m", timeout_s=0.5)  # type: ignore[arg-type]


@PROVIDERS
async def test_an_answer_that_drips_is_given_up(provider: str) -> None:
    """Each byte comes in time, and all of them never do."""
    with answering(tags=b" " * 1000, vectors=b" " * 1000, drips=True) as url:
        with anyio.fail_after(60), pytest.raises(EmbedderUnavailable, match="too slow"):
            await open_embedder(settings(provider, url))
        with anyio.fail_after(60):
            message = await list_models(settings(provider, url), None, "")
    assert [model.state for model in message if model.provider == provider] == ["unreachable"]


@PROVIDERS
@pytest.mark.parametrize("number", [b"1" + b"0" * 400, b"1e999", b"[" * 100_000, b'"x"', b"{}"])
async def test_numbers_that_no_vector_holds_are_no_answer(provider: str, number: bytes) -> None:
    body = b'{"embeddings": [[%s]], "data": [{"index": 0, "embedding": [%s]}]}' % (number, number)
    with answering(vectors=body) as url, pytest.raises(EmbedderUnavailable):
        await (await open_embedder(settings(provider, url))).embed_query("a")


@pytest.mark.parametrize("tags", [b'{"models": null}', b'{"models": ["m"]}', b"[" * 100_000])
async def test_a_list_of_models_that_is_none(tags: bytes) -> None:
    with answering(tags=tags) as url:
        message = [
            m.state
            for m in await list_models(settings("ollama", url), None, "")
            if m.provider == "ollama"
        ]
    assert message[0] in ("not installed", "unreachable")


@PROVIDERS
async def test_no_error_says_who_asks(provider: str) -> None:
    url = f"http://me:{SECRET}@127.0.0.1:1/v1"
    with pytest.raises(EmbedderUnavailable) as caught:
        await open_embedder(settings(provider, url))
    assert "http://***@127.0.0.1:1/v1" in caught.value.message
    listed = await list_models(settings(provider, url), None, "")
    assert SECRET not in f"{caught.value.message} {caught.value.hint} {listed}"


@pytest.mark.parametrize("key", ["schl\u00fcssel", f"{SECRET}\nX-Other: 1"])
async def test_a_key_that_cannot_be_sent_is_not_quoted(key: str) -> None:
    with pytest.raises(BadSettings, match="no request can carry") as caught:
        await open_embedder(settings("openai", "http://127.0.0.1:1"), key)
    assert (SECRET in caught.value.message, caught.value.hint) == (False, "set OPENAI_API_KEY")


def test_a_key_from_a_file_ends_with_its_line() -> None:
    assert api_key(EmbedderSettings(), {"OPENAI_API_KEY": "sk-1\n"}) == "sk-1"
    assert (
        api_key(
            EmbedderSettings(), {"OPENAI_API_KEY": "sk-1", "COCOSEARCH_EMBEDDER_API_KEY": "sk-2"}
        )
        == "sk-2"
    )


@PROVIDERS
async def test_a_proxy_that_cannot_be_is_said_to_be_one(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", f"nonsense://me:{SECRET}@127.0.0.1:1")
    with pytest.raises(CocoSearchError, match="cannot be asked") as caught:
        await open_embedder(settings(provider, "http://192.0.2.1"))
    assert "proxies of the environment" in caught.value.hint
    assert SECRET not in caught.value.message


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("http://h:1/v1", "http://h:1/v1"),
        ("http://me:pw@h:1/v1", "http://***@h:1/v1"),
        ("https://token@h", "https://***@h"),
        ("me:p@ss@h:1", "***@h:1"),
        ("http://h/a@b", "http://h/a@b"),
    ],
)
def test_urls_as_they_are_shown(url: str, safe: str) -> None:
    assert mask_address(url) == safe
