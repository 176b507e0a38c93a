"""Embedders by fingerprint: the configured embedder, and those of indexes with older settings.

Importing this module is cheap, like importing `factory`: the catalogue, with its HTTP client, is
loaded when it is needed.
"""

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cocosearchd.config.settings import EmbedderSettings, Provider
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.factory import PROVIDERS, query_timeout_s
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import BadSettings, EmbedderUnavailable
from cocosearchd.model import EmbedderPairs

if TYPE_CHECKING:
    from cocosearchd.embedding.model_catalogue import CatalogueEntry

CATALOGUE = "cocosearchd.embedding.model_catalogue"
OpenEmbedder = Callable[[EmbedderSettings], Awaitable[Embedder]]


class EmbedderRegistry:
    """Hands out embedders by the pairs of their fingerprint; each is opened at most once."""

    def __init__(
        self,
        configured: LazyEmbedder,
        settings: EmbedderSettings,
        open_embedder: OpenEmbedder,
        api_key: str = "",
    ) -> None:
        """Keep the parts; nothing is opened yet.

        `open_embedder` opens the embedder of settings, and raises `EmbedderUnavailable` and
        `BadSettings` as the function in `factory` does.
        """
        self.configured = configured
        self._settings = settings
        self._open = open_embedder
        self._api_key = api_key
        self._previous: dict[EmbedderPairs, LazyEmbedder] = {}

    def get(self, pairs: EmbedderPairs) -> LazyEmbedder:
        """Return the embedder with this fingerprint; without one, calls raise `EmbedderUnavailable`.

        Until the configured embedder has been reached, it is recognised by its provider alone. So
        compare its fingerprint after a call, and look again if it is another one.
        """
        if self.configured.error is None:
            is_configured = self.configured.fingerprint.pairs() == pairs
        else:
            is_configured = dict(pairs)["provider"] == self._settings.provider
        if is_configured:
            return self.configured
        if pairs not in self._previous:
            self._previous[pairs] = LazyEmbedder(
                partial(self._open_pairs, pairs),
                query_timeout_s(settings_for(self._settings, pairs)),
            )
        return self._previous[pairs]

    async def recheck_configured(self) -> None:
        """Check which model the configured embedder has now.

        Raises `EmbedderUnavailable`, `BadSettings`.
        """
        if PROVIDERS[self._settings.provider].is_server:
            await self.configured.reopen()
        else:
            await self.configured.open()

    async def models(self) -> "tuple[CatalogueEntry, ...]":
        """List the models that could be used."""
        opened = self.configured.fingerprint if self.configured.error is None else None
        module: Any = await asyncio.to_thread(importlib.import_module, CATALOGUE)
        models: tuple[CatalogueEntry, ...] = await module.list_models(
            self._settings, opened, self._api_key
        )
        return models

    async def aclose(self) -> None:
        """Close all embedders."""
        for embedder in (self.configured, *self._previous.values()):
            await embedder.aclose()

    async def _open_pairs(self, pairs: EmbedderPairs) -> Embedder:
        values = dict(pairs)
        label = f"{values['provider']}/{values['model']} of the index"
        if values["provider"] not in PROVIDERS:
            raise EmbedderUnavailable(f"{label} is not known to this version")
        settings = settings_for(self._settings, pairs)
        is_other = values["provider"] != self._settings.provider
        if is_other and not settings.url and PROVIDERS[values["provider"]].has_public_default:
            # Its server may have been on this machine: its texts must not go to the internet.
            raise EmbedderUnavailable(
                f"{label} is not asked: where its server was is not in the settings any more"
            )
        try:
            embedder = await self._open(settings)
        except BadSettings as error:
            raise EmbedderUnavailable(
                f"{label} cannot be used: {error.message}", error.hint
            ) from error
        if embedder.fingerprint.pairs() != pairs:
            await embedder.aclose()
            raise EmbedderUnavailable(f"{label} is gone: there is another one of its name")
        return embedder


def settings_for(settings: EmbedderSettings, pairs: EmbedderPairs) -> EmbedderSettings:
    """Return the settings of the embedder with this fingerprint, with the present URL."""
    values = dict(pairs)
    # The fingerprint of a local model has the name of its directory only; the settings may still
    # have the path.
    is_local = values["provider"] == settings.provider and settings.model.rstrip("/").endswith(
        "/" + values["model"]
    )
    provider: Provider = values["provider"]  # type: ignore[assignment]
    return replace(
        settings,
        provider=provider,
        model=settings.model if is_local else values["model"],
        url=settings.url if _has_present_url(settings, provider) else "",
        dimension=int(values["dimension"]),
        document_prefix=values["document_prefix"],
        query_prefix=values["query_prefix"],
        max_tokens=int(values["max_tokens"]),
    )


def _has_present_url(settings: EmbedderSettings, provider: Provider) -> bool:
    """Return whether `embedder.url` is the URL of this provider's server.

    If the configured provider has no server, an earlier provider with a public default may have
    set the URL.
    """
    if PROVIDERS[settings.provider].is_server:
        return provider == settings.provider
    return PROVIDERS[provider].has_public_default
