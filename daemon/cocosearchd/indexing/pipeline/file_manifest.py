"""A file whose chunks are described, without its bytes; and how that is packed. Pure."""

import marshal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

from cocosearchd.indexing.pipeline.parse_result import SUM_BYTES, is_summed, summed
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

    sheet: ChunkManifest
    language: str
    report: ParseReport
    scopes: bytes | None
    # of each chunk, by place, what the sheet does not say; as `marshal` has it
    packed: tuple[bytes, ...]
    skip: SkipReason | None = None

    def chunks(self, places: Iterable[int], data: bytes) -> tuple[Chunk, ...]:
        """The chunks at some places of the file, which has these bytes."""
        return tuple(self._chunk(place, data) for place in places)

    def _chunk(self, place: int, data: bytes) -> Chunk:
        start, line = self.sheet.starts[place], self.sheet.lines[place]
        end = start + self.sheet.contents[place][0]
        (last, header, block, hierarchy, kind, name, signature, definitions), symbols = read_values(
            self.packed[place]
        )
        text = data[start:end].decode("utf-8", "replace")
        own = header, self.language, block, hierarchy, kind, name, signature, definitions
        return Chunk(start, end, line, last, text, *own, tuple(Symbol(*one) for one in symbols))


def file_sheet(
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


def packed_sheet(one: FileManifest) -> bytes:
    """A sheet as it is kept, with a sum in front; of a file that was looked into."""
    sheet = (one.sheet.starts, one.sheet.lines, one.sheet.contents, one.sheet.symbol_count)
    return summed(marshal.dumps((sheet, one.language, _REPORT(one.report), one.scopes, one.packed)))


def unpacked_sheet(raw: bytes | None) -> FileManifest | None:
    """The sheet that was packed in raw bytes; None if their sum is not right, or they are none."""
    if raw is None or not is_summed(raw):
        return None
    try:
        sheet, language, report, scopes, described = read_values(raw[SUM_BYTES:])
        return FileManifest(
            ChunkManifest(*sheet), language, ParseReport(*report), scopes, described
        )
    except (InvalidFrame, ValueError, TypeError):
        return None


def _chunk(chunk: Chunk) -> bytes:
    return marshal.dumps((_CHUNK(chunk), tuple(map(_SYMBOL, chunk.symbols))))
