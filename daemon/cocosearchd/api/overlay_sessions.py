"""Sessions of unsaved text: overlays of one client, which end with its session.

A session lasts as long as the call that opened it, which is as long as the client's connection. The
daemon embeds the text. A separate process parses and chunks it (`OverlayParser`), because parsers are
native code. No query waits for that process. Unsaved text is kept in memory only.
"""

import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count

import anyio
import anyio.lowlevel
import numpy as np

from cocosearchd.embedding.base import Embedder, Vectors
from cocosearchd.errors import EmbedderUnavailable, NotFound, Refused
from cocosearchd.exclusion import find_exclusion
from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pipeline.embedding_text import build_embedding_texts
from cocosearchd.indexing.pipeline.parse_result import ParsedFile, plain_parsed_file
from cocosearchd.indexing.pipeline.skip_rules import SkipRules, skip_reason
from cocosearchd.indexing.pool.overlay_parser import OverlayParser
from cocosearchd.languages import detect
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.model import Chunk, EmbedderPairs, IndexRecord, PackedCode
from cocosearchd.search.answers.disk_files import make_contents
from cocosearchd.search.overlay import Overlay, OverlayFile, make_overlay

EMBEDDING_BATCH = 64  # texts: about 10 ms of the built-in model
# An editor has some tens of files open, and one session. A megabyte of text takes about three
# megabytes of memory.
MAX_SESSIONS = 64
MAX_UNSAVED_FILES = 200
MAX_UNSAVED_BYTES = 32 << 20
# Vectors that an unavailable embedder could not make: the pause until a question tries again, and
# the longest wait of that question. It keeps the vectors of each batch, so an embedder that needs
# longer for a file ends it in several tries.
RETRY_S = 30.0
RETRY_WAIT_S = 5.0
RETRY_BATCH = 4  # texts


@dataclass(frozen=True, slots=True)
class OverlayRules:
    """Rules that select, chunk and parse unsaved text, as for files on disk."""

    limits: ChunkLimits
    skip: SkipRules
    overrides: QueryOverrides = ()


@dataclass(frozen=True, slots=True)
class OverlayChange:
    """The size of a session after a change. `warning` says what the changed file lacks."""

    files: int
    bytes: int
    chunks: int = 0
    warning: str | None = None


@dataclass(slots=True)
class _Session:
    """The unsaved files of a session by root and path: the root stays when an index is rebuilt."""

    files: dict[tuple[bytes, str], OverlayFile] = field(default_factory=dict)  # by root and path
    # the embedder of the vectors of each file
    embedders: dict[tuple[bytes, str], EmbedderPairs] = field(default_factory=dict)
    # When vectors that the embedder could not make are due again, by the clock of the event loop
    retry_at: dict[tuple[bytes, str], float] = field(default_factory=dict)
    renewal: anyio.Lock = field(default_factory=anyio.Lock)  # one question makes them
    # number of the last requested change of each file
    latest: dict[tuple[bytes, str], int] = field(default_factory=dict)
    # by root, built from `files` at the first request
    overlays: dict[bytes, Overlay | None] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(len(file.text.data) for file in self.files.values())

    def is_due(self, key: tuple[bytes, str]) -> bool:
        """Return True if a file lacks vectors that are due."""
        return anyio.current_time() >= self.retry_at.get(key, math.inf)

    def record_vectors(
        self, key: tuple[bytes, str], embedder: EmbedderPairs, *, is_complete: bool
    ) -> None:
        """Record the embedder of the vectors of a file; incomplete ones are due after a while."""
        self.embedders[key] = embedder
        self.retry_at.pop(key, None)
        if not is_complete:
            self.retry_at[key] = anyio.current_time() + RETRY_S

    def in_root(self, root: bytes) -> dict[tuple[bytes, str], OverlayFile]:
        return {key: file for key, file in self.files.items() if key[0] == root}


