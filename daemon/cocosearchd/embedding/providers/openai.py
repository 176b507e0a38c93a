"""Vectors from a server with an OpenAI-compatible `POST /embeddings`.

Hosted services, vLLM, llama.cpp, LM Studio, or a proxy.
"""

import asyncio
import base64
import contextlib
import time
from collections.abc import Sequence
from typing import Any

import anyio
import httpx
import numpy as np

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import EmbedderFingerprint, Vectors
from cocosearchd.embedding.batching import PROBE, BatchRefused, embed_all
from cocosearchd.embedding.model_server import (
    client_settings_errors,
    is_loopback,
    no_answer_message,
    redact,
)
from cocosearchd.errors import BadSettings, EmbedderUnavailable
from cocosearchd.runtime.masking import mask_address

DEFAULT_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "text-embedding-3-small"
# Such servers normally ask for a pause by rate limits. Longer pauses are left to the caller.
PAUSES_S = (0.5, 1.0, 2.0)
LONGEST_PAUSE_S = 20.0
USED_S = 60.0  # a remote server is checked for this time after a query


class OpenAIEmbedder:
    """A model of a server. Made by `open_openai`."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        fingerprint: EmbedderFingerprint,
        settings: EmbedderSettings,
    ) -> None:
        self.fingerprint = fingerprint
        self._client = client
        self._settings = settings
        self._used_at = time.monotonic()

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See `base.Embedder`. Pauses when the server limits the rate."""

        async def embed(batch: Sequence[str]) -> Vectors:
            prefixed = [self.fingerprint.document_prefix + text for text in batch]
            return await _request_vectors(
                self._client, self._settings, self.fingerprint.model, prefixed, PAUSES_S
            )

        return await embed_all(texts, self.fingerprint.dimension, self._settings.batch_size, embed)

    async def embed_query(self, text: str) -> Vectors:
        """See `base.Embedder`. Never pauses: a person is waiting."""

        async def embed(batch: Sequence[str]) -> Vectors:
            self._used_at = time.monotonic()
            prefixed = [self.fingerprint.query_prefix + text for text in batch]
            return await _request_vectors(
                self._client, self._settings, self.fingerprint.model, prefixed, ()
            )

        row: Vectors = (await embed_all([text], self.fingerprint.dimension, 1, embed))[0]
        return row

    async def ping(self, *, prove: bool) -> bool:
        """See `base.Pingable`: requests the list of models, which is free.

        Some servers have no such list. A remote server is asked only for a while after a query,
        and never for a vector, which costs money.
        """
        local = is_loopback(str(self._client.base_url))
        if prove and local:
            await self.embed_query(PROBE)
            return True
        if local or time.monotonic() - self._used_at < USED_S:
            await self._list_models()
        return False

    async def _list_models(self) -> None:
        try:
            async with (
                asyncio.timeout(self._settings.timeout_s),
                self._client.stream("GET", "/models") as reply,
            ):
                status = reply.status_code
        except (httpx.HTTPError, TimeoutError) as error:
            raise EmbedderUnavailable(
                no_answer_message(str(self._client.base_url), error), "check embedder.url"
            ) from error
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise _key_refused(status, self._settings)

    async def aclose(self) -> None:
        """Close the connections; idempotent."""
        await self._client.aclose()


async def open_openai(settings: EmbedderSettings, api_key: str) -> OpenAIEmbedder:
    """Embed a word, to learn the dimension.

    Such servers have no revision: the model's name has to suffice.

    Raises `EmbedderUnavailable`, and `BadSettings` for a request that no server can be sent.
    """
    model = settings.model or DEFAULT_MODEL
    url = (settings.url or DEFAULT_URL).rstrip("/")
    if not (api_key.isascii() and api_key.isprintable()):
        raise BadSettings(
            f"the key for {mask_address(url)} has characters that no request can carry",
            f"set {settings.api_key_variable}",
        )
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    with client_settings_errors(url):
        client = httpx.AsyncClient(
            base_url=url,
            headers=headers,
            timeout=settings.timeout_s,
            trust_env=not is_loopback(url),
        )
    async with contextlib.AsyncExitStack() as on_failure:
        on_failure.push_async_callback(client.aclose)
        try:
            probe = await _request_vectors(client, settings, model, [PROBE], ())
        except BatchRefused as refusal:
            raise EmbedderUnavailable(
                f"{mask_address(url)} does not embed: {refusal}", "check embedder.model"
            ) from None
        on_failure.pop_all()
    fingerprint = EmbedderFingerprint(
        provider="openai",
        model=model,
        revision="",
        dimension=probe.shape[1],
        document_prefix=settings.document_prefix or "",
        query_prefix=settings.query_prefix or "",
        max_tokens=settings.max_tokens,
    )
    return OpenAIEmbedder(client, fingerprint, settings)


