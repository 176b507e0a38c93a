"""Makes what is stored of files, many at a time: parsed, cut, described and embedded.

What is known of a content or of a text is looked up for all of them at once, and a thread is handed all of them at
once: for a file whose content is known, that was most of the cost. Where it is known what is stored of them, only
chunks that are not are described and embedded. What nobody knows is made by the crew, where there is one.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cocosearch_ipc.spans import span
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.remembering import RememberingEmbedder
from cocosearchd.errors import EmbedderUnavailable
from cocosearchd.indexing.chunk import Limits, keywords
from cocosearchd.indexing.crew import Crew
from cocosearchd.indexing.outline import Outline
from cocosearchd.indexing.outlines import Outlines
from cocosearchd.indexing.portion import LARGEST_FILE_BYTES, Asked, Made, Order
from cocosearchd.indexing.precedence import Precedence
from cocosearchd.indexing.read import SourceFile, is_secret
from cocosearchd.indexing.sheet import FileSheet, file_sheet, unpacked_sheet
from cocosearchd.indexing.sheets import Sheets
from cocosearchd.indexing.texts import embedded_texts
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
Whole = Callable[[Sequence[SourceFile]], Sequence["Extract"]]


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
    compared: Compared | None = None  # then `chunks` are those that are not stored, and others go aside
    made: Made | None = None  # then the words and vectors of `chunks` are known


class Maker:
    """Makes files by the rules of one index."""

    def __init__(
        self,
        rules: Rules,
        embedder: Embedder,
        outlines: Outlines,
        precedence: Precedence,
        threads: Threads,
        crew: Crew | None = None,
    ) -> None:
        self._rules, self._embedder, self._outlines = rules, embedder, outlines
        self._sheets = Sheets(outlines.made_by + repr(replace(rules, index=0)).encode(), outlines.kept)
        self._precedence, self._threads = precedence, threads
        self._crew = crew if rules.limits.chunker != "recursive" else None  # that is CocoIndex's, which it never loads
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
        turn = (lambda: None) if urgent else self._precedence.pause_thread
        with span("index.parse", files=len(sources)):
            whole = partial(extracts, rules=self._rules, outlines=self._outlines, turn=turn)
            if stored is not None and self._crew:
                found = await self._shared(sources, stored, self._crew, whole, turn)
            else:
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

    async def _shared(
        self,
        sources: Sequence[SourceFile],
        stored: Sequence[StoredFile],
        crew: Crew,
        whole: Whole,
        turn: Callable[[], None],
    ) -> list[Extract]:
        """As `differing`, with what the crew makes of files that nobody knows."""
        looking = partial(looked_up, sources, self._sheets, self._outlines, self._rules)
        known, unknown = await self._threads.apart(looking, urgent=False)
        files = [asked(sources[number], language, stored[number]) for number, language in unknown.items()]
        order = Order(self._rules.limits, self._rules.overrides, self._embedded_by, ())
        answers = await crew.made(order, files, self._precedence.pause)
        made = {number: one for number, one in zip(unknown, answers, strict=True) if one is not None}
        for number, one in made.items():
            self._outlines.take(sources[number], unknown[number], one.outline)
        joining = partial(joined, sources, stored, self._sheets, whole, turn, known, made)
        return await self._threads.apart(joining, urgent=False)

    async def _embedded(self, files: Sequence[tuple[SourceFile, Extract]]) -> Sequence[FileWrite | EmbedderUnavailable]:
        texts = [embedded_texts(source.path, one.chunks, self._made_by) for source, one in files]
        vectors = [self._halves(one, some) for (_, one), some in zip(files, texts, strict=True)]
        missing = [text for some, known in zip(texts, vectors, strict=True) if known is None for text in some]
        made = np.empty((0, self._dimension), np.float32)
        if missing:
            try:
                made = await self._embedder.embed_documents(missing)
            except EmbedderUnavailable as error:
                return [error] * len(files)
        writes, first = list[FileWrite | EmbedderUnavailable](), 0
        for (source, one), known in zip(files, vectors, strict=True):
            part = made[first : first + len(one.chunks)] if known is None else known
            first += len(one.chunks) if known is None else 0
            writes.append(file_write(source, one, part))
        return writes

    def _halves(self, one: Extract, texts: Sequence[str]) -> Vectors | None:
        """The vectors of an extract as the crew made them, from halves; None where it made none."""
        if one.made is None or len(one.made.halves) != len(texts) * self._dimension * 2:
            return None
        halves = np.frombuffer(one.made.halves, np.float16).reshape(len(texts), self._dimension)
        if isinstance(self._embedder, RememberingEmbedder):
            self._embedder.learn(texts, halves)
        return halves.astype(np.float32)


def asked(source: SourceFile, language: str, stored: StoredFile) -> Asked:
    """A file as the crew is asked to make it."""
    return Asked(source.path, language, source.data, stored.chunks)


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
    whole: Whole,
    turn: Callable[[], None],
    known: Sequence[FileSheet | None] | None = None,
) -> list[Extract]:
    """As `extracts`, with those chunks only that are not stored; `whole` makes files that no sheet is known of."""
    known = sheets.known(sources) if known is None else known
    missing = [source for source, sheet in zip(sources, known, strict=True) if sheet is None]
    made = whole(missing)
    fresh = [file_sheet(one.chunks, one.language, one.report, one.scopes, one.skip) for one in made]
    sheets.keep(zip(missing, fresh, strict=True))
    new, found = iter(zip(made, fresh, strict=True)), list[Extract]()
    for source, row, sheet in zip(sources, stored, known, strict=True):
        turn()
        found.append(_of_sheet(source, row, sheet) if sheet is not None else _of_extract(source, *next(new), row))
    return found


def looked_up(
    sources: Sequence[SourceFile], sheets: Sheets, outlines: Outlines, rules: Rules
) -> tuple[list[FileSheet | None], dict[int, str]]:
    """The sheets that are known; and the numbers of files to be parsed, with languages: one of each content."""
    known, unknown = sheets.known(sources), dict[int, str]()
    for number, (source, sheet) in enumerate(zip(sources, known, strict=True)):
        if sheet is None and len(source.data) <= LARGEST_FILE_BYTES:
            language = detect.detect(source.path, source.data[: detect.HEAD_BYTES])
            if skipped(source, language, rules) is None:
                unknown[number] = language
    found = outlines.known([(sources[number], language) for number, language in unknown.items()])
    contents = dict[tuple[bytes, str], int]()
    for (number, language), outline in zip(unknown.items(), found, strict=True):
        if outline is None:
            contents.setdefault((sources[number].content_hash, language), number)
    return known, {number: language for (_, language), number in contents.items()}


def joined(
    sources: Sequence[SourceFile],
    stored: Sequence[StoredFile],
    sheets: Sheets,
    whole: Whole,
    turn: Callable[[], None],
    known: Sequence[FileSheet | None],
    made: Mapping[int, Made],
) -> list[Extract]:
    """As `differing`, with what was `made`, by the number of the file."""
    given = {number: sheet for number, one in made.items() if (sheet := unpacked_sheet(one.sheet)) is not None}
    for number, sheet in given.items():
        sheets.take(sources[number], sheet, made[number].sheet)
    known = [given.get(number, sheet) for number, sheet in enumerate(known)]
    found = differing(sources, stored, sheets, whole, turn, known)
    for number in given:
        if len(made[number].words) == len(found[number].chunks):
            found[number] = replace(found[number], made=made[number])
    return found


def _words(chunks: Sequence[Chunk], made: Made) -> Callable[[Chunk], str]:
    """The words that the crew made of chunks, by the byte where a chunk starts."""
    words = {chunk.start_byte: one for chunk, one in zip(chunks, made.words, strict=True)}
    return lambda chunk: words[chunk.start_byte]


def _of_sheet(source: SourceFile, row: StoredFile, known: FileSheet) -> Extract:
    found = compared(known.sheet, row, source.content_hash, aside=True)
    chunks = known.chunks(found.new, source.data)
    return Extract(known.language, chunks, known.report, known.skip, known.scopes, found)


def _of_extract(source: SourceFile, one: Extract, made: FileSheet, row: StoredFile) -> Extract:
    """Of a file whose chunks are at hand: none is cut out again."""
    found, order = compared(made.sheet, row, source.content_hash, aside=True), placed(one.chunks)
    return replace(one, chunks=tuple(one.chunks[order[place]] for place in found.new), compared=found)


def skipped(source: SourceFile, language: str, rules: Rules) -> SkipReason | None:
    """Why a file is not worth a parser, or shall not be looked into."""
    skip = source.skip or detect.skip_reason(source.data, rules.max_file_bytes)
    if skip is None and not rules.index_secrets and is_secret(source.data):
        return "secret"
    return "unsupported" if skip is None and not language and not rules.any_type else skip


def extract(source: SourceFile, language: str, outline: Outline) -> Extract:
    """The chunks of a file whose outline is known."""
    chunks = outline.chunks(source.path, language, source.data)
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
        keywords=keywords if extract.made is None else _words(extract.chunks, extract.made),
        skip_reason=extract.skip,
        scopes=extract.scopes,
        compared=extract.compared,
    )