class OverlaySessions:
    """Sessions by name. A name is a secret: it gives access to the text. For one event loop."""

    def __init__(
        self, embedder_of: Callable[[EmbedderPairs], Embedder], parser: OverlayParser
    ) -> None:
        """`embedder_of` gives the embedder of an index by the pairs of its identity."""
        self._embedder_of = embedder_of
        self._parser = parser
        self._sessions: dict[str, _Session] = {}
        self._changes = count(1)

    @contextmanager
    def session(self) -> Iterator[str]:
        """Open a session; yield its name, and drop its text at the end.

        Raises `Refused` if there are too many sessions.
        """
        if len(self._sessions) >= MAX_SESSIONS:
            raise Refused(
                f"there are {MAX_SESSIONS} sessions with unsaved text already", "close one"
            )
        name = secrets.token_urlsafe(16)
        self._sessions[name] = _Session()
        try:
            yield name
        finally:
            del self._sessions[name]

    async def put(
        self, session: str, record: IndexRecord, path: str, data: bytes, rules: OverlayRules
    ) -> OverlayChange:
        """Store `data` as the content of a file. If changes are concurrent, the last request wins.

        Raises `NotFound` for a session that has ended. Raises `Refused` beyond the limits, and for a
        text that would not be searched on disk either.
        """
        unsaved = self._session(session)
        key = (record.root, path)
        change = next(self._changes)
        language = detect.detect(path, data[: detect.HEAD_BYTES])
        reason = skip_reason(data, language, rules.skip)
        if reason is not None:
            raise not_searchable(path, find_exclusion(reason).cause)
        self._check_limits(unsaved, key, data)
        unsaved.latest[key] = change
        parsed, parse_warning = await self._parse(path, language, data, rules)
        chunks, code = await anyio.to_thread.run_sync(_describe, parsed, path, language, data)
        is_same_embedder = unsaved.embedders.get(key) == record.identity.embedder
        previous = unsaved.files.get(key) if is_same_embedder else None
        vectors, vector_warning = await self._vectors(path, chunks, record, previous)
        # unless the file was put again or cleared meanwhile
        if self._session(session).latest.get(key) == change:
            self._check_limits(unsaved, key, data)  # more files may have come meanwhile
            unsaved.files[key] = OverlayFile(
                path=path,
                text=make_contents(data),
                language=language,
                chunks=chunks,
                vectors=vectors,
                code=code,
                symbols=parsed.symbols,
            )
            unsaved.record_vectors(key, record.identity.embedder, is_complete=not vector_warning)
            unsaved.overlays.pop(record.root, None)
        warning = "; ".join(filter(None, (parse_warning, vector_warning))) or None
        return OverlayChange(len(unsaved.files), unsaved.size, len(chunks), warning)

    def clear(
        self, session: str, record: IndexRecord | None = None, path: str | None = None
    ) -> OverlayChange:
        """Drop the text of a file, an index, or the session; answers use the disk again."""
        unsaved = self._session(session)
        for key in list(unsaved.latest):
            if record is None or (key[0] == record.root and path in (None, key[1])):
                del unsaved.latest[key]
                unsaved.files.pop(key, None)
                unsaved.embedders.pop(key, None)
                unsaved.retry_at.pop(key, None)
                unsaved.overlays.pop(key[0], None)
        return OverlayChange(len(unsaved.files), unsaved.size)

    async def aclose(self) -> None:
        """Stop the parser process."""
        await self._parser.aclose()

    async def overlays(
        self, session: str | None, records: Iterable[IndexRecord], *, with_vectors: bool = True
    ) -> dict[str, Overlay]:
        """Return the overlays of a session, by index name. See `overlay`. Raises `NotFound`."""
        overlays = [
            (record.name, await self.overlay(session, record, with_vectors=with_vectors))
            for record in records
        ]
        return {name: overlay for name, overlay in overlays if overlay is not None}

    async def overlay(
        self, session: str | None, record: IndexRecord, *, with_vectors: bool = True
    ) -> Overlay | None:
        """Return the overlay of a session over an index, None if it has none. Raises `NotFound`.

        Vectors are computed again if the index has another embedder now, and `RETRY_S` seconds after
        the embedder failed. Without `with_vectors`, for a question that compares none, the overlay
        has those that are there: no embedder is waited for.
        """
        # The root of a followed index is a path of another host: the same path may exist here too.
        if session is None or record.is_followed:
            return None
        unsaved = self._session(session)
        if with_vectors:
            await self._renew_vectors(unsaved, record)
        if record.root not in unsaved.overlays:
            unsaved.overlays[record.root] = make_overlay(unsaved.in_root(record.root).values())
        return unsaved.overlays[record.root]

    async def _renew_vectors(self, unsaved: _Session, record: IndexRecord) -> None:
        """Compute the missing vectors of an index's unsaved files where they are due.

        One question computes; others that come meanwhile wait for it, and no longer than it may.
        """
        _drop_vectors_of_others(unsaved, record)
        due = [key for key in unsaved.in_root(record.root) if unsaved.is_due(key)]
        if not due:
            return
        with anyio.move_on_after(RETRY_WAIT_S) as wait:
            async with unsaved.renewal:
                for key in due:
                    if unsaved.is_due(key):
                        await self._complete_vectors(unsaved, key, record)
        if wait.cancelled_caught:
            late = [key for key in due if unsaved.is_due(key)]
            unsaved.retry_at |= dict.fromkeys(late, anyio.current_time() + RETRY_S)

    async def _complete_vectors(
        self, unsaved: _Session, key: tuple[bytes, str], record: IndexRecord
    ) -> None:
        """Compute the missing vectors of a file; after a cancellation it has those made until then."""
        file = unsaved.files[key]
        embedder = record.identity.embedder
        texts = build_embedding_texts(file.path, file.chunks, embedder)
        vector_of = _by_text(file, embedder)
        warning: str | None = None
        is_tried = False
        try:
            warning = await self._embed(texts, vector_of, embedder, RETRY_BATCH)
            is_tried = True
        finally:
            if unsaved.files.get(key) is file:  # unless it was put again or cleared meanwhile
                vectors = _rows(texts, vector_of, record.dimension)
                unsaved.files[key] = replace(file, vectors=vectors)
                unsaved.overlays.pop(record.root, None)
                if is_tried:
                    unsaved.record_vectors(key, embedder, is_complete=not warning)

    def _check_limits(self, unsaved: _Session, key: tuple[bytes, str], data: bytes) -> None:
        if key not in unsaved.files and len(unsaved.files) >= MAX_UNSAVED_FILES:
            raise Refused(
                f"this session has {MAX_UNSAVED_FILES} unsaved files already",
                "overlay.clear those that are saved",
            )
        replaced = len(unsaved.files[key].text.data) if key in unsaved.files else 0
        total = sum(session.size for session in self._sessions.values())
        if total - replaced + len(data) > MAX_UNSAVED_BYTES:
            raise Refused(
                f"more than {MAX_UNSAVED_BYTES >> 20} MiB of unsaved text",
                "overlay.clear what is saved",
            )

    def _session(self, session: str) -> _Session:
        if session not in self._sessions:
            raise NotFound(
                "there is no such session",
                "overlay.open opens one; it ends with the connection of that call",
            )
        return self._sessions[session]

    async def _parse(
        self, path: str, language: str, data: bytes, rules: OverlayRules
    ) -> tuple[ParsedFile, str | None]:
        """Parse a text; the second value is a warning if definitions could not be found."""
        result = await self._parser.parse(path, language, data, rules.limits, rules.overrides)
        if result is not None and result.cacheable:
            return result.parsed_file, None
        warning = "the unsaved text cannot be parsed: it is found without its definitions"
        if result is None:
            return plain_parsed_file(data, rules.limits, warning), warning
        return result.parsed_file, warning

    async def _vectors(
        self,
        path: str,
        chunks: tuple[Chunk, ...],
        record: IndexRecord,
        previous: OverlayFile | None,
    ) -> tuple[Vectors, str | None]:
        """Return vectors of chunks, reusing previous ones.

        The second value is a warning if the embedder is unavailable.
        """
        embedder = record.identity.embedder
        texts = build_embedding_texts(path, chunks, embedder)
        vector_of = _by_text(previous, embedder) if previous is not None else {}
        warning = await self._embed(texts, vector_of, embedder, EMBEDDING_BATCH)
        return _rows(texts, vector_of, record.dimension), warning

    async def _embed(
        self,
        texts: Sequence[str],
        vector_of: dict[str, Vectors],
        embedder: EmbedderPairs,
        batch_size: int,
    ) -> str | None:
        """Add the vectors of the texts that `vector_of` lacks, batch by batch.

        Returns a warning if the embedder is unavailable.
        """
        missing = [text for text in dict.fromkeys(texts) if text not in vector_of]
        try:
            for first in range(0, len(missing), batch_size):
                batch = missing[first : first + batch_size]
                vectors = await self._embedder_of(embedder).embed_documents(batch)
                vector_of.update(zip(batch, vectors, strict=True))
                # let other requests run: the built-in model does not yield
                await anyio.lowlevel.checkpoint()
        except EmbedderUnavailable as error:
            return f"the unsaved text is found by words only: {error.message}"
        return None


