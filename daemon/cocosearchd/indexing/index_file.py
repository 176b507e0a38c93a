"""What CocoIndex runs for a file that changed: parse, chunk, embed, declare.

CocoIndex remembers by arguments: everything that shapes a row is one, and equal arguments are not run again. Vectors
are remembered by their texts, in `embedding.remembering`, so a changed file embeds only its changed chunks.
"""

import asyncio
import ctypes
import hashlib
import platform
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import cocoindex as coco
import numpy as np
from numpy.typing import NDArray

from cocosearch_ipc.spans import span
from cocosearchd.embedding.base import Embedder
from cocosearchd.indexing.chunk import Limits, describe, keywords
from cocosearchd.indexing.outlines import Outline, Outlines
from cocosearchd.indexing.read import SourceFile, is_secret
from cocosearchd.indexing.shaping import embedded_texts
from cocosearchd.indexing.target import FileTarget, WantedFile
from cocosearchd.languages import detect, scopes
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.model import Chunk, IndexIdentity, ParseReport, SkipReason
from cocosearchd.store.queries import FileWrite

# Texts of several files go to the embedder together; a provider cuts further as its own settings say.
BATCH_TEXTS = 64
BULK_THREADS = 2  # parsing holds the interpreter for most of its time: more threads only take turns
# Providers that make a vector in less time than CocoIndex needs to gather texts of several files.
CHEAP = {"builtin"}
IOPRIO_SET = {"x86_64": 251, "aarch64": 30}  # the number of the system call, by machine: <asm/unistd.h>
SMALL_BYTES = 1 << 16  # a file up to this is described where it is, if it is known: handing it over costs as much
NOT_PARSED = ParseReport("no_grammar")

Vector = NDArray[np.float32]
T = TypeVar("T")


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


class Embedding:
    """The embedder as a function of CocoIndex that gathers the texts of several files."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._key = embedder.fingerprint.digest()
        self._dimension = embedder.fingerprint.dimension
        self._made_by = embedder.fingerprint.pairs()
        self._gathers = embedder.fingerprint.provider not in CHEAP

    @coco.fn.as_async(batching=True, max_batch_size=BATCH_TEXTS)
    async def embed(self, texts: list[str]) -> list[Vector]:
        """The vector of a text; calls that are waiting at the same time become one. Raises `EmbedderUnavailable`."""
        return list(await self._embedder.embed_documents(texts))

    async def embed_all(self, path: str, chunks: tuple[Chunk, ...]) -> Vector:
        """Shape (len(chunks), dimension)."""
        if not chunks:
            return np.empty((0, self._dimension), np.float32)
        texts = embedded_texts(path, chunks, self._made_by)
        if not self._gathers:
            return await self._embedder.embed_documents(texts)
        return np.stack(await asyncio.gather(*(self.embed(text) for text in texts)))

    def __coco_memo_key__(self) -> str:
        """What makes two embedders give the same vectors."""
        return self._key


Guard = Callable[[str], None]


class Tools:
    """What a file is processed with. To CocoIndex two are the same if they make the same rows."""

    def __init__(self, rules: Rules, embedder: Embedder, target: FileTarget, guard: Guard, outlines: Outlines) -> None:
        """`guard` is called with each path before it is parsed; see `WorkerSpec.crash_on`."""
        self.rules, self.target, self.guard, self._outlines = rules, target, guard, outlines
        self.embedding = Embedding(embedder)
        self._bulk = ThreadPoolExecutor(BULK_THREADS, "bulk", initializer=read_last)
        shaping = f"{rules!r} {embedder.fingerprint.digest()}"
        self.key = hashlib.blake2b(shaping.encode(), digest_size=16).digest()

    async def extracted(self, source: SourceFile) -> Extract:
        """The file cut into chunks, or why it is not."""
        language = detect.detect(source.path, source.data[: detect.HEAD_BYTES])
        skip = skipped(source, language, self.rules)
        if skip is not None:
            return Extract(language, (), NOT_PARSED, skip)
        outline = self._outlines.known(source, language) if len(source.data) <= SMALL_BYTES else None
        if outline is not None:
            return extract(source, language, outline)
        urgent = self.target.hurries(self.rules.index, source.path)
        made = await self.apart(partial(parsed, source, language, self._outlines), urgent=urgent)
        self._outlines.written_soon()
        return made

    async def apart(self, work: Callable[[], T], *, urgent: bool) -> T:
        """Do blocking work in a thread. Bulk work queues for few of them, so that what is urgent finds one free."""
        loop = asyncio.get_running_loop()
        if urgent:
            return await loop.run_in_executor(None, work)
        return await loop.run_in_executor(self._bulk, self._in_turn, work)

    def _in_turn(self, work: Callable[[], T]) -> T:
        self.target.precedence.pause_thread()
        return work()

    def __coco_memo_key__(self) -> bytes:
        """The same in every process for the same rules and fingerprint."""
        return self.key


def read_last() -> None:
    """What this thread asks of a disk comes after what others ask; where the kernel is not Linux, nothing happens."""
    number = IOPRIO_SET.get(platform.machine())
    if number is not None and sys.platform == "linux":
        ctypes.CDLL(None).syscall(number, 1, 0, (2 << 13) | 7)  # this thread; best effort, the last of eight levels


@coco.fn(memo=True)
async def index_file(source: SourceFile, tools: Tools) -> None:
    """Declare the rows of a file. Raises `EmbedderUnavailable`; parsing never raises."""
    tools.guard(source.path)
    with span("index.parse", path=source.path, bytes=len(source.data)):
        extract = await tools.extracted(source)
    with span("index.embed", path=source.path, chunks=len(extract.chunks)):
        if not tools.target.hurries(tools.rules.index, source.path):
            await tools.target.precedence.pause()
        vectors = await tools.embedding.embed_all(source.path, extract.chunks)
    write = FileWrite(
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
    )
    tools.target.declare(tools.rules.index, WantedFile(write, (source.content_hash, source.force, tools.key)))


def skipped(source: SourceFile, language: str, rules: Rules) -> SkipReason | None:
    """Why a file is not worth a parser, or shall not be looked into."""
    skip = source.skip or detect.skip_reason(source.data, rules.max_file_bytes)
    if skip is None and not rules.index_secrets and is_secret(source.data):
        return "secret"
    return "unsupported" if skip is None and not language and not rules.any_type else skip


def parsed(source: SourceFile, language: str, outlines: Outlines) -> Extract:
    """The file cut into chunks. As long as the file is large: call it in a thread."""
    outline = outlines.known(source, language) or outlines.made(source, language)
    return extract(source, language, outline)


def extract(source: SourceFile, language: str, outline: Outline) -> Extract:
    """The chunks of a file whose outline is known."""
    chunks = describe(outline.of(source.path, language, source.data), outline.ranges)
    return Extract(language, chunks, outline.report, scopes=scopes.pack(outline.symbols))
