"""Opens embedders: a table of providers, and a check of the opened model against the settings.

Importing this module is cheap. A provider's module, with its client library, is loaded only when the
provider is chosen: the table has the names of modules, and `importlib` loads them.
"""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from cocosearchd.config.settings import EmbedderSettings, Provider
from cocosearchd.embedding.base import Embedder
from cocosearchd.errors import BadSettings, EmbedderUnavailable


class ProviderEntry(NamedTuple):
    """A provider: `opener` in `module` is `async (settings, api_key) -> Embedder`."""

    module: str  # in `embedding.providers`
    opener: str
    is_server: bool = False  # its requests may take any time
    is_extra: bool = False  # its library is an extra of the distribution, with the provider's name
    has_public_default: bool = False  # without `embedder.url`, texts go to a server on the internet


PROVIDERS: dict[Provider, ProviderEntry] = {
    "builtin": ProviderEntry("builtin", "open_builtin"),
    "ollama": ProviderEntry("ollama", "open_ollama", is_server=True),
    "openai": ProviderEntry("openai", "open_openai", is_server=True, has_public_default=True),
    "onnx": ProviderEntry("onnx", "open_onnx", is_extra=True),
    "sentence-transformers": ProviderEntry(
        "sentence_transformers", "open_sentence_transformers", is_extra=True
    ),
}


def query_timeout_s(settings: EmbedderSettings) -> float | None:
    """Return the longest wait of a query for its vector, in seconds.

    None: no limit, for a model in this process.
    """
    return settings.query_timeout_s if PROVIDERS[settings.provider].is_server else None


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
    the settings name. Raises `EmbedderUnavailable` if the model does not answer (wait and try again),
    and `BadSettings` if it never can answer with these settings.
    """
    provider = PROVIDERS[settings.provider]
    try:
        module: Any = importlib.import_module(f"cocosearchd.embedding.providers.{provider.module}")
    except ImportError as error:
        if not provider.is_extra:
            raise
        raise BadSettings(
            f"the embedder {settings.provider} needs {error.name}",
            f"pip install 'cocosearchd[{settings.provider}]'",
        ) from error
    embedder = cast(Embedder, await getattr(module, provider.opener)(settings, api_key))
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