def _drop_vectors_of_others(unsaved: _Session, record: IndexRecord) -> None:
    """Drop the vectors of another embedder than that of the index; others are due at once.

    Without vectors, the text is found by words.
    """
    embedder = record.identity.embedder
    for key, file in unsaved.in_root(record.root).items():
        if unsaved.embedders.get(key) != embedder:
            vectors: Vectors = np.zeros((len(file.chunks), record.dimension), np.float32)
            unsaved.files[key] = replace(file, vectors=vectors)
            unsaved.embedders[key] = embedder
            unsaved.retry_at[key] = anyio.current_time()
            unsaved.overlays.pop(record.root, None)


def _rows(texts: Sequence[str], vector_of: Mapping[str, Vectors], dimension: int) -> Vectors:
    """Return the vectors of texts in their order, zeros where there is none."""
    vectors: Vectors = np.zeros((len(texts), dimension), np.float32)
    for row, text in zip(vectors, texts, strict=True):
        vector = vector_of.get(text)
        if vector is not None and len(vector) == dimension:
            # rounded as in the store: saving the file then changes no answer
            row[:] = np.asarray(vector, np.float16)
    return vectors


def _describe(
    parsed: ParsedFile, path: str, language: str, data: bytes
) -> tuple[tuple[Chunk, ...], PackedCode]:
    """Return the chunks and the packed code of a file. Blocking: 0.2 s of CPU for a megabyte."""
    return parsed.chunks(path, language, data), pack_code(parsed.symbols, parsed.facts)


def _by_text(file: OverlayFile, embedder: EmbedderPairs) -> dict[str, Vectors]:
    """Return the vectors of a file by embedded text; missing vectors (zeros) are left out."""
    texts = build_embedding_texts(file.path, file.chunks, embedder)
    return {text: vector for text, vector in zip(texts, file.vectors, strict=True) if vector.any()}


def not_searchable(path: str, cause: str) -> Refused:
    """Make the error for text that would not be searched if it were saved.

    `cause` is a clause whose subject is the file.
    """
    return Refused(f"{path} would not be searched on disk either: {cause}", "leave it out")
