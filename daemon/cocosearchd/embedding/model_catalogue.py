"""Lists the models that could be used here: shipped, installed, on a server, or why one is missing."""

import asyncio
import importlib.util
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import httpx

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import EmbedderFingerprint
from cocosearchd.embedding.factory import PROVIDERS
from cocosearchd.embedding.model_server import is_loopback, redact
from cocosearchd.embedding.providers import builtin
from cocosearchd.runtime.files.home_paths import expand_home
from cocosearchd.runtime.masking import mask_address

TIMEOUT_S = 2.0  # a person waits for the list; a slower server counts as unreachable

State = Literal["in use", "available", "unreachable", "not installed", "not configured"]


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A model, or a provider without one. `detail`: its location, or what to do."""

    provider: str
    model: str
    state: State
    detail: str = ""


async def list_models(
    settings: EmbedderSettings, opened: EmbedderFingerprint | None, api_key: str
) -> tuple[CatalogueEntry, ...]:
    """List the models by provider, in the order of `factory.PROVIDERS`.

    `opened` is the fingerprint of the configured embedder, if it could be reached.
    """
    models = [
        model for provider in PROVIDERS for model in await _LISTERS[provider](settings, api_key)
    ]
    return tuple(_in_use(model, opened) for model in models)


def _in_use(model: CatalogueEntry, opened: EmbedderFingerprint | None) -> CatalogueEntry:
    if opened is None or model.provider != opened.provider:
        return model
    same = model.model.removesuffix(":latest") == opened.model.removesuffix(":latest")
    return replace(model, state="in use") if same else model


async def _builtin(settings: EmbedderSettings, api_key: str) -> list[CatalogueEntry]:
    del settings, api_key
    return [CatalogueEntry("builtin", builtin.version(), "available", "ships with cocosearchd")]


async def _ollama(settings: EmbedderSettings, api_key: str) -> list[CatalogueEntry]:
    del api_key
    url = (
        settings.url if settings.provider == "ollama" and settings.url else settings.ollama_url
    ).rstrip("/")
    reply, problem = await _fetch_json(f"{url}/api/tags", {})
    if problem:
        return [CatalogueEntry("ollama", "", "unreachable", f"{mask_address(url)}: {problem}")]
    listed = reply.get("models")
    names = (
        [str(item.get("name", "")) for item in listed if isinstance(item, dict)]
        if isinstance(listed, list)
        else []
    )
    if not names:
        return [
            CatalogueEntry(
                "ollama",
                "",
                "not installed",
                f"{mask_address(url)} has no model: ollama pull nomic-embed-text",
            )
        ]
    return [
        CatalogueEntry("ollama", name, "available", mask_address(url)) for name in sorted(names)
    ]


async def _openai(settings: EmbedderSettings, api_key: str) -> list[CatalogueEntry]:
    if settings.provider != "openai":
        return [
            CatalogueEntry(
                "openai",
                "",
                "not configured",
                "set embedder.provider, embedder.url and embedder.model",
            )
        ]
    url = settings.url.rstrip("/") or "https://api.openai.com/v1"
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    _, problem = await _fetch_json(f"{url}/models", headers)
    return [
        CatalogueEntry(
            "openai",
            settings.model,
            "unreachable" if problem else "available",
            problem or mask_address(url),
        )
    ]


async def _onnx(settings: EmbedderSettings, api_key: str) -> list[CatalogueEntry]:
    del api_key
    if not _are_installed("onnxruntime", "tokenizers"):
        return [CatalogueEntry("onnx", "", "not installed", "pip install 'cocosearchd[onnx]'")]
    if settings.provider != "onnx":
        return [
            CatalogueEntry(
                "onnx", "", "not configured", "embedder.model names a directory with model.onnx"
            )
        ]
    return [await asyncio.to_thread(_directory, settings.model)]


def _directory(path: str) -> CatalogueEntry:
    home = expand_home(path)
    missing = [name for name in ("model.onnx", "tokenizer.json") if not (home / name).is_file()]
    state: State = "unreachable" if missing else "available"
    return CatalogueEntry(
        "onnx", home.name, state, f"{home}: no {' and no '.join(missing)}" if missing else str(home)
    )


async def _sentence_transformers(settings: EmbedderSettings, api_key: str) -> list[CatalogueEntry]:
    del api_key
    if not _are_installed("sentence_transformers"):
        hint = "pip install 'cocosearchd[sentence-transformers]'"
        return [CatalogueEntry("sentence-transformers", "", "not installed", hint)]
    if settings.provider != "sentence-transformers":
        return [
            CatalogueEntry(
                "sentence-transformers",
                "",
                "not configured",
                "set embedder.provider and embedder.model",
            )
        ]
    return [CatalogueEntry("sentence-transformers", settings.model, "available", "")]


async def _fetch_json(url: str, headers: dict[str, str]) -> tuple[dict[str, Any], str]:
    """Fetch a JSON object; if that fails, the second value says why."""
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx.AsyncClient(
                timeout=TIMEOUT_S, trust_env=not is_loopback(url), headers=headers
            ) as client,
        ):
            reply = await client.get(url)
            reply.raise_for_status()
            body = reply.json()
    except (
        httpx.HTTPError,
        httpx.InvalidURL,
        ValueError,
        ImportError,
        RecursionError,
        TimeoutError,
    ) as error:
        text = redact(str(error), url, headers.get("Authorization", "").removeprefix("Bearer "))
        return {}, text.splitlines()[0] if text else type(error).__name__
    return (body, "") if isinstance(body, dict) else ({}, "the answer is no object")


def _are_installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)


_LISTERS: dict[str, Callable[[EmbedderSettings, str], Awaitable[list[CatalogueEntry]]]] = {
    "builtin": _builtin,
    "ollama": _ollama,
    "openai": _openai,
    "onnx": _onnx,
    "sentence-transformers": _sentence_transformers,
}
