"""Makes the rows of many files at a time: parses, chunks, describes and embeds them.

One cache lookup and one thread call serve all files: separate calls were most of the cost of a file
with a cached manifest. If the stored chunks are given, only chunks that are not stored are described
and embedded. New contents are parsed in other processes, never in this one: by the bulk pool if it
has workers, else by parser processes.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cocosearch_ipc.spans import span
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.caching import CachingEmbedder, ReuseCounters
from cocosearchd.errors import EmbedderUnavailable
from cocosearchd.indexing.indexer.index_threads import IndexThreads
from cocosearchd.indexing.indexer.known_contents import (
    Preparation,
    UnknownContent,
    look_up_contents,
)
from cocosearchd.indexing.indexer.work_priority import WorkPriority
from cocosearchd.indexing.pipeline.chunker import ChunkLimits, chunk_keywords
from cocosearchd.indexing.pipeline.content_keys import ContentKeys
from cocosearchd.indexing.pipeline.embedding_text import build_embedding_texts
from cocosearchd.indexing.pipeline.file_manifest import (
    FileManifest,
    build_file_manifest,
    unpack_manifest,
)
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.indexing.pipeline.manifest_cache import ManifestCache
from cocosearchd.indexing.pipeline.parse_result import ParsedFile
from cocosearchd.indexing.pipeline.skip_rules import SkipRules
from cocosearchd.indexing.pool.boxed_parser import BoxedParser, ParseTask
from cocosearchd.indexing.pool.bulk_messages import (
    MAX_BULK_FILE_BYTES,
    TaskInput,
    TaskRequest,
    TaskResult,
)
from cocosearchd.indexing.pool.bulk_pool import SUSPECT, BulkPool
from cocosearchd.indexing.pool.parse_task import ParseFile, ParseResult
from cocosearchd.indexing.pool.quarantine import is_quarantined
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.model import (
    NO_CODE,
    Chunk,
    IndexIdentity,
    PackedCode,
    ParseReport,
    SkipReason,
)
from cocosearchd.store.chunks.manifest import (
    ManifestDiff,
    StoredFile,
    compare_manifest,
    stored_chunk_order,
)
from cocosearchd.store.chunks.rows import FileWrite

# Texts of several files go to the embedder together. A provider may cut this batch further, by its own
# settings. The built-in provider blocks the event loop for about 5 ms for this many texts.
BATCH_TEXTS = 64
# A saved file of at most this size is cut on the event loop, usually in a millisecond: a thread would
# cost as much. One with a definition in each line took 10 ms.
MAX_BYTES_ON_LOOP = 16 << 10
NOT_PARSED_REPORT = ParseReport("no_grammar")

Vectors = NDArray[np.float32]
Float16Vectors = NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class RowRules:
    """All inputs that shape the rows of an index, except the files."""

    index: int  # the index's number
    identity: IndexIdentity
    limits: ChunkLimits
    overrides: QueryOverrides
    languages: tuple[tuple[str, str], ...]  # `row_shape.digest_languages`
    skip: SkipRules

    def digest(self, embedder: Embedder) -> bytes:
        """Digest the rules with an embedder: equal digests make equal rows, in every process."""
        text = f"{self!r} {embedder.fingerprint.digest()}"
        return hashlib.blake2b(text.encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class FileExtract:
    """A file before its texts are embedded."""

    language: str
    chunks: tuple[Chunk, ...]
    report: ParseReport
    skip_reason: SkipReason | None = None
    code: PackedCode = NO_CODE
    # with a diff, `chunks` has only the chunks that are not stored
    diff: ManifestDiff | None = None
    task_result: TaskResult | None = None  # of a bulk worker: vectors of `chunks`


class RowMaker:
    """Makes the rows of files by the rules of one index."""

    def __init__(
        self,
        rules: RowRules,
        embedder: Embedder,
        keys: ContentKeys,
        manifests: ManifestCache,
        counters: ReuseCounters,
        work_priority: WorkPriority,
        threads: IndexThreads,
        parser: BoxedParser,
        bulk_pool: BulkPool | None = None,
    ) -> None:
        self._rules = rules
        self.rules_digest = rules.digest(embedder)
        self._embedder = embedder
        self._keys = keys
        self._manifests = manifests
        self._counters = counters
        self._work_priority = work_priority
        self._threads = threads
        self._parser = parser
        # the recursive chunker needs CocoIndex, which bulk workers never load
        self._bulk_pool = bulk_pool if rules.limits.chunker != "recursive" else None
        self._embedder_pairs = embedder.fingerprint.pairs()
        # Bulk workers have only the built-in model.
        self._bulk_embedder_pairs = (
            self._embedder_pairs if embedder.fingerprint.provider == "builtin" else ()
        )
        self._dimension = embedder.fingerprint.dimension

    async def __call__(
        self, sources: Sequence[SourceFile], stored: Sequence[StoredFile] | None, *, urgent: bool
    ) -> list[FileWrite | EmbedderUnavailable]:
        """Return for each file the rows to write, or the embedder's error. Parsing never fails.

        Without `stored`, the rows of all chunks are made.
        """
        manifests = None if stored is None else self._manifests
        with span("index.parse", files=len(sources)):
            preparing = partial(
                look_up_contents,
                sources,
                manifests,
                self._keys,
                self._parser.quarantine,
                self._rules.limits,
                self._rules.skip,
            )
            preparation = await self._threads.run_in_thread(preparing, urgent=urgent)
            results = dict[int, TaskResult]()
            if stored is not None and self._bulk_pool:
                results = await self._run_bulk_pool(sources, stored, preparation, self._bulk_pool)
            await self._parse(sources, preparation, urgent=urgent)
            extracts = await self._extract(sources, stored, preparation, results, urgent=urgent)
        self._manifests.flush_soon()
        with span("index.embed", chunks=sum(len(extract.chunks) for extract in extracts)):
            files = list(zip(sources, extracts, strict=True))
            writes = list[FileWrite | EmbedderUnavailable]()
            for batch in split_embedding_batches(files):
                if not urgent:
                    # lets the event loop notice urgent work
                    await asyncio.sleep(0)
                    await self._work_priority.pause()
                writes += await self._embed_files(batch)
        return writes

    async def _extract(
        self,
        sources: Sequence[SourceFile],
        stored: Sequence[StoredFile] | None,
        preparation: Preparation,
        results: Mapping[int, TaskResult],
        *,
        urgent: bool,
    ) -> Sequence[FileExtract]:
        """Cut the parsed files into chunks; with `stored`, only into chunks that are not stored."""
        pause = (lambda: None) if urgent else self._work_priority.pause_thread
        if stored is None:
            extract = partial(extract_files, sources, preparation, pause)
            if urgent and sum(len(source.data) for source in sources) <= MAX_BYTES_ON_LOOP:
                return extract()
        else:
            extract = partial(
                extract_with_results,
                sources,
                stored,
                self._manifests,
                pause,
                preparation,
                results,
            )
        return await self._threads.run_in_thread(extract, urgent=urgent)

    async def _run_bulk_pool(
        self,
        sources: Sequence[SourceFile],
        stored: Sequence[StoredFile],
        preparation: Preparation,
        bulk_pool: BulkPool,
    ) -> dict[int, TaskResult]:
        """Return the bulk workers' results by file number. Add their manifests to `preparation`.

        Suspect files are parsed alone, before any other process gets them again. A parser process
        parses contents that several files share, and its result serves all these files.
        """
        repeated = preparation.repeated
        numbers = [
            number
            for number, content in preparation.unparsed.items()
            if content.key not in repeated and len(sources[number].data) <= MAX_BULK_FILE_BYTES
        ]
        files = [
            make_task_input(sources[number], preparation.contents[number].language, stored[number])
            for number in numbers
        ]
        request = TaskRequest(
            self._rules.limits, self._rules.overrides, self._bulk_embedder_pairs, ()
        )
        outcomes = await bulk_pool.process(request, files, self._work_priority.pause)
        task_results = {
            number: outcome
            for number, outcome in zip(numbers, outcomes, strict=True)
            if isinstance(outcome, TaskResult)
        }
        accepting = partial(accept_results, sources, preparation, task_results, self._manifests)
        task_results = await self._threads.run_in_thread(accepting, urgent=False)
        self._counters.parsed += len(task_results)
        suspects = {
            number: preparation.contents[number]
            for number, outcome in zip(numbers, outcomes, strict=True)
            if outcome is SUSPECT
        }
        if suspects:
            await self._parse_suspects(sources, preparation, suspects, bulk_pool)
        return task_results

    async def _parse_suspects(
        self,
        sources: Sequence[SourceFile],
        preparation: Preparation,
        suspects: Mapping[int, UnknownContent],
        bulk_pool: BulkPool,
    ) -> None:
        """Parse files that may have ended a bulk worker, each alone, and add their parsed files."""
        results = await self._parser.parse_suspects(
            make_parse_tasks(sources, suspects), self._work_priority.pause
        )
        for number, result in zip(suspects, results, strict=True):
            self._add_parsed_file(preparation, number, result)
        if any(is_quarantined(result.parsed_file.report) for result in results):
            bulk_pool.forgive_failure()

    async def _parse(
        self, sources: Sequence[SourceFile], preparation: Preparation, *, urgent: bool
    ) -> None:
        """Parse the files without a manifest, and add their parsed files.

        Raises `WorkerUnavailable`.
        """
        unparsed = preparation.unparsed
        tasks = make_parse_tasks(sources, unparsed)
        if urgent:
            results = await asyncio.gather(*map(self._parser.parse_save, tasks))
        else:
            results = await self._parser.parse(tasks, self._work_priority.pause)
        for number, result in zip(unparsed, results, strict=True):
            self._add_parsed_file(preparation, number, result)

    def _add_parsed_file(self, preparation: Preparation, number: int, result: ParseResult) -> None:
        key = preparation.contents[number].key
        preparation.parsed_files[key] = result.parsed_file
        if not result.cacheable:
            preparation.uncacheable.add(key)
        self._counters.parsed += 1

    async def _embed_files(
        self, files: Sequence[tuple[SourceFile, FileExtract]]
    ) -> Sequence[FileWrite | EmbedderUnavailable]:
        worker_vectors = [
            self._read_and_cache_vectors(source, extract) for source, extract in files
        ]
        missing = [
            text
            for (source, extract), vectors in zip(files, worker_vectors, strict=True)
            if vectors is None
            for text in self._make_texts(source, extract)
        ]
        new_vectors = await self._embed_texts(missing)
        writes = list[FileWrite | EmbedderUnavailable]()
        first = 0
        for (source, extract), vectors in zip(files, worker_vectors, strict=True):
            count = len(extract.chunks)
            if vectors is not None:
                writes.append(self._write(source, extract, vectors))
            elif isinstance(new_vectors, EmbedderUnavailable):
                # other files of the batch may need no vector
                writes.append(new_vectors if count else self._write_without_chunks(source, extract))
            else:
                file_vectors = new_vectors[first : first + count]
                writes.append(self._write(source, extract, file_vectors))
                first += count
        return writes

    def _write_without_chunks(self, source: SourceFile, extract: FileExtract) -> FileWrite:
        return self._write(source, extract, np.empty((0, self._dimension), np.float32))

    def _write(
        self, source: SourceFile, extract: FileExtract, vectors: Vectors | Float16Vectors
    ) -> FileWrite:
        return make_file_write(source, extract, vectors, self.rules_digest)

    async def _embed_texts(self, texts: Sequence[str]) -> Vectors | EmbedderUnavailable:
        """Return the vectors of texts, or the embedder's error."""
        if not texts:
            return np.empty((0, self._dimension), np.float32)
        try:
            return await self._embedder.embed_documents(texts)
        except EmbedderUnavailable as error:
            return error

    def _read_and_cache_vectors(
        self, source: SourceFile, extract: FileExtract
    ) -> Float16Vectors | None:
        """Return a bulk worker's vectors of an extract, or None. Add them to the cache."""
        result = extract.task_result
        count = len(extract.chunks)
        if result is None or len(result.vectors) != count * self._dimension * 2:
            return None
        vectors = np.frombuffer(result.vectors, np.float16).reshape(count, self._dimension)
        if isinstance(self._embedder, CachingEmbedder):
            self._embedder.add_vectors(partial(self._make_texts, source, extract), vectors)
        return vectors

    def _make_texts(self, source: SourceFile, extract: FileExtract) -> Sequence[str]:
        return build_embedding_texts(source.path, extract.chunks, self._embedder_pairs)


