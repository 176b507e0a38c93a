"""Vectors from an Ollama server, through its own client.

Nothing here waits or retries, unlike in `openai`: the caller knows whether a person or a background task is waiting.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

import httpx
import numpy as np
import ollama

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import EmbedderFingerprint, Vectors
from cocosearchd.embedding.batching import PROBE, BatchRefused, embed_all
from cocosearchd.embedding.model_server import (
    client_settings_errors,
    is_loopback,
    no_answer_message,
    redact,
)
from cocosearchd.errors import EmbedderUnavailable
from cocosearchd.runtime.masking import mask_address

DEFAULT_MODEL = "nomic-embed-text"
# The prefixes that a model was trained with, from the model cards; the server adds none.
PREFIXES = {
    "nomic-embed-text": ("search_document: ", "search_query: "),
    "mxbai-embed-large": ("", "Represent this sentence for searching relevant passages: "),
    "snowflake-arctic-embed": ("", "Represent this sentence for searching relevant passages: "),
}
# 400: this input is refused; 500: may be caused by the input too (a vector that is not a number).
# All other statuses concern the server.
INPUT_STATUS = {400, 500}


class OllamaEmbedder:
    """A model of a server. Made by `open_ollama`."""

    def __init__(
        self,
        client: ollama.AsyncClient,
        fingerprint: EmbedderFingerprint,
        settings: EmbedderSettings,
    ) -> None:
        self.fingerprint = fingerprint
        self._client = client
        self._settings = settings

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See `base.Embedder`.

        Raises `EmbedderUnavailable` also if the weights may have changed meanwhile.
        """
        vectors = await self._embed(texts, self.fingerprint.document_prefix)
        await self._require_same_weights()
        return vectors

    async def embed_query(self, text: str) -> Vectors:
        """See `base.Embedder`."""
        same_weights = asyncio.create_task(self._require_same_weights())
        try:
            rows = await self._embed([text], self.fingerprint.query_prefix)
            await same_weights
        finally:  # no request may outlive this call, whichever of the two has failed
            same_weights.cancel()
            await asyncio.gather(same_weights, return_exceptions=True)
        row: Vectors = rows[0]
        return row

    async def _require_same_weights(self) -> None:
        """Raise `EmbedderUnavailable` if the weights have changed.

        `ollama pull` replaces the weights of a name while this runs, and the answers look the same.
        """
        url = self._settings.url or self._settings.ollama_url
        model = self.fingerprint.model
        if await _digest(self._client, self._settings, url, model) != self.fingerprint.revision:
            raise EmbedderUnavailable(
                f"Ollama has another {model} than before", "cocosearchctl reindex NAME"
            )

    async def ping(self, *, prove: bool) -> bool:
        """See `base.Pingable`: requests the list of models, which also shows changed weights."""
        await (self.embed_query(PROBE) if prove else self._require_same_weights())
        return prove

    async def aclose(self) -> None:
        """Close the connections; idempotent."""
        await _close(self._client)

    async def _embed(self, texts: Sequence[str], prefix: str) -> Vectors:
        async def embed(batch: Sequence[str]) -> Vectors:
            return await _request_vectors(
                self._client,
                self._settings,
                self.fingerprint.model,
                [prefix + text for text in batch],
            )

        return await embed_all(texts, self.fingerprint.dimension, self._settings.batch_size, embed)


async def open_ollama(settings: EmbedderSettings, api_key: str) -> OllamaEmbedder:
    """Ask the server for the digest of the model and the length of its vectors.

    The key belongs to another service and is not sent. Raises `EmbedderUnavailable`.
    """
    del api_key
    url = settings.url or settings.ollama_url
    model = settings.model or DEFAULT_MODEL
    with client_settings_errors(url):
        client = ollama.AsyncClient(
            host=url, timeout=settings.timeout_s, trust_env=not is_loopback(url)
        )
    async with contextlib.AsyncExitStack() as on_failure:
        on_failure.push_async_callback(_close, client)
        digest = await _digest(client, settings, url, model)
        try:
            probe = await _request_vectors(client, settings, model, [PROBE])
        except BatchRefused as refusal:
            raise EmbedderUnavailable(
                f"Ollama does not embed with {model}: {refusal}", "use an embedding model"
            ) from None
        on_failure.pop_all()
    document, query = PREFIXES.get(model.partition(":")[0], ("", ""))
    fingerprint = EmbedderFingerprint(
        provider="ollama",
        model=model,
        revision=digest,
        dimension=probe.shape[1],
        document_prefix=document if settings.document_prefix is None else settings.document_prefix,
        query_prefix=query if settings.query_prefix is None else settings.query_prefix,
        max_tokens=settings.max_tokens,
    )
    return OllamaEmbedder(client, fingerprint, settings)


