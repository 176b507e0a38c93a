"""Parsing without parser processes, for tests of what comes before and after it.

The processes have tests of their own, and start in a tenth of a second each: too much for each
maker of these tests.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.embedding.caching import ReuseCounters
from cocosearchd.indexing.indexer.known_contents import Preparation, look_up_contents
from cocosearchd.indexing.indexer.row_maker import (
    FileExtract,
    RowRules,
    extract_files,
    extract_new_chunks,
)
from cocosearchd.indexing.pipeline import recursive_chunker
from cocosearchd.indexing.pipeline.chunker import ChunkLimits, chunk_ranges
from cocosearchd.indexing.pipeline.content_keys import ContentKeys, digest_pipeline_code
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.indexing.pipeline.manifest_cache import ManifestCache
from cocosearchd.indexing.pipeline.parse_result import parse_file
from cocosearchd.indexing.pipeline.skip_rules import SkipRules
from cocosearchd.indexing.pool.boxed_parser import BoxedParser, ParseTask, Pause, parser_pool
from cocosearchd.indexing.pool.parse_task import ParseRequest, ParseResult
from cocosearchd.indexing.pool.quarantine import Quarantine
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.model import IndexIdentity
from cocosearchd.runtime.disk_cache import DiskCache
from cocosearchd.store.chunks.manifest import StoredFile

NO_QUARANTINE = Quarantine(None)
RULES = RowRules(
    1,
    IndexIdentity((), "", 0),
    chunker_limits(IndexingSettings(chunk_size=300)),
    (),
    (),
    SkipRules(1 << 20, index_secrets=False, any_type=True),
)
# The record of a file that is not stored.
NOTHING = StoredFile((None,) * 9, (None,) * 4, b"")


@dataclass(frozen=True, slots=True)
class Caches:
    """The keys, manifests and counters of an index, as the indexer process makes them."""

    rules: RowRules
    keys: ContentKeys
    manifests: ManifestCache
    counters: ReuseCounters


def open_caches(
    disk_cache: DiskCache | None = None, rules: RowRules = RULES, code: bytes = b""
) -> Caches:
    keys = ContentKeys(rules.limits, rules.overrides, code or digest_pipeline_code())
    shaping = keys.code_digest + repr(replace(rules, index=0)).encode()
    return Caches(rules, keys, ManifestCache(shaping, disk_cache), ReuseCounters())


class ParserHere(BoxedParser):
    """Parses in the process of the test."""

    def __init__(self, limits: ChunkLimits, overrides: QueryOverrides = ()) -> None:
        shape = ParseRequest(limits, overrides, ())
        super().__init__(
            parser_pool(limits.chunker, ""), NO_QUARANTINE, asyncio.Semaphore(1), shape
        )

    async def parse_save(self, task: ParseTask) -> ParseResult:
        return parsed(task, self._shape)

    async def parse(self, tasks: Sequence[ParseTask], pause: Pause) -> list[ParseResult]:
        return [parsed(task, self._shape) for task in tasks]

    async def parse_suspects(self, tasks: Sequence[ParseTask], pause: Pause) -> list[ParseResult]:
        return await self.parse(tasks, pause)


def parsed(task: ParseTask, shape: ParseRequest) -> ParseResult:
    file, cut = (
        task.file,
        recursive_chunker.chunk_ranges if shape.limits.chunker == "recursive" else chunk_ranges,
    )
    parsed_file, cacheable = parse_file(
        file.path, file.language, file.data, shape.limits, shape.overrides, cut
    )
    return ParseResult(parsed_file, cacheable)


def parsed_here(
    sources: Sequence[SourceFile], caches: Caches, *, with_manifests: bool
) -> Preparation:
    """Return cached results, and parse the other files."""
    rules = caches.rules
    manifests = caches.manifests if with_manifests else None
    contents = look_up_contents(
        sources, manifests, caches.keys, NO_QUARANTINE, rules.limits, rules.skip
    )
    for number, content in contents.unparsed.items():
        cut = (
            recursive_chunker.chunk_ranges if rules.limits.chunker == "recursive" else chunk_ranges
        )
        path, data = sources[number].path, sources[number].data
        parsed_file, cacheable = parse_file(
            path, content.language, data, rules.limits, rules.overrides, cut
        )
        caches.counters.parsed += 1
        contents.parsed_files[content.key] = parsed_file
        if not cacheable:
            contents.uncacheable.add(content.key)
    return contents


def extracted_here(sources: Sequence[SourceFile], caches: Caches) -> list[FileExtract]:
    return extract_files(sources, parsed_here(sources, caches, with_manifests=False), nothing)


def differing_here(
    sources: Sequence[SourceFile], stored: Sequence[StoredFile], caches: Caches
) -> list[FileExtract]:
    preparation = parsed_here(sources, caches, with_manifests=True)
    return extract_new_chunks(sources, stored, caches.manifests, nothing, preparation)


def nothing() -> None:
    pass