def make_task_input(source: SourceFile, language: str, stored: StoredFile) -> TaskInput:
    """Return a file as the input of a bulk worker."""
    return TaskInput(source.path, language, source.data, stored.chunks)


def split_embedding_batches(
    files: Sequence[tuple[SourceFile, FileExtract]],
) -> Iterator[Sequence[tuple[SourceFile, FileExtract]]]:
    """Split files in order into batches of about `BATCH_TEXTS` chunks. An error fails one batch."""
    first = 0
    texts = 0
    for number, (_, extract) in enumerate(files):
        texts += len(extract.chunks)
        if texts >= BATCH_TEXTS or number + 1 == len(files):
            yield files[first : number + 1]
            first = number + 1
            texts = 0


def make_parse_tasks(
    sources: Sequence[SourceFile], contents: Mapping[int, UnknownContent]
) -> list[ParseTask]:
    """Return the tasks of a parser process for the file numbers of `contents`."""
    return [
        ParseTask(
            ParseFile(sources[number].path, content.language, sources[number].data), content.key
        )
        for number, content in contents.items()
    ]


def accept_results(
    sources: Sequence[SourceFile],
    preparation: Preparation,
    results: Mapping[int, TaskResult],
    manifests: ManifestCache,
) -> dict[int, TaskResult]:
    """Add the bulk workers' manifests to `preparation` and the cache. Return the readable results.

    A parser process parses the files with unreadable results. Blocking: call it in a thread.
    """
    readable = dict[int, TaskResult]()
    for number, result in results.items():
        manifest = unpack_manifest(result.manifest)
        if manifest is not None:
            readable[number] = result
            preparation.manifests[number] = manifest
            del preparation.contents[number]
    manifests.put_packed(
        (sources[number], result.manifest)
        for number, result in readable.items()
        if result.cacheable
    )
    return readable


