"""Embedders by what they make: the configured one, and those that indexes were made by before the
settings changed.

As with `open`, importing this module is cheap: the catalogue, with its HTTP client, is loaded when
it is asked for.
"""

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.factory import PROVIDERS, SERVERS, query_timeout_s
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import BadSettings, EmbedderUnavailable

if TYPE_CHECKING:
    from cocosearchd.embedding.model_catalogue import CatalogueEntry

CATALOGUE = "cocosearchd.embedding.model_catalogue"
Pairs = tuple[tuple[str, str], ...]  # of a fingerprint
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
        """`open_embedder` opens what settings say; it raises `EmbedderUnavailable` and `BadSettings` as
        `open_embedder`.
        """
        self.configured, self._settings, self._open = configured, settings, open_embedder
        self._api_key = api_key
        self._former: dict[Pairs, LazyEmbedder] = {}

    def get(self, pairs: Pairs) -> LazyEmbedder:
        """The embedder that makes such vectors. What it is asked raises `EmbedderUnavailable` when
        there is none now.

        While the configured one has not been reached, it counts as the one that is meant by its
        provider.
        """
        known = self.configured.error is None
        if (
            self.configured.fingerprint.pairs() == pairs
            if known
            else dict(pairs)["provider"] == self._settings.provider
        ):
            return self.configured
        if pairs not in self._former:
            self._former[pairs] = LazyEmbedder(
                partial(self._opened, pairs), query_timeout_s(settings_for(self._settings, pairs))
            )
        return self._former[pairs]

    async def recheck_configured(self) -> None:
        """See that the configured one is known, as it is now. Raises `EmbedderUnavailable`,
        `BadSettings`.
        """
        if self._settings.provider in SERVERS:
            await self.configured.reopen()
        else:
            await self.configured.open()

    async def models(self) -> "tuple[CatalogueEntry, ...]":
        """What could be used."""
        opened = self.configured.fingerprint if self.configured.error is None else None
        module: Any = await asyncio.to_thread(importlib.import_module, CATALOGUE)
        models: tuple[CatalogueEntry, ...] = await module.catalogue(
            self._settings, opened, self._api_key
        )
        return models

    async def aclose(self) -> None:
        """Release all of them."""
        for embedder in (self.configured, *self._former.values()):
            await embedder.aclose()

    async def _opened(self, pairs: Pairs) -> Embedder:
        made = dict(pairs)
        what = f"{made['provider']}/{made['model']} of the index"
        if made["provider"] not in PROVIDERS:
            raise EmbedderUnavailable(f"{what} is not known to this version")
        settings = settings_for(self._settings, pairs)
        if made["provider"] == "openai" != self._settings.provider and not settings.url:
            # It may have been on this machine; by default, texts would go to a server on the
            # internet.
            raise EmbedderUnavailable(
                f"{what} is not asked: where its server was is not in the settings any more"
            )
        try:
            embedder = await self._open(settings)
        except BadSettings as error:
            raise EmbedderUnavailable(
                f"{what} cannot be used: {error.message}", error.hint
            ) from error
        if embedder.fingerprint.pairs() != pairs:
            await embedder.aclose()
            raise EmbedderUnavailable(f"{what} is gone: there is another one of its name")
        return embedder


def settings_for(settings: EmbedderSettings, pairs: Pairs) -> EmbedderSettings:
    """The settings that an embedder of this fingerprint had; where it is reached is as now."""
    made = dict(pairs)
    # The fingerprint of a local model holds the name of its directory only; the settings may still
    # know where it is.
    local = made["provider"] == settings.provider and settings.model.rstrip("/").endswith(
        "/" + made["model"]
    )
    # The URL is that of the configured server; where that is none, it has been left there by one
    # like OpenAI's.
    here = (
        made["provider"] == settings.provider
        if settings.provider in SERVERS
        else made["provider"] == "openai"
    )
    return replace(
        settings,
        provider=made["provider"],  # type: ignore[arg-type]
        model=settings.model if local else made["model"],
        url=settings.url if here else "",
        dimension=int(made["dimension"]),
        document_prefix=made["document_prefix"],
        query_prefix=made["query_prefix"],
        max_tokens=int(made["max_tokens"]),
    )
