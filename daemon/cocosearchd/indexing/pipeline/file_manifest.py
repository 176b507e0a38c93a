"""A file whose chunks are described, without its bytes; and how that is packed. Pure."""

import marshal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

from cocosearchd.indexing.pipeline.parse_result import (
    CHECKSUM_BYTES,
    add_checksum,
    has_valid_checksum,
)
from cocosearchd.model import Chunk, ParseReport, SkipReason, Symbol
from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.values import read_values
from cocosearchd.store.chunks.manifest import ChunkManifest, build_manifest, stored_chunk_order

_REPORT, _SYMBOL = (
    attrgetter(*(one.name for one in fields(kind))) for kind in (ParseReport, Symbol)
)
_CHUNK = attrgetter(
    *("end_line", "header", "block_type", "hierarchy"),
    *("symbol_type", "symbol_name", "symbol_signature", "definitions"),
)


@dataclass(frozen=True, slots=True)
class FileManifest:
    """A file without its bytes: all that is stored of it but texts, words and vectors."""

    manifest: ChunkManifest
    language: str
    report: ParseReport
    scopes: bytes | None
    # of each chunk, by place, what the sheet does not say; as `marshal` has it
    packed_chunks: tuple[bytes, ...]
    skip: SkipReason | None = None

    def chunks(self, places: Iterable[int], data: bytes) -> tuple[Chunk, ...]:
        """The chunks at some places of the file, which has these bytes."""
        return tuple(self._chunk(place, data) for place in places)

    def _chunk(self, place: int, data: bytes) -> Chunk:
        start, line = self.manifest.starts[place], self.manifest.lines[place]
        end = start + self.manifest.contents[place][0]
        (last, header, block, hierarchy, kind, name, signature, definitions), symbols = read_values(
            self.packed_chunks[place]
        )
        text = data[start:end].decode("utf-8", "replace")
        own = header, self.language, block, hierarchy, kind, name, signature, definitions
        return Chunk(start, end, line, last, text, *own, tuple(Symbol(*one) for one in symbols))


def build_file_manifest(
    chunks: Sequence[Chunk],
    language: str,
    report: ParseReport,
    scopes: bytes | None,
    skip: SkipReason | None,
) -> FileManifest:
    """Of a file all of whose chunks are described."""
    order = stored_chunk_order(chunks)
    described = tuple(_chunk(chunks[number]) for number in order)
    return FileManifest(build_manifest(chunks, order), language, report, scopes, described, skip)


def pack_manifest(one: FileManifest) -> bytes:
    """A sheet as it is kept, with a sum in front; of a file that was looked into."""
    sheet = (
        one.manifest.starts,
        one.manifest.lines,
        one.manifest.contents,
        one.manifest.symbol_count,
    )
    return add_checksum(
        marshal.dumps((sheet, one.language, _REPORT(one.report), one.scopes, one.packed_chunks))
    )


def unpack_manifest(raw: bytes | None) -> FileManifest | None:
    """The sheet that was packed in raw bytes; None if their sum is not right, or they are none."""
    if raw is None or not has_valid_checksum(raw):
        return None
    try:
        sheet, language, report, scopes, described = read_values(raw[CHECKSUM_BYTES:])
        return FileManifest(
            ChunkManifest(*sheet), language, ParseReport(*report), scopes, described
        )
    except (InvalidFrame, ValueError, TypeError):
        return None


def _chunk(chunk: Chunk) -> bytes:
    return marshal.dumps((_CHUNK(chunk), tuple(map(_SYMBOL, chunk.symbols))))
