"""Makes what is stored of files, many at a time: parsed, cut, described and embedded.

What is known of a content or of a text is looked up for all of them at once, and a thread is handed
all of them at once: for a file whose content is known, that was most of the cost. Where it is known
what is stored of them, only chunks that are not are described and embedded. What nobody knows is
parsed in other processes, never in this one: by the crew, where there is one, else by the parser
processes.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cocosearch_ipc.spans import span
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.caching import CachingEmbedder
from cocosearchd.errors import EmbedderUnavailable
from cocosearchd.indexing.pipeline.chunker import Limits, chunk_keywords
from cocosearchd.indexing.pipeline.embedding_text import build_embedding_texts
from cocosearchd.indexing.pipeline.file_manifest import (
    FileManifest,
    build_file_manifest,
    unpack_manifest,
)
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.indexing.pipeline.manifest_cache import ManifestCache
from cocosearchd.indexing.pipeline.parse_cache import ParseCache
from cocosearchd.indexing.pipeline.parse_result import ParsedFile, unpack_parsed_file
from cocosearchd.indexing.pool.boxed_parser import BoxedParser, ParseTask
from cocosearchd.indexing.pool.bulk_messages import (
    LARGEST_FILE_BYTES,
    TaskInput,
    TaskRequest,
    TaskResult,
)
from cocosearchd.indexing.pool.bulk_pool import SUSPECT, BulkPool
from cocosearchd.indexing.pool.parse_task import ParseFile, ParseResult
from cocosearchd.indexing.pool.quarantine import is_quarantined
from cocosearchd.indexing.worker.index_threads import IndexThreads
from cocosearchd.indexing.worker.known_contents import (
    Preparation,
    SkipRules,
    UnknownContent,
    look_up_contents,
)
from cocosearchd.indexing.worker.work_priority import WorkPriority
from cocosearchd.languages import scopes
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.model import Chunk, IndexIdentity, ParseReport, SkipReason
from cocosearchd.store.chunks.manifest import (
    ManifestDiff,
    StoredFile,
    compare_manifest,
    stored_chunk_order,
)
from cocosearchd.store.chunks.queries import FileWrite

# Texts of several files go to the embedder together; a provider cuts further as its own settings
# say. The built-in one holds the event loop meanwhile, some 5 ms for so many.
BATCH_TEXTS = 64
NOT_PARSED_REPORT = ParseReport("no_grammar")

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RowRules:
    """All that shapes the rows of an index apart from the files themselves."""

    index: int  # the index's number
    identity: IndexIdentity
    limits: Limits
    overrides: QueryOverrides
    queries: tuple[tuple[str, str], ...]  # what finds symbols, as `shaping.query_notes` has it
    max_file_bytes: int
    index_secrets: bool
    any_type: bool  # files were named by the user: those of an unknown language are plain text

    @property
    def skip_rules(self) -> SkipRules:
        """Those of them that decide which files are looked into."""
        return SkipRules(self.max_file_bytes, self.index_secrets, self.any_type)


@dataclass(frozen=True, slots=True)
class FileExtract:
    """What is known of a file before its texts are vectors."""

    language: str
    chunks: tuple[Chunk, ...]
    report: ParseReport
    skip: SkipReason | None = None
    scopes: bytes | None = None
    # then `chunks` are those that are not stored, and others go aside
    diff: ManifestDiff | None = None
    task_result: TaskResult | None = None  # then the words and vectors of `chunks` are known


class RowMaker:
    """Makes files by the rules of one index."""

    def __init__(
        self,
        rules: RowRules,
        embedder: Embedder,
        outlines: ParseCache,
        work_priority: WorkPriority,
        threads: IndexThreads,
        parser: BoxedParser,
        crew: BulkPool | None = None,
    ) -> None:
        self._rules, self._embedder, self._outlines = rules, embedder, outlines
        self._sheets = ManifestCache(
            outlines.code_digest + repr(replace(rules, index=0)).encode(), outlines.disk_cache
        )
        self._work_priority, self._threads = work_priority, threads
        self._parser = parser
        # that is CocoIndex's, which it never loads
        self._crew = crew if rules.limits.chunker != "recursive" else None
        self._made_by = embedder.fingerprint.pairs()
        # The crew has the built-in model, and no other one.
        self._embedded_by = self._made_by if embedder.fingerprint.provider == "builtin" else ()
        self._dimension = embedder.fingerprint.dimension

    async def __call__(
        self, sources: Sequence[SourceFile], stored: Sequence[StoredFile] | None, *, urgent: bool
    ) -> list[FileWrite | EmbedderUnavailable]:
        """What is to be stored of each file, or why that is not known. Parsing never fails.

        Without what is `stored` of the files all of their chunks are made.
        """
        sheets = None if stored is None else self._sheets
        turn = (lambda: None) if urgent else self._work_priority.pause_thread
        with span("index.parse", files=len(sources)):
            preparing = partial(
                look_up_contents,
                sources,
                sheets,
                self._outlines,
                self._parser.quarantine,
                self._rules.limits,
                self._rules.skip_rules,
            )
            known = await self._threads.run_in_thread(preparing, urgent=urgent)
            made = dict[int, TaskResult]()
            if stored is not None and self._crew:
                made = await self._made_by_crew(sources, stored, known, self._crew)
            await self._parse(sources, known, urgent=urgent)
            extracting = partial(extract_files, sources, known, turn)
            if stored is not None:
                extracting = partial(
                    extract_with_results, sources, stored, self._sheets, turn, known, made
                )
            found = await self._threads.run_in_thread(extracting, urgent=urgent)
        self._outlines.flush_soon()
        with span("index.embed", chunks=sum(len(one.chunks) for one in found)):
            files, writes = (
                list(zip(sources, found, strict=True)),
                list[FileWrite | EmbedderUnavailable](),
            )
            for some in split_embedding_batches(files):
                if not urgent:
                    # what is urgent may have come, and is not heard of otherwise
                    await asyncio.sleep(0)
                    await self._work_priority.pause()
                writes += await self._embedded(some)
        return writes

    async def _made_by_crew(
        self,
        sources: Sequence[SourceFile],
        stored: Sequence[StoredFile],
        known: Preparation,
        crew: BulkPool,
    ) -> dict[int, TaskResult]:
        """Return what the crew makes of files, by number, and add their outlines to what is known.

        Files that a mate had in hand when it ended are parsed alone, before any process touches
        them again.
        """
        numbers = [
            number for number in known.unparsed if len(sources[number].data) <= LARGEST_FILE_BYTES
        ]
        files = [
            make_task_input(sources[number], known.contents[number].language, stored[number])
            for number in numbers
        ]
        order = TaskRequest(self._rules.limits, self._rules.overrides, self._embedded_by, ())
        answers = dict(
            zip(numbers, await crew.process(order, files, self._work_priority.pause), strict=True)
        )
        made = {number: one for number, one in answers.items() if isinstance(one, TaskResult)}
        accepting = partial(accept_results, sources, known, made, self._outlines, self._sheets)
        made = await self._threads.run_in_thread(accepting, urgent=False)
        suspects = {
            number: known.contents[number] for number, one in answers.items() if one is SUSPECT
        }
        if suspects:
            results = await self._parser.parse_suspects(
                make_parse_tasks(sources, suspects), self._work_priority.pause
            )
            for number, result in zip(suspects, results, strict=True):
                self._take(known, number, result)
            if any(is_quarantined(result.parsed_file.report) for result in results):
                crew.forgive_failure()
        return made

    async def _parse(
        self, sources: Sequence[SourceFile], known: Preparation, *, urgent: bool
    ) -> None:
        """Have files parsed of which no outline is known, and add their outlines. Raises
        `WorkerUnavailable`.
        """
        unparsed = known.unparsed
        tasks = make_parse_tasks(sources, unparsed)
        if urgent:
            results = await asyncio.gather(*map(self._parser.parse_save, tasks))
        else:
            results = await self._parser.parse(tasks, self._work_priority.pause)
        for number, result in zip(unparsed, results, strict=True):
            self._take(known, number, result)

    def _take(self, known: Preparation, number: int, result: ParseResult) -> None:
        key = known.contents[number].key
        known.parsed_files[key] = result.parsed_file
        self._outlines.put(key, result.packed)

    async def _embedded(
        self, files: Sequence[tuple[SourceFile, FileExtract]]
    ) -> Sequence[FileWrite | EmbedderUnavailable]:
        texts = [
            build_embedding_texts(source.path, one.chunks, self._made_by) for source, one in files
        ]
        vectors = [self._halves(one, some) for (_, one), some in zip(files, texts, strict=True)]
        missing = [
            text
            for some, known in zip(texts, vectors, strict=True)
            if known is None
            for text in some
        ]
        made = await self._vectors(missing)
        writes, first = list[FileWrite | EmbedderUnavailable](), 0
        for (source, one), known in zip(files, vectors, strict=True):
            count = len(one.chunks) if known is None else 0
            if count and isinstance(made, EmbedderUnavailable):
                writes.append(made)  # others of the batch need no vector
                continue
            fresh = np.empty((0, self._dimension), np.float32)
            if not isinstance(made, EmbedderUnavailable):
                fresh = made[first : first + count]
            writes.append(make_file_write(source, one, fresh if known is None else known))
            first += count
        return writes

    async def _vectors(self, texts: Sequence[str]) -> Vectors | EmbedderUnavailable:
        """The vectors of texts, or why there are none."""
        if not texts:
            return np.empty((0, self._dimension), np.float32)
        try:
            return await self._embedder.embed_documents(texts)
        except EmbedderUnavailable as error:
            return error

    def _halves(self, one: FileExtract, texts: Sequence[str]) -> Vectors | None:
        """The vectors of an extract as the crew made them, from halves; None where it made none."""
        if (
            one.task_result is None
            or len(one.task_result.vectors) != len(texts) * self._dimension * 2
        ):
            return None
        halves = np.frombuffer(one.task_result.vectors, np.float16).reshape(
            len(texts), self._dimension
        )
        if isinstance(self._embedder, CachingEmbedder):
            self._embedder.add_vectors(texts, halves)
        return halves.astype(np.float32)


def make_task_input(source: SourceFile, language: str, stored: StoredFile) -> TaskInput:
    """A file as the crew is asked to make it."""
    return TaskInput(source.path, language, source.data, stored.chunks)


def split_embedding_batches(
    files: Sequence[tuple[SourceFile, FileExtract]],
) -> Iterator[Sequence[tuple[SourceFile, FileExtract]]]:
    """The files in order, in parts of about `BATCH_TEXTS` chunks; what cannot be embedded fails for
    one part.
    """
    first, texts = 0, 0
    for number, (_, one) in enumerate(files):
        texts += len(one.chunks)
        if texts >= BATCH_TEXTS or number + 1 == len(files):
            yield files[first : number + 1]
            first, texts = number + 1, 0


def make_parse_tasks(
    sources: Sequence[SourceFile], contents: Mapping[int, UnknownContent]
) -> list[ParseTask]:
    """Return the files of some numbers as they are sent to a parser process."""
    return [
        ParseTask(
            ParseFile(sources[number].path, content.language, sources[number].data), content.key
        )
        for number, content in contents.items()
    ]


def accept_results(
    sources: Sequence[SourceFile],
    known: Preparation,
    made: Mapping[int, TaskResult],
    outlines: ParseCache,
    sheets: ManifestCache,
) -> dict[int, TaskResult]:
    """Add what the crew has made to what is known; return what of it can be read. Call it in a
    thread.
    """
    often = {
        key
        for key, count in Counter(content.key for content in known.contents.values()).items()
        if count > 1
    }
    readable = dict[int, TaskResult]()
    for number, one in made.items():
        sheet, key = unpack_manifest(one.manifest), known.contents[number].key
        outline = unpack_parsed_file(one.parsed_file) if key in often else None
        if sheet is None or (outline is None and key in often):
            continue  # a parser process makes it
        readable[number], known.manifests[number] = one, sheet
        del known.contents[number]
        if outline is not None:
            known.parsed_files[key] = outline
        outlines.put(key, one.parsed_file if one.cacheable else None)
        sheets.put_packed(sources[number], sheet, one.manifest)
    return readable


def extract_files(
    sources: Sequence[SourceFile], known: Preparation, turn: Callable[[], None]
) -> list[FileExtract]:
    """Cut files into chunks whose sheets are not known, or say why not; in the order of
    `known.contents`.

    As long as the files are large: call it in a thread. `turn` is called before each file.
    """
    found = list[FileExtract]()
    for number, content in known.contents.items():
        turn()
        if content.skip is not None:
            found.append(FileExtract(content.language, (), NOT_PARSED_REPORT, content.skip))
        else:
            found.append(
                extract_file(sources[number], content.language, known.parsed_files[content.key])
            )
    return found


def extract_new_chunks(
    sources: Sequence[SourceFile],
    stored: Sequence[StoredFile],
    sheets: ManifestCache,
    turn: Callable[[], None],
    known: Preparation,
) -> list[FileExtract]:
    """As `extract_files`, of all files, with those chunks only that are not stored."""
    made = extract_files(sources, known, turn)
    fresh = [
        build_file_manifest(one.chunks, one.language, one.report, one.scopes, one.skip)
        for one in made
    ]
    sheets.put(zip((sources[number] for number in known.contents), fresh, strict=True))
    new, found = iter(zip(made, fresh, strict=True)), list[FileExtract]()
    for source, row, sheet in zip(sources, stored, known.manifests, strict=True):
        turn()
        found.append(
            _of_extract(source, *next(new), row) if sheet is None else _of_sheet(source, row, sheet)
        )
    return found


def extract_with_results(
    sources: Sequence[SourceFile],
    stored: Sequence[StoredFile],
    sheets: ManifestCache,
    turn: Callable[[], None],
    known: Preparation,
    made: Mapping[int, TaskResult],
) -> list[FileExtract]:
    """As `extract_new_chunks`, with what the crew has `made`, by the number of the file."""
    found = extract_new_chunks(sources, stored, sheets, turn, known)
    for number, one in made.items():
        if len(one.keywords) == len(found[number].chunks):
            found[number] = replace(found[number], task_result=one)
    return found


def _words(chunks: Sequence[Chunk], made: TaskResult) -> Callable[[Chunk], str]:
    """The words that the crew made of chunks, by the byte where a chunk starts."""
    words = {chunk.start_byte: one for chunk, one in zip(chunks, made.keywords, strict=True)}
    return lambda chunk: words[chunk.start_byte]


def _of_sheet(source: SourceFile, row: StoredFile, known: FileManifest) -> FileExtract:
    found = compare_manifest(known.manifest, row, source.content_hash, retain=True)
    chunks = known.chunks(found.new, source.data)
    return FileExtract(known.language, chunks, known.report, known.skip, known.scopes, found)


def _of_extract(
    source: SourceFile, one: FileExtract, made: FileManifest, row: StoredFile
) -> FileExtract:
    """Of a file whose chunks are at hand: none is cut out again."""
    found, order = (
        compare_manifest(made.manifest, row, source.content_hash, retain=True),
        stored_chunk_order(one.chunks),
    )
    return replace(one, chunks=tuple(one.chunks[order[place]] for place in found.new), diff=found)


def extract_file(source: SourceFile, language: str, outline: ParsedFile) -> FileExtract:
    """The chunks of a file whose outline is known."""
    chunks = outline.chunks(source.path, language, source.data)
    return FileExtract(language, chunks, outline.report, scopes=scopes.pack(outline.symbols))


def make_file_write(source: SourceFile, extract: FileExtract, vectors: Vectors) -> FileWrite:
    """What is stored. `vectors` has shape (number of chunks, dimension)."""
    return FileWrite(
        path=source.path,
        content_hash=source.content_hash,
        fingerprint=source.fingerprint,
        language=extract.language,
        chunks=extract.chunks,
        vectors=vectors,
        report=extract.report,
        keywords=chunk_keywords
        if extract.task_result is None
        else _words(extract.chunks, extract.task_result),
        skip_reason=extract.skip,
        scopes=extract.scopes,
        diff=extract.diff,
    )