def extract_files(
    sources: Sequence[SourceFile], preparation: Preparation, pause: Callable[[], None]
) -> list[FileExtract]:
    """Cut the files without a cached manifest into chunks, in the order of `preparation.contents`.

    The time grows with the size of the files: call it in a thread, unless they are small. `pause` is
    called before each file.
    """
    extracts = list[FileExtract]()
    for number, content in preparation.contents.items():
        pause()
        if content.skip is not None:
            extracts.append(FileExtract(content.language, (), NOT_PARSED_REPORT, content.skip))
        else:
            extracts.append(
                extract_file(
                    sources[number], content.language, preparation.parsed_files[content.key]
                )
            )
    return extracts


def extract_new_chunks(
    sources: Sequence[SourceFile],
    stored: Sequence[StoredFile],
    manifests: ManifestCache,
    pause: Callable[[], None],
    preparation: Preparation,
) -> list[FileExtract]:
    """Extract all files, each with only the chunks that are not stored. See `extract_files`."""
    extracts = extract_files(sources, preparation, pause)
    new_manifests = [
        build_file_manifest(
            extract.chunks,
            extract.language,
            extract.report,
            extract.code,
            extract.skip_reason,
        )
        for extract in extracts
    ]
    manifests.put(
        (sources[number], manifest)
        for (number, content), manifest in zip(
            preparation.contents.items(), new_manifests, strict=True
        )
        if content.key not in preparation.uncacheable
    )
    without_manifest = iter(zip(extracts, new_manifests, strict=True))
    reduced = list[FileExtract]()
    for source, row, manifest in zip(sources, stored, preparation.manifests, strict=True):
        pause()
        reduced.append(
            _select_new_chunks(source, *next(without_manifest), row)
            if manifest is None
            else _extract_from_manifest(source, row, manifest)
        )
    return reduced


