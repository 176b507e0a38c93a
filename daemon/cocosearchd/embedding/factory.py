"""Opens embedders: a table of providers, and a check that the model keeps its promises.

Importing this module is cheap. A provider's module, with its client library, is loaded only when
the provider is chosen; so the table has names, and `importlib` loads them.
"""

import importlib
from collections.abc import Mapping
from typing import Any, cast

from cocosearchd.config.settings import EmbedderSettings, Provider
from cocosearchd.embedding.base import Embedder
from cocosearchd.errors import BadSettings, EmbedderUnavailable

# provider -> (module, opener in it). An opener is `async (settings, api_key) -> Embedder`.
PROVIDERS: dict[Provider, tuple[str, str]] = {
    "builtin": ("cocosearchd.embedding.providers.builtin", "open_builtin"),
    "ollama": ("cocosearchd.embedding.providers.ollama", "open_ollama"),
    "openai": ("cocosearchd.embedding.providers.openai", "open_openai"),
    "onnx": ("cocosearchd.embedding.providers.onnx", "open_onnx"),
    "sentence-transformers": (
        "cocosearchd.embedding.providers.sentence_transformers",
        "open_sentence_transformers",
    ),
}


SERVERS = {"ollama", "openai"}  # providers whose requests may take any time
EXTRAS = {"onnx", "sentence-transformers"}


def query_timeout_s(settings: EmbedderSettings) -> float | None:
    """Return how long a query waits for its vector, in seconds.

    None: no limit, for a model in this process.
    """
    return settings.query_timeout_s if settings.provider in SERVERS else None


def api_key(settings: EmbedderSettings, environment: Mapping[str, str]) -> str:
    """Return the key of the embedding server, "" for none.

    The end of a line, which key files have, is removed.
    """
    key = environment.get("COCOSEARCH_EMBEDDER_API_KEY") or environment.get(
        settings.api_key_variable, ""
    )
    return key.strip()


async def open_embedder(settings: EmbedderSettings, api_key: str = "") -> Embedder:
    """Open the embedder that the settings name, and probe it once; its fingerprint is complete.

    `api_key` is for providers that need one; the caller reads it from the environment variable that
    the settings name. Raises `EmbedderUnavailable` when the model does not answer (wait and try
    again), `BadSettings` when it never can.
    """
    module_name, opener = PROVIDERS[settings.provider]
    try:
        module: Any = importlib.import_module(module_name)
    except ImportError as error:
        if settings.provider not in EXTRAS:
            raise
        raise BadSettings(
            f"the embedder {settings.provider} needs {error.name}",
            f"pip install 'cocosearchd[{settings.provider}]'",
        ) from error
    embedder = cast(Embedder, await getattr(module, opener)(settings, api_key))
    dimension = embedder.fingerprint.dimension
    if settings.dimension not in (0, dimension):
        await embedder.aclose()
        raise BadSettings(
            f"{embedder.fingerprint} gives {dimension} dimensions, "
            f"the settings ask for {settings.dimension}",
            f"set embedder.dimension to {dimension} or remove it",
        )
    if dimension <= 0:
        await embedder.aclose()
        raise EmbedderUnavailable(
            f"{settings.provider} answered with an empty vector", "check the model's name"
        )
    return embedder
