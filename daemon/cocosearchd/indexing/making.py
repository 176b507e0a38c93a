"""Makes what is stored of files, many at a time: parsed, cut, described and embedded.

What is known of a content or of a text is looked up for all of them at once, and a thread is handed all of them at
once: for a file whose content is known, that was most of the cost. Where it is known what is stored of them, only
chunks that are not are described and embedded.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cocosearch_ipc.spans import span
from cocosearchd.embedding.base import Embedder
from cocosearchd.errors import EmbedderUnavailable
from cocosearchd.indexing.chunk import Limits, describe, keywords
from cocosearchd.indexing.outlines import Outline, Outlines
from cocosearchd.indexing.precedence import Precedence
from cocosearchd.indexing.read import SourceFile, is_secret
from cocosearchd.indexing.shaping import embedded_texts
from cocosearchd.indexing.sheets import FileSheet, Sheets, file_sheet
from cocosearchd.indexing.threads import Threads
from cocosearchd.languages import detect, scopes
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.model import Chunk, IndexIdentity, ParseReport, SkipReason
from cocosearchd.store.queries import FileWrite
from cocosearchd.store.sheets import Compared, StoredFile, compared, placed

# Texts of several files go to the embedder together; a provider cuts further as its own settings say. The built-in one
# holds the event loop meanwhile, some 5 ms for so many.
BATCH_TEXTS = 64
NOT_PARSED = ParseReport("no_grammar")

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Rules:
    """All that shapes the rows of an index apart from the files themselves."""

    index: int  # the index's number
    identity: IndexIdentity
    limits: Limits
    overrides: QueryOverrides
    queries: tuple[tuple[str, str], ...]  # what finds symbols, as `shaping.query_notes` has it
    max_file_bytes: int
    index_secrets: bool
    any_type: bool  # files were named by the user: those of an unknown language are plain text


@dataclass(frozen=True, slots=True)
class Extract:
    """What is known of a file before its texts are vectors."""

    language: str
    chunks: tuple[Chunk, ...]
    report: ParseReport
    skip: SkipReason | None = None
    scopes: bytes | None = None
    compared: Compared | None = None  # then `chunks` are those that are not stored


class Maker:
    """Makes files by the rules of one index."""

    def __init__(
        self, rules: Rules, embedder: Embedder, outlines: Outlines, precedence: Precedence, threads: Threads
    ) -> None:
        self._rules, self._embedder, self._outlines = rules, embedder, outlines
        self._sheets = Sheets(outlines.made_by + repr(replace(rules, index=0)).encode(), outlines.kept)
        self._precedence, self._threads = precedence, threads
        self._made_by = embedder.fingerprint.pairs()
        self._dimension = embedder.fingerprint.dimension

    async def __call__(
        self, sources: Sequence[SourceFile], stored: Sequence[StoredFile] | None, *, urgent: bool
    ) -> list[FileWrite | EmbedderUnavailable]:
        """What is to be stored of each file, or why that is not known. Parsing never fails.

        Without what is `stored` of the files all of their chunks are made.
        """
        turn = (lambda: None) if urgent else self._precedence.pause_thread
        with span("index.parse", files=len(sources)):
            whole = partial(extracts, rules=self._rules, outlines=self._outlines, turn=turn)
            work = partial(whole, sources)
            if stored is not None:
                work = partial(differing, sources, stored, self._sheets, whole, turn)
            found = await self._threads.apart(work, urgent=urgent)
        self._outlines.written_soon()
        with span("index.embed", chunks=sum(len(one.chunks) for one in found)):
            files, made = list(zip(sources, found, strict=True)), list[FileWrite | EmbedderUnavailable]()
            for some in batches(files):
                if not urgent:
                    await asyncio.sleep(0)  # what is urgent may have come, and is not heard of otherwise
                    await self._precedence.pause()
                made += await self._embedded(some)
        return made

    async def _embedded(self, files: Sequence[tuple[SourceFile, Extract]]) -> Sequence[FileWrite | EmbedderUnavailable]:
        texts = [text for source, one in files for text in embedded_texts(source.path, one.chunks, self._made_by)]
        vectors = np.empty((0, self._dimension), np.float32)
        if texts:
            try:
                vectors = await self._embedder.embed_documents(texts)
            except EmbedderUnavailable as error:
                return [error] * len(files)
        ends = np.cumsum([len(one.chunks) for _, one in files])
        parts = np.split(vectors, ends[:-1])
        return [file_write(source, one, part) for (source, one), part in zip(files, parts, strict=True)]


def batches(files: Sequence[tuple[SourceFile, Extract]]) -> Iterator[Sequence[tuple[SourceFile, Extract]]]:
    """The files in order, in parts of about `BATCH_TEXTS` chunks; what cannot be embedded fails for one part."""
    first, texts = 0, 0
    for number, (_, one) in enumerate(files):
        texts += len(one.chunks)
        if texts >= BATCH_TEXTS or number + 1 == len(files):
            yield files[first : number + 1]
            first, texts = number + 1, 0


def extracts(
    sources: Sequence[SourceFile], rules: Rules, outlines: Outlines, turn: Callable[[], None]
) -> list[Extract]:
    """The files cut into chunks, or why they are not. As long as the files are large: call it in a thread.

    `turn` is called before each file.
    """
    languages = [detect.detect(source.path, source.data[: detect.HEAD_BYTES]) for source in sources]
    files = list(zip(sources, languages, strict=True))
    skips = [skipped(source, language, rules) for source, language in files]
    found = outlines.of([file for file, skip in zip(files, skips, strict=True) if skip is None], turn)
    return [
        extract(source, language, next(found)) if skip is None else Extract(language, (), NOT_PARSED, skip)
        for (source, language), skip in zip(files, skips, strict=True)
    ]


def differing(
    sources: Sequence[SourceFile],
    stored: Sequence[StoredFile],
    sheets: Sheets,
    whole: Callable[[Sequence[SourceFile]], Sequence[Extract]],
    turn: Callable[[], None],
) -> list[Extract]:
    """As `extracts`, with those chunks only that are not stored; `whole` makes files that no sheet is known of."""
    known = sheets.known(sources)
    missing = [source for source, sheet in zip(sources, known, strict=True) if sheet is None]
    made = whole(missing)
    fresh = [file_sheet(one.chunks, one.language, one.report, one.scopes, one.skip) for one in made]
    sheets.keep(zip(missing, fresh, strict=True))
    new, found = iter(zip(made, fresh, strict=True)), list[Extract]()
    for source, row, sheet in zip(sources, stored, known, strict=True):
        turn()
        found.append(_of_sheet(source, row, sheet) if sheet is not None else _of_extract(*next(new), row))
    return found


def _of_sheet(source: SourceFile, row: StoredFile, known: FileSheet) -> Extract:
    found = compared(known.sheet, row)
    chunks = known.chunks(found.new, source.data)
    return Extract(known.language, chunks, known.report, known.skip, known.scopes, found)


def _of_extract(one: Extract, made: FileSheet, row: StoredFile) -> Extract:
    """Of a file whose chunks are at hand: none is cut out again."""
    found, order = compared(made.sheet, row), placed(one.chunks)
    return replace(one, chunks=tuple(one.chunks[order[place]] for place in found.new), compared=found)


def skipped(source: SourceFile, language: str, rules: Rules) -> SkipReason | None:
    """Why a file is not worth a parser, or shall not be looked into."""
    skip = source.skip or detect.skip_reason(source.data, rules.max_file_bytes)
    if skip is None and not rules.index_secrets and is_secret(source.data):
        return "secret"
    return "unsupported" if skip is None and not language and not rules.any_type else skip


def extract(source: SourceFile, language: str, outline: Outline) -> Extract:
    """The chunks of a file whose outline is known."""
    chunks = describe(outline.of(source.path, language, source.data), outline.ranges)
    return Extract(language, chunks, outline.report, scopes=scopes.pack(outline.symbols))


def file_write(source: SourceFile, extract: Extract, vectors: Vectors) -> FileWrite:
    """What is stored. `vectors` has shape (number of chunks, dimension)."""
    return FileWrite(
        path=source.path,
        content_hash=source.content_hash,
        fingerprint=source.fingerprint,
        language=extract.language,
        chunks=extract.chunks,
        vectors=vectors,
        report=extract.report,
        keywords=keywords,
        skip_reason=extract.skip,
        scopes=extract.scopes,
        compared=extract.compared,
    )
