"""What a file is compared and stored by, kept by path and content: a branch that is switched back to describes nothing.

Of a file that is known in this way nothing is looked up but this: neither its language nor its outline. Its texts are
cut out of it, and only those of chunks that are not stored.
"""

import hashlib
import marshal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from cocosearchd.indexing.chunk import HEADER_VERSION
from cocosearchd.indexing.outlines import SUM_BYTES, sum_of
from cocosearchd.indexing.read import SourceFile
from cocosearchd.kept import Kept
from cocosearchd.model import Chunk, ParseReport, SkipReason, Symbol
from cocosearchd.store.sheets import ROW_VERSION, Sheet, placed, sheet_of

_REPORT, _SYMBOL = (attrgetter(*(one.name for one in fields(kind))) for kind in (ParseReport, Symbol))
_CHUNK = attrgetter(
    *("end_line", "header", "block_type", "hierarchy"),
    *("symbol_type", "symbol_name", "symbol_signature", "definitions"),
)


@dataclass(frozen=True, slots=True)
class FileSheet:
    """A file without its bytes: all that is stored of it but texts, words and vectors."""

    sheet: Sheet
    language: str
    report: ParseReport
    scopes: bytes | None
    packed: tuple[bytes, ...]  # of each chunk, by place, what the sheet does not say; as `marshal` has it
    skip: SkipReason | None = None

    def chunks(self, places: Iterable[int], data: bytes) -> tuple[Chunk, ...]:
        """The chunks at some places of the file, which has these bytes."""
        return tuple(self._chunk(place, data) for place in places)

    def _chunk(self, place: int, data: bytes) -> Chunk:
        start, line = self.sheet.starts[place], self.sheet.lines[place]
        end = start + self.sheet.contents[place][0]
        (last, header, block, hierarchy, kind, name, signature, definitions), symbols = _loaded(self.packed[place])
        text = data[start:end].decode("utf-8", "replace")
        own = header, self.language, block, hierarchy, kind, name, signature, definitions
        return Chunk(start, end, line, last, text, *own, tuple(Symbol(*one) for one in symbols))


class Sheets:
    """Those of one index, kept where there is something to keep them in. For any thread."""

    def __init__(self, shaped_by: bytes, kept: Kept | None) -> None:
        """`shaped_by`: all that shapes rows apart from the file itself, for what code does see `outlines.made_by`."""
        versions = f" {ROW_VERSION} {HEADER_VERSION}".encode()
        self._made_by = hashlib.blake2b(b"sheet " + shaped_by + versions, digest_size=16).digest()
        self._kept = kept

    def known(self, sources: Sequence[SourceFile]) -> list[FileSheet | None]:
        """For each file: as it was made before, at this path, from these bytes."""
        keys = [self._key(source) for source in sources]
        kept: Mapping[bytes, bytes] = self._kept.get(keys) if self._kept is not None else {}
        return [_checked(kept.get(key)) for key in keys]

    def keep(self, sheets: Iterable[tuple[SourceFile, FileSheet]]) -> None:
        """Keep what was made of files that were looked into.

        A parser that took too long may not do so the next time: what could not be parsed is left out.
        """
        if self._kept is not None:
            kept = (file for file in sheets if file[1].skip is None and file[1].report.status != "error")
            packed = [(self._key(source), _packed(one)) for source, one in kept]
            self._kept.put((key, sum_of(raw) + raw) for key, raw in packed)

    def _key(self, source: SourceFile) -> bytes:
        whole = self._made_by + source.content_hash + source.path.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(whole, digest_size=16).digest()


def file_sheet(
    chunks: Sequence[Chunk], language: str, report: ParseReport, scopes: bytes | None, skip: SkipReason | None
) -> FileSheet:
    """Of a file all of whose chunks are described."""
    order = placed(chunks)
    packed = tuple(_chunk(chunks[number]) for number in order)
    return FileSheet(sheet_of(chunks, order), language, report, scopes, packed, skip)


def _loaded(packed: bytes) -> Any:
    return marshal.loads(packed)  # noqa: S302 - the sum of it was right


def _chunk(chunk: Chunk) -> bytes:
    return marshal.dumps((_CHUNK(chunk), tuple(map(_SYMBOL, chunk.symbols))))


def _packed(one: FileSheet) -> bytes:
    sheet = (one.sheet.starts, one.sheet.lines, one.sheet.contents, one.sheet.symbol_count)
    return marshal.dumps((sheet, one.language, _REPORT(one.report), one.scopes, one.packed))


def _checked(raw: bytes | None) -> FileSheet | None:
    if raw is None or raw[:SUM_BYTES] != sum_of(raw[SUM_BYTES:]):
        return None
    sheet, language, report, scopes, packed = _loaded(raw[SUM_BYTES:])
    return FileSheet(Sheet(*sheet), language, ParseReport(*report), scopes, packed)
