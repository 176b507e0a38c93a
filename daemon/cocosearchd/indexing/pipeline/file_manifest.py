"""A file's chunk manifest with its descriptions, without its bytes, and its packed form. Pure."""

import marshal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

from cocosearchd.indexing.pipeline.parse_result import (
    CHECKSUM_BYTES,
    add_checksum,
    has_valid_checksum,
)
from cocosearchd.model import Chunk, PackedCode, ParseReport, SkipReason, Symbol
from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.values import read_values
from cocosearchd.store.chunks.manifest import ChunkManifest, build_manifest, stored_chunk_order

_REPORT, _SYMBOL, _CODE = (
    attrgetter(*(field.name for field in fields(kind)))
    for kind in (ParseReport, Symbol, PackedCode)
)
_CHUNK = attrgetter(
    *("end_line", "header", "block_type", "hierarchy"),
    *("symbol_type", "symbol_name", "symbol_signature", "definitions"),
)


@dataclass(frozen=True, slots=True)
class FileManifest:
    """A file without its bytes: all its stored values except texts, keywords and vectors."""

    chunk_manifest: ChunkManifest
    language: str
    report: ParseReport
    code: PackedCode
    # by position: the values of a chunk that `chunk_manifest` does not have, packed with `marshal`
    packed_chunks: tuple[bytes, ...]
    skip: SkipReason | None = None

    def chunks(self, positions: Iterable[int], data: bytes) -> tuple[Chunk, ...]:
        """Return the chunks at the positions. `data` is the content of the file."""
        return tuple(self._chunk(position, data) for position in positions)

    def _chunk(self, position: int, data: bytes) -> Chunk:
        start = self.chunk_manifest.starts[position]
        line = self.chunk_manifest.lines[position]
        end = start + self.chunk_manifest.contents[position][0]
        (last, header, block, hierarchy, kind, name, signature, definitions), symbols = read_values(
            self.packed_chunks[position]
        )
        text = data[start:end].decode("utf-8", "replace")
        description = header, self.language, block, hierarchy, kind, name, signature, definitions
        values = tuple(Symbol(*symbol) for symbol in symbols)
        return Chunk(start, end, line, last, text, *description, values)


def build_file_manifest(
    chunks: Sequence[Chunk],
    language: str,
    report: ParseReport,
    code: PackedCode,
    skip: SkipReason | None,
) -> FileManifest:
    """Return the manifest of a file from all its chunks."""
    order = stored_chunk_order(chunks)
    described = tuple(_pack_chunk(chunks[number]) for number in order)
    return FileManifest(
        chunk_manifest=build_manifest(chunks, order),
        language=language,
        report=report,
        code=code,
        packed_chunks=described,
        skip=skip,
    )


def pack_manifest(file: FileManifest) -> bytes:
    """Return a manifest as bytes with a checksum. The file must not be skipped."""
    manifest = file.chunk_manifest
    values = (manifest.starts, manifest.lines, manifest.contents, manifest.symbol_count)
    return add_checksum(
        marshal.dumps(
            (values, file.language, _REPORT(file.report), _CODE(file.code), file.packed_chunks)
        )
    )


def unpack_manifest(raw: bytes | None) -> FileManifest | None:
    """Return the manifest that `raw` packs; None without bytes or with a wrong checksum."""
    if raw is None or not has_valid_checksum(raw):
        return None
    try:
        manifest, language, report, code, packed_chunks = read_values(raw[CHECKSUM_BYTES:])
        return FileManifest(
            chunk_manifest=ChunkManifest(*manifest),
            language=language,
            report=ParseReport(*report),
            code=PackedCode(*code),
            packed_chunks=packed_chunks,
        )
    except (InvalidFrame, ValueError, TypeError):
        return None


def _pack_chunk(chunk: Chunk) -> bytes:
    return marshal.dumps((_CHUNK(chunk), tuple(map(_SYMBOL, chunk.symbols))))
