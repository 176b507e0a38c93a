"""Assembles the contents of files from stored chunks, for an index whose disk is out of reach.

Chunks cover all text that is not blank. The reader fills the gaps between chunks with blanks, so
that each byte and each line is at its place. The content hash shows whether these blanks are the
original ones.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import anyio

from cocosearchd.model import IndexRecord
from cocosearchd.search.answers.disk_files import FileContents, make_contents
from cocosearchd.store.connection.database import Database
from cocosearchd.store.following.stored_texts import PlacedText, StoredTexts, stored_texts

MAX_CONTENTS = 128
MAX_CONTENT_BYTES = 32 << 20
_NEWLINES = ("\n", "\r\n")
_ENDS = ("\n", "", "\r\n", "\n\n")


@dataclass(frozen=True, slots=True)
class StoredContents:
    """The content of a file as it was indexed. The hash of the original is `content_hash`.

    Between chunks, `contents` may have other blanks than the original. `has_places` is True if
    every byte is at its original offset; for a file that is not UTF-8, this is unknown and
    `has_places` is False.
    """

    content_hash: bytes
    contents: FileContents
    has_places: bool = True

    @property
    def is_exact(self) -> bool:
        """True if the contents equal the indexed bytes."""
        return self.contents.content_hash == self.content_hash


class StoredContentReader:
    """Reads contents of followed indexes, with a cache keyed by content hash. For one event loop."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._cache: OrderedDict[bytes, StoredContents] = OrderedDict()
        self._bytes = 0

    async def read(self, record: IndexRecord, paths: Iterable[str]) -> dict[str, StoredContents]:
        """Read contents by path from one database snapshot. Files without any text are left out."""
        files = await stored_texts(self._db, record, sorted(set(paths)))
        contents = dict[str, StoredContents]()
        for file in files:
            content = self._cache.get(file.content_hash)
            if content is None:
                content = await anyio.to_thread.run_sync(assemble_contents, file)
            contents[file.path] = content
            self._keep(file.content_hash, content)
        return contents

    async def read_versions(
        self, record: IndexRecord, hashes: Mapping[str, bytes]
    ) -> dict[str, StoredContents]:
        """Read the contents that still have the given hashes, by path.

        Cached contents cost no query.
        """
        cached = {
            path: self._cache[value] for path, value in hashes.items() if value in self._cache
        }
        missing = hashes.keys() - cached.keys()
        stored = await self.read(record, missing) if missing else {}
        return cached | {
            path: content
            for path, content in stored.items()
            if content.content_hash == hashes[path]
        }

    def _keep(self, content_hash: bytes, content: StoredContents) -> None:
        if content_hash not in self._cache:
            self._bytes += len(content.contents.data)
        self._cache[content_hash] = content
        self._cache.move_to_end(content_hash)
        while len(self._cache) > MAX_CONTENTS or (
            self._bytes > MAX_CONTENT_BYTES and len(self._cache) > 1
        ):
            _, dropped = self._cache.popitem(last=False)
            self._bytes -= len(dropped.contents.data)


def assemble_contents(file: StoredTexts) -> StoredContents:
    """Assemble the content of a file from its chunks; try line ends until the hash matches."""
    bodies = [body for newline in _NEWLINES if (body := _join(file.chunks, newline)) is not None]
    for body in bodies:
        for end in _ENDS:
            contents = make_contents(body + end.encode())
            if contents.content_hash == file.content_hash:
                return StoredContents(file.content_hash, contents)
    if bodies:
        return StoredContents(file.content_hash, make_contents(bodies[0] + b"\n"))
    contents = make_contents(_join_lines(file.chunks).encode())
    return StoredContents(file.content_hash, contents, has_places=False)


def _join_lines(chunks: Sequence[PlacedText]) -> str:
    """Join chunks by line numbers alone. Text that two chunks share is taken once."""
    lines = dict[int, str]()
    end = 0
    for chunk in chunks:
        texts = chunk.text.split("\n")
        for number, text in enumerate(texts, chunk.start_line):
            is_continued = number == chunk.start_line and chunk.start_byte >= end
            lines[number] = lines.get(number, "") + text if is_continued else text
        end = chunk.end_byte
    return "".join(f"{lines.get(number, '')}\n" for number in range(1, max(lines, default=0) + 1))


def _join(chunks: Sequence[PlacedText], newline: str) -> bytes | None:
    """Join chunks at their byte offsets; None if the length of a text differs from its byte range."""
    parts = list[bytes]()
    end = 0
    line = 1
    for chunk in chunks:
        data = chunk.text.encode()
        if len(data) != chunk.end_byte - chunk.start_byte:
            return None
        if chunk.start_byte > end:
            parts.append(_blanks(chunk.start_byte - end, chunk.start_line - line, newline))
        parts.append(data[max(0, end - chunk.start_byte) :])
        if chunk.end_byte > end:
            end = chunk.end_byte
            line = chunk.start_line + data.count(b"\n")
    return b"".join(parts)


def _blanks(size: int, lines: int, newline: str) -> bytes:
    """Return `size` bytes of blanks with `lines` line ends.

    Spaces come after the first line end, so that they are on the first blank line.
    """
    breaks = min(max(0, lines), size // len(newline))
    blanks = b" " * (size - breaks * len(newline))
    end = newline.encode()
    if breaks < 2:
        return blanks + end * breaks
    return end + blanks + end * (breaks - 1)
