"""Watches the directories that the settings declare, from the start of the daemon."""

import logging
from collections.abc import Sequence

import anyio

from cocosearchd.config.sources import Source
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import CocoSearchError
from cocosearchd.indexes.registry import IndexRegistry

log = logging.getLogger(__name__)

SOURCE_RETRY_S = 5.0  # for a directory that is missing, or an embedder that does not answer yet


class DeclaredSources:
    """Adds the index of each source. `run` is a task that never ends."""

    def __init__(
        self, indexes: IndexRegistry, embedder: LazyEmbedder, sources: Sequence[Source]
    ) -> None:
        self._indexes = indexes
        self._embedder = embedder
        self._sources = tuple(sources)
        self._problems: dict[Source, str] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each source that is not watched."""
        return tuple(
            f"the source {source.path} of watching.sources is not watched: {problem}"
            for source, problem in self._problems.items()
        )

    async def run(self) -> None:
        """Add the sources, and retry those that cannot be added yet."""
        pending = self._sources
        while pending:
            pending = tuple([source for source in pending if not await self._add(source)])
            await anyio.sleep(SOURCE_RETRY_S)
        await anyio.sleep_forever()

    async def _add(self, source: Source) -> bool:
        """Add the index of a source, or give an existing one its topics; True on success."""
        try:
            await self._embedder.open()
            await self._indexes.add(source.directory(), None, source.topics)
        except CocoSearchError as error:
            problem = f"{error.message}: {error.hint}" if error.hint else error.message
            if self._problems.get(source) != problem:
                log.warning("source_not_watched", extra={"path": source.path, "error": problem})
            self._problems[source] = problem
            return False
        self._problems.pop(source, None)
        return True
