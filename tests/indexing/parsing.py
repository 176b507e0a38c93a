"""Parsing without parser processes, for tests of what comes before and after it.

The processes have tests of their own, and start in a tenth of a second each: too much for each
maker of these tests.
"""

import asyncio
from collections.abc import Sequence

from cocosearchd.indexing.pipeline import recursive_chunker
from cocosearchd.indexing.pipeline.chunker import Limits, ranges
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.indexing.pipeline.manifest_cache import ManifestCache
from cocosearchd.indexing.pipeline.parse_cache import ParseCache
from cocosearchd.indexing.pipeline.parse_result import outlined, packed_outline
from cocosearchd.indexing.pool.boxed_parser import BoxedParser, ParseTask, Pause, parser_pool
from cocosearchd.indexing.pool.parse_task import ParseRequest, ParseResult
from cocosearchd.indexing.pool.quarantine import Quarantine
from cocosearchd.indexing.worker.known_contents import Preparation, prepare
from cocosearchd.indexing.worker.row_maker import FileExtract, RowRules, differing, extracts
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.store.chunks.manifest import StoredFile

NO_QUARANTINE = Quarantine(None)


class ParserHere(BoxedParser):
    """Parses in the process of the test."""

    def __init__(self, limits: Limits, overrides: QueryOverrides = ()) -> None:
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
        recursive_chunker.ranges if shape.limits.chunker == "recursive" else ranges,
    )
    outline, lasting = outlined(
        file.path, file.language, file.data, shape.limits, shape.overrides, cut
    )
    return ParseResult(outline, packed_outline(outline) if lasting else None)


def parsed_here(
    sources: Sequence[SourceFile],
    rules: RowRules,
    outlines: ParseCache,
    sheets: ManifestCache | None,
) -> Preparation:
    """What is known of files, and of the others what parsing finds."""
    found = prepare(sources, sheets, outlines, NO_QUARANTINE, rules.limits, rules.skipping)
    for number, content in found.unparsed.items():
        cut = recursive_chunker.ranges if rules.limits.chunker == "recursive" else ranges
        path, data = sources[number].path, sources[number].data
        outline, lasting = outlined(
            path, content.language, data, rules.limits, rules.overrides, cut
        )
        outlines.take(content.key, packed_outline(outline) if lasting else None)
        found.outlines[content.key] = outline
    return found


def extracted_here(
    sources: Sequence[SourceFile], rules: RowRules, outlines: ParseCache
) -> list[FileExtract]:
    return extracts(sources, parsed_here(sources, rules, outlines, None), nothing)


def differing_here(
    sources: Sequence[SourceFile],
    stored: Sequence[StoredFile],
    rules: RowRules,
    outlines: ParseCache,
    sheets: ManifestCache,
) -> list[FileExtract]:
    return differing(
        sources, stored, sheets, nothing, parsed_here(sources, rules, outlines, sheets)
    )


def nothing() -> None:
    pass