async def _request_vectors(
    client: httpx.AsyncClient,
    settings: EmbedderSettings,
    model: str,
    texts: list[str],
    pauses_s: Sequence[float],
) -> Vectors:
    """Send a request; while the answer is 429, send it again after a pause.

    Raises `BatchRefused`, `EmbedderUnavailable`.
    """
    body: dict[str, Any] = {"model": model, "input": texts, "encoding_format": "float"}
    if settings.dimension:
        body["dimensions"] = settings.dimension
    url = str(client.base_url)
    for pause_s in (*pauses_s, None):
        try:
            # httpx's timeout restarts with each byte, and an answer may arrive byte by byte for ever.
            async with asyncio.timeout(settings.timeout_s):
                reply = await client.post("/embeddings", json=body)
        except (httpx.HTTPError, TimeoutError) as error:
            raise EmbedderUnavailable(no_answer_message(url, error), "check embedder.url") from None
        if reply.status_code != httpx.codes.TOO_MANY_REQUESTS or pause_s is None:
            break
        await anyio.sleep(min(_retry_after_s(reply, pause_s), LONGEST_PAUSE_S))
    _raise_for(reply, settings, url)
    try:
        items = sorted(reply.json()["data"], key=lambda item: int(item["index"]))
        rows = np.stack([_floats(item["embedding"]) for item in items])
        if rows.ndim != 2:
            raise ValueError("numbers in the place of vectors")
        return rows
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        reason = redact(str(error), url)
        raise EmbedderUnavailable(
            f"{mask_address(url)} does not answer with embeddings: {reason}", "check the URL"
        ) from None


def _raise_for(reply: httpx.Response, settings: EmbedderSettings, url: str) -> None:
    status = reply.status_code
    # Servers quote the keys that they refuse.
    key = reply.request.headers.get("Authorization", "").removeprefix("Bearer ")
    text = redact(" ".join(reply.text.split()), url, key)[:200]
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise _key_refused(status, settings)
    if status == httpx.codes.NOT_FOUND:
        raise EmbedderUnavailable(
            f"the embedding server knows no such model or path: {text}", "check embedder.model"
        )
    if status in (
        httpx.codes.BAD_REQUEST,
        httpx.codes.REQUEST_ENTITY_TOO_LARGE,
        httpx.codes.UNPROCESSABLE_ENTITY,
    ):
        raise BatchRefused(f"{status}: {text}")
    if status != httpx.codes.OK:
        raise EmbedderUnavailable(
            f"the embedding server answers {status}: {text}", "this is tried again"
        )


def _key_refused(status: int, settings: EmbedderSettings) -> EmbedderUnavailable:
    return EmbedderUnavailable(
        f"the embedding server refuses the key ({status})", f"set {settings.api_key_variable}"
    )


def _retry_after_s(reply: httpx.Response, default_s: float) -> float:
    """Read the seconds of Retry-After; its other form, a date, is rare and gets the default."""
    try:
        seconds = float(reply.headers.get("retry-after", ""))
    except ValueError:
        return default_s
    return seconds if seconds >= 0 else default_s  # "nan" is a number as well


def _floats(value: str | list[float]) -> Vectors:
    """Read a vector: JSON numbers or, from some servers, base64 of little-endian float32."""
    if isinstance(value, str):
        return np.frombuffer(base64.b64decode(value), dtype="<f4").astype(np.float32)
    return np.asarray(value, dtype=np.float32)