def extract_with_results(
    sources: Sequence[SourceFile],
    stored: Sequence[StoredFile],
    manifests: ManifestCache,
    pause: Callable[[], None],
    preparation: Preparation,
    results: Mapping[int, TaskResult],
) -> list[FileExtract]:
    """Extract new chunks, with the bulk workers' results by file number."""
    extracts = extract_new_chunks(sources, stored, manifests, pause, preparation)
    for number, result in results.items():
        if result.new_chunks == len(extracts[number].chunks):
            extracts[number] = replace(extracts[number], task_result=result)
    return extracts


def _extract_from_manifest(
    source: SourceFile, row: StoredFile, manifest: FileManifest
) -> FileExtract:
    diff = compare_manifest(manifest.chunk_manifest, row, source.content_hash, retain=True)
    chunks = manifest.chunks(diff.new, source.data)
    return FileExtract(
        manifest.language,
        chunks,
        manifest.report,
        skip_reason=manifest.skip,
        code=manifest.code,
        diff=diff,
    )


def _select_new_chunks(
    source: SourceFile, extract: FileExtract, manifest: FileManifest, row: StoredFile
) -> FileExtract:
    """Reduce an extract to the chunks that are not stored. No chunk is cut out again."""
    diff = compare_manifest(manifest.chunk_manifest, row, source.content_hash, retain=True)
    order = stored_chunk_order(extract.chunks)
    chunks = tuple(extract.chunks[order[position]] for position in diff.new)
    return replace(extract, chunks=chunks, diff=diff)


def extract_file(source: SourceFile, language: str, parsed_file: ParsedFile) -> FileExtract:
    """Cut a file with a parse result into chunks."""
    chunks = parsed_file.chunks(source.path, language, source.data)
    return FileExtract(
        language,
        chunks,
        parsed_file.report,
        code=pack_code(parsed_file.symbols, parsed_file.facts),
    )


def make_file_write(
    source: SourceFile,
    extract: FileExtract,
    vectors: Vectors | Float16Vectors,
    rules_digest: bytes | None = None,
) -> FileWrite:
    """Return the rows to write. `vectors` has shape (number of chunks, dimension)."""
    return FileWrite(
        path=source.path,
        content_hash=source.content_hash,
        fingerprint=source.fingerprint,
        language=extract.language,
        chunks=extract.chunks,
        vectors=vectors,
        report=extract.report,
        keywords=chunk_keywords,
        skip_reason=extract.skip_reason,
        code=extract.code,
        diff=extract.diff,
        rules_digest=rules_digest,
    )
