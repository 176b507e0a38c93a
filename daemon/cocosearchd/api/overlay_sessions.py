"""Who has which unsaved text: sessions of clients, each with overlays of its own, gone when the
session ends.

A session lasts as long as the call that opened it, and so as the client's connection. The text is
embedded here, in the daemon, and parsed and cut in a process of its own (`OverlayParser`), since
parsers are native code: no query waits for the child, and what is unsaved is in memory only.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count

import anyio
import anyio.lowlevel
import numpy as np

from cocosearchd.embedding.base import Embedder, Vectors
from cocosearchd.errors import EmbedderUnavailable, NotFound, Refused
from cocosearchd.indexing.pipeline.chunker import Limits
from cocosearchd.indexing.pipeline.embedding_text import build_embedding_texts
from cocosearchd.indexing.pipeline.file_reader import is_secret
from cocosearchd.indexing.pipeline.parse_result import ParsedFile, plain_parsed_file
from cocosearchd.indexing.pool.overlay_parser import OverlayParser
from cocosearchd.languages import detect, scopes
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.model import Chunk, IndexRecord
from cocosearchd.search.answers.disk_files import make_contents
from cocosearchd.search.overlay import Overlay, OverlayFile, make_overlay

# An editor has some tens of files open, and one session; a megabyte of text takes about three of
# memory.
EMBEDDED_TOGETHER = 64  # texts: some 10 ms of the built-in model
MAX_SESSIONS, MAX_FILES, MAX_BYTES = 64, 200, 32 << 20


Pairs = tuple[tuple[str, str], ...]  # what identifies an embedder


@dataclass(frozen=True, slots=True)
class OverlayRules:
    """What a file must be like to be searched, how it is cut and what is defined in it; as for
    files on disk.
    """

    limits: Limits
    max_file_bytes: int
    index_secrets: bool
    overrides: QueryOverrides = ()
    # files were named by the user: those of an unknown language are plain text
    any_type: bool = False


@dataclass(frozen=True, slots=True)
class OverlayChange:
    """What a session has after a change. `note` says what is not known of the last file."""

    files: int
    bytes: int
    chunks: int = 0
    note: str | None = None


@dataclass(slots=True)
class _Session:
    """Keys begin with the root of an index: that stays when the index is made anew, and its number
    does not.
    """

    files: dict[tuple[bytes, str], OverlayFile] = field(default_factory=dict)  # by root and path
    # the embedder of their vectors
    made_by: dict[tuple[bytes, str], Pairs] = field(default_factory=dict)
    # the change that was asked for last
    latest: dict[tuple[bytes, str], int] = field(default_factory=dict)
    # made of `files` when first asked for
    overlays: dict[bytes, Overlay | None] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(len(file.text.data) for file in self.files.values())


class OverlaySessions:
    """Sessions by name. A name is a secret: who has it sees what is unsaved. For one event loop."""

    def __init__(self, embedder_of: Callable[[Pairs], Embedder], outliner: OverlayParser) -> None:
        """`embedder_of` gives the embedder that makes vectors like those of an index, by the pairs
        of its identity.
        """
        self._embedder_of, self._outliner = embedder_of, outliner
        self._sessions: dict[str, _Session] = {}
        self._changes = count(1)

    @contextmanager
    def session(self) -> Iterator[str]:
        """The name of a new session; at the end nothing is left of it. Raises `Refused` when there
        are too many.
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
        """Hold `data` as the content of a file. Of several changes under way the one asked for last
        stays.

        Raises `NotFound` for a session that has ended, `Refused` for what would not be searched on
        disk either and beyond the bounds.
        """
        held, key, change = self._of(session), (record.root, path), next(self._changes)
        _check(data, path, rules)
        self._bound(held, key, data)
        held.latest[key] = change
        language = detect.detect(path, data[: detect.HEAD_BYTES])
        outline, unread = await self._outline(path, language, data, rules)
        chunks = await anyio.to_thread.run_sync(outline.chunks, path, language, data)
        before = held.files.get(key) if held.made_by.get(key) == record.identity.embedder else None
        vectors, note = await self._vectors(path, chunks, record, before)
        # else it was put again or cleared meanwhile
        if self._of(session).latest.get(key) == change:
            self._bound(held, key, data)  # others were put meanwhile
            symbols = scopes.pack(outline.symbols)
            held.files[key] = OverlayFile(
                path, make_contents(data), language, chunks, vectors, symbols
            )
            held.made_by[key] = record.identity.embedder
            held.overlays.pop(record.root, None)
        return OverlayChange(
            len(held.files), held.size, len(chunks), "; ".join(filter(None, (unread, note))) or None
        )

    def clear(
        self, session: str, record: IndexRecord | None = None, path: str | None = None
    ) -> OverlayChange:
        """Let go of a file, of all files of an index, or of all; what is on disk counts again."""
        held = self._of(session)
        for key in list(held.latest):
            if record is None or (key[0] == record.root and path in (None, key[1])):
                del held.latest[key]
                held.files.pop(key, None)
                held.made_by.pop(key, None)
                held.overlays.pop(key[0], None)
        return OverlayChange(len(held.files), held.size)

    async def aclose(self) -> None:
        """End what runs beside the daemon."""
        await self._outliner.aclose()

    async def overlays(
        self, session: str | None, records: Iterable[IndexRecord]
    ) -> dict[str, Overlay]:
        """Overlays of a session, by name of index. Raises `NotFound`."""
        overlays = [(record.name, await self.overlay(session, record)) for record in records]
        return {name: overlay for name, overlay in overlays if overlay is not None}

    async def overlay(self, session: str | None, record: IndexRecord) -> Overlay | None:
        """The overlay of a session over an index, None if it has none. Raises `NotFound`.

        Vectors of another embedder than that of the index are computed again.
        """
        if session is None:
            return None
        held, made_by = self._of(session), record.identity.embedder
        mine = {key: file for key, file in held.files.items() if key[0] == record.root}
        for key, file in mine.items():
            if held.made_by.get(key) != made_by:
                vectors, _ = await self._vectors(file.path, file.chunks, record, None)
                if held.files.get(key) is file:  # else it was put again or cleared meanwhile
                    held.files[key], held.made_by[key] = replace(file, vectors=vectors), made_by
                    held.overlays.pop(record.root, None)
        if record.root not in held.overlays:
            held.overlays[record.root] = make_overlay(
                f for key, f in held.files.items() if key[0] == record.root
            )
        return held.overlays[record.root]

    def _bound(self, held: _Session, key: tuple[bytes, str], data: bytes) -> None:
        if key not in held.files and len(held.files) >= MAX_FILES:
            raise Refused(
                f"this session has {MAX_FILES} unsaved files already",
                "overlay.clear those that are saved",
            )
        before = len(held.files[key].text.data) if key in held.files else 0
        if sum(each.size for each in self._sessions.values()) - before + len(data) > MAX_BYTES:
            raise Refused(
                f"more than {MAX_BYTES >> 20} MiB of unsaved text", "overlay.clear what is saved"
            )

    def _of(self, session: str) -> _Session:
        if session not in self._sessions:
            raise NotFound(
                "there is no such session",
                "overlay.open opens one; it ends with the connection of that call",
            )
        return self._sessions[session]

    async def _outline(
        self, path: str, language: str, data: bytes, rules: OverlayRules
    ) -> tuple[ParsedFile, str | None]:
        """The outline of a text; and why no definitions are in it."""
        result = await self._outliner.parse(path, language, data, rules.limits, rules.overrides)
        if result is not None and result.packed is not None:
            return result.parsed_file, None
        why = "the unsaved text cannot be parsed: it is found without its definitions"
        return plain_parsed_file(
            data, rules.limits, why
        ) if result is None else result.parsed_file, why

    async def _vectors(
        self, path: str, chunks: tuple[Chunk, ...], record: IndexRecord, before: OverlayFile | None
    ) -> tuple[Vectors, str | None]:
        """The vectors of chunks, those that were there before taken over; and why there are
        none.
        """
        made_by, dimension = record.identity.embedder, record.dimension
        texts = build_embedding_texts(path, chunks, made_by)
        known = _by_text(before, made_by) if before is not None else {}
        vectors = np.zeros((len(chunks), dimension), np.float32)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        made = list[Vectors]()
        try:
            for first in range(0, len(missing), EMBEDDED_TOGETHER):
                some = missing[first : first + EMBEDDED_TOGETHER]
                made += list(await self._embedder_of(made_by).embed_documents(some))
                # others are served between: the built-in model does not wait
                await anyio.lowlevel.checkpoint()
        except EmbedderUnavailable as error:
            return vectors, f"the unsaved text is found by words only: {error.message}"
        found = {**known, **dict(zip(missing, made, strict=True))}
        for row, text in zip(vectors, texts, strict=True):
            if len(found[text]) == dimension:
                # as stored, so that saving changes no answer
                row[:] = np.asarray(found[text], np.float16)
        return vectors, None


def _by_text(file: OverlayFile, made_by: Pairs) -> Mapping[str, Vectors]:
    """Vectors by what was embedded; those that could not be made are asked for again."""
    texts = build_embedding_texts(file.path, file.chunks, made_by)
    return {text: vector for text, vector in zip(texts, file.vectors, strict=True) if vector.any()}


def _check(data: bytes, path: str, rules: OverlayRules) -> None:
    skip = detect.skip_reason(data, rules.max_file_bytes)
    if skip is None and not rules.index_secrets and is_secret(data):
        skip = "secret"
    if skip is None and not rules.any_type and not detect.detect(path, data[: detect.HEAD_BYTES]):
        skip = "unsupported"
    if skip is not None:
        raise not_searchable(path, skip)


def not_searchable(path: str, why: str) -> Refused:
    """What an editor is told of a text that would not be found if it were saved."""
    return Refused(f"{path} would not be searched on disk either: {why}", "leave it out")
