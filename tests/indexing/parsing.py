"""Parsing without parser processes, for tests of what comes before and after it.

The processes have tests of their own, and start in a tenth of a second each: too much for each
maker of these tests.
"""

import asyncio
from collections.abc import Sequence

from cocosearchd.indexing.pipeline import recursive_chunker
from cocosearchd.indexing.pipeline.chunker import ChunkLimits, chunk_ranges
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.indexing.pipeline.manifest_cache import ManifestCache
from cocosearchd.indexing.pipeline.parse_cache import ParseCache
from cocosearchd.indexing.pipeline.parse_result import pack_parsed_file, parse_file
from cocosearchd.indexing.pipeline.skip_rules import SkipRules
from cocosearchd.indexing.pool.boxed_parser import BoxedParser, ParseTask, Pause, parser_pool
from cocosearchd.indexing.pool.parse_task import ParseRequest, ParseResult
from cocosearchd.indexing.pool.quarantine import Quarantine
from cocosearchd.indexing.worker.known_contents import Preparation, look_up_contents
from cocosearchd.indexing.worker.row_maker import (
    FileExtract,
    RowRules,
    extract_files,
    extract_new_chunks,
)
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.model import IndexIdentity
from cocosearchd.store.chunks.manifest import StoredFile

NO_QUARANTINE = Quarantine(None)
RULES = RowRules(
    1,
    IndexIdentity((), "", 0),
    ChunkLimits(chunk_size=300),
    (),
    (),
    SkipRules(1 << 20, index_secrets=False, any_type=True),
)
# The record of a file that is not stored.
NOTHING = StoredFile((None,) * 9, (None,) * 4, b"")


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
    return ParseResult(parsed_file, pack_parsed_file(parsed_file) if cacheable else None)


def parsed_here(
    sources: Sequence[SourceFile],
    rules: RowRules,
    parse_cache: ParseCache,
    manifests: ManifestCache | None,
) -> Preparation:
    """Return cached results, and parse the other files."""
    contents = look_up_contents(
        sources, manifests, parse_cache, NO_QUARANTINE, rules.limits, rules.skip
    )
    for number, content in contents.unparsed.items():
        cut = (
            recursive_chunker.chunk_ranges if rules.limits.chunker == "recursive" else chunk_ranges
        )
        path, data = sources[number].path, sources[number].data
        parsed_file, cacheable = parse_file(
            path, content.language, data, rules.limits, rules.overrides, cut
        )
        parse_cache.put(content.key, pack_parsed_file(parsed_file) if cacheable else None)
        contents.parsed_files[content.key] = parsed_file
    return contents


def extracted_here(
    sources: Sequence[SourceFile], rules: RowRules, parse_cache: ParseCache
) -> list[FileExtract]:
    return extract_files(sources, parsed_here(sources, rules, parse_cache, None), nothing)


def differing_here(
    sources: Sequence[SourceFile],
    stored: Sequence[StoredFile],
    rules: RowRules,
    parse_cache: ParseCache,
    manifests: ManifestCache,
) -> list[FileExtract]:
    return extract_new_chunks(
        sources, stored, manifests, nothing, parsed_here(sources, rules, parse_cache, manifests)
    )


def nothing() -> None:
    pass