async def _close(client: ollama.AsyncClient) -> None:
    close: Callable[[], Awaitable[None]] = client.close  # the client leaves it untyped
    await close()


async def _digest(
    client: ollama.AsyncClient, settings: EmbedderSettings, url: str, model: str
) -> str:
    """Read the digest of the model from /api/tags: it changes with the weights."""
    full_name = model if ":" in model else f"{model}:latest"
    try:
        async with asyncio.timeout(settings.timeout_s):
            listed = await client.list()
    except ollama.ResponseError as error:
        raise EmbedderUnavailable(
            f"Ollama at {mask_address(url)} answers {error.status_code} to /api/tags",
            "is it Ollama?",
        ) from None
    except (ConnectionError, TimeoutError, httpx.HTTPError) as error:
        raise _unreachable_error(url, error) from None
    except (ValueError, RecursionError) as error:
        raise EmbedderUnavailable(
            f"what answers at {mask_address(url)} is not Ollama: {redact(str(error), url)}",
            "set COCOSEARCH_OLLAMA_URL",
        ) from None
    for entry in listed.models:
        if entry.model == full_name:
            return entry.digest or ""
    raise _missing_model_error(model)


async def _request_vectors(
    client: ollama.AsyncClient, settings: EmbedderSettings, model: str, texts: list[str]
) -> Vectors:
    """Send a request. Shape ``(n, d)``, as the server says.

    Raises `BatchRefused` and `EmbedderUnavailable`.
    """
    url = settings.url or settings.ollama_url
    try:
        # httpx's timeout restarts with each byte, and an answer may arrive byte by byte for ever.
        async with asyncio.timeout(settings.timeout_s):
            reply = await client.embed(
                model,
                texts,
                truncate=True,
                dimensions=settings.dimension or None,
                options={"num_ctx": settings.max_tokens} if settings.max_tokens else None,
            )
    except ollama.ResponseError as error:
        raise _refusal_error(model, url, error) from None
    except (ConnectionError, TimeoutError, httpx.HTTPError) as error:
        raise _unreachable_error(url, error) from None
    except (ValueError, RecursionError) as error:
        raise EmbedderUnavailable(
            f"Ollama's answer cannot be read: {redact(str(error), url)}", "is it Ollama?"
        ) from None
    return _vectors(reply.embeddings, len(texts))


def _vectors(rows: Sequence[Sequence[float]], count: int) -> Vectors:
    """Make an array of `count` rows of one length. Raises `EmbedderUnavailable`."""
    lengths = {len(row) for row in rows}
    if len(rows) != count or len(lengths) != 1 or not lengths - {0}:
        raise EmbedderUnavailable(
            f"Ollama gave {len(rows)} vectors for {count} texts", "update Ollama"
        )
    return np.asarray(rows, dtype=np.float32)


def _refusal_error(
    model: str, url: str, error: ollama.ResponseError
) -> BatchRefused | EmbedderUnavailable:
    """Make the error by the status code: the texts of errors differ between versions."""
    if error.status_code == httpx.codes.NOT_FOUND:
        return _missing_model_error(model)
    reason = redact(str(error), url)
    if error.status_code in INPUT_STATUS:
        return BatchRefused(reason)
    return EmbedderUnavailable(f"Ollama answers {reason}", "it may be busy: this is tried again")


def _missing_model_error(model: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(f"Ollama has no model {model}", f"ollama pull {model}")


def _unreachable_error(url: str, error: Exception) -> EmbedderUnavailable:
    if isinstance(error, ConnectionError):
        message = f"{mask_address(url)} does not answer"
    else:
        message = no_answer_message(url, error)
    return EmbedderUnavailable(
        f"Ollama at {message}", "start it with `ollama serve`, or set COCOSEARCH_OLLAMA_URL"
    )
