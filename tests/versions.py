"""Versions of the daemon's code, and golden digests of what each of them covers.

A version tells rows or files of an earlier code from those of this one. `versions.json` holds each
version with digests of results of its code: `python -m tests.versions` writes it. So a change of
the results is noticed, and the version raised. `ARCHITECTURE.md` has the table of all versions.
"""

import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
from pgvector import HalfVector

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing import row_shape
from cocosearchd.indexing.pipeline import chunker, recursive_chunker
from cocosearchd.indexing.pipeline.embedding_text import build_embedding_texts
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages import blocks, definition_ranges, language_table, symbol_table
from cocosearchd.languages.parse import Parsed, parse
from cocosearchd.languages.symbols import query_texts
from cocosearchd.model import Chunk, ParseReport, Symbol
from cocosearchd.search.lexical.analysis.documents import ChunkText, FileText, make_document
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.segments import segment_files
from cocosearchd.search.lexical.segments.segment import build_segment
from cocosearchd.store.chunks import manifest, rows
from cocosearchd.store.chunks.manifest import StoredFile

RECORD = Path(__file__).parent / "versions.json"
SOURCES = Path(__file__).parent / "languages" / "cases" / "source"
LINES_PER_CHUNK = 12
CHUNK_SIZES = (200, 1000)  # bytes: the golden sources are small
# Provider of an embedder whose texts have the path, and of one whose texts do not.
EMBEDDERS = ((("provider", "builtin"),), (("provider", "ollama"),))
# Definitions, comments and identifiers of many languages: each language sees its own.
SAMPLE = '''
# hash comment with words
// slash comment ! exclamation
-- dash comment ; semicolon % percent
/* block
   comment */ (* round *) {- curly -} <!-- tag --> {# jinja #}
""" quotes """ \'\'\' apostrophes \'\'\'
=begin
documentation
=end
class HTTPServer2(Base):
    def get_user_by_id(self, x): return naïve + 文字列検索 + kebab-case
public static void writeFiles(String name) {
function loadSettings() { const answer = 42; }
func (r *Receiver) Method() error {
fn apply<T>(value: T) -> T { let mut total = 0; }
sub _private { my $value = shift; }
proc run {args} {}
(defn make-thing [x] x)
module Data.List where
let rec fold f = f
subroutine solve(a, b)
procedure TForm.Click; begin end;
create table users (id int);
contract Token { event Sent(); modifier only() { _; } }
local function start_at(index) end
#define LIMIT 10
entity counter is
const pub = @import("std");
'''


@dataclass(frozen=True, slots=True)
class Part:
    """One golden result: digests of its inputs and of what the code makes of them."""

    inputs: str
    result: str


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the code, and the function that computes the results that it covers."""

    number: int
    compute_parts: Callable[[], Mapping[str, Part]]


def versions() -> dict[str, Version]:
    """Return all versions with golden digests, by the name that ARCHITECTURE.md gives them."""
    return {
        "indexing.pipeline.chunker.VERSION": Version(chunker.VERSION, chunks),
        "indexing.pipeline.chunker.RECURSIVE_VERSION": Version(
            chunker.RECURSIVE_VERSION, recursive_ranges
        ),
        "indexing.pipeline.chunker.HEADER_VERSION": Version(chunker.HEADER_VERSION, headers),
        "indexing.row_shape.SYMBOLS_VERSION": Version(row_shape.SYMBOLS_VERSION, symbols),
        "store.chunks.manifest.ROW_VERSION": Version(manifest.ROW_VERSION, row_columns),
        "search.lexical.segments.segment_files.FORMAT": Version(segment_files.FORMAT, segments),
    }


def digest(*values: object) -> str:
    """Digest values by their representation."""
    return blake2b(repr(values).encode(), digest_size=8).hexdigest()


def golden_files() -> Iterator[tuple[str, Parsed]]:
    """Yield path and parsed file of each golden source."""
    for source in sorted(path for path in SOURCES.rglob("*") if path.is_file()):
        path = source.relative_to(SOURCES).as_posix()
        yield path, parse(path, source.read_bytes())


def symbols() -> dict[str, Part]:
    """Extract the symbols and facts of all golden sources.

    The queries are inputs: files of their language are read again when they change.
    """
    return {
        path: Part(
            digest(parsed.data, *query_texts(blocks.base_language(parsed.language))),
            digest(
                parsed.symbols,
                definition_ranges.pack(parsed.symbols),
                _symbol_table(parsed),
                parsed.facts,
            ),
        )
        for path, parsed in golden_files()
    }


def _symbol_table(parsed: Parsed) -> bytes:
    packed = symbol_table.pack(parsed.symbols)
    return zlib.decompress(packed) if packed else b""


def _inputs(parsed: Parsed) -> str:
    """Digest the inputs of a chunker; `symbols` and each dialect have versions of their own."""
    versions = [d.version for d in blocks.DIALECTS if d.name == parsed.language]
    return digest(parsed.data, parsed.symbols, *versions)


def chunks() -> dict[str, Part]:
    """Cut all golden sources with the chunker `definitions`, and name their chunks."""
    return {
        path: Part(_inputs(parsed), digest(*_chunks_without_header(parsed)))
        for path, parsed in golden_files()
    }


def _chunks_without_header(parsed: Parsed) -> Iterator[Chunk]:
    for size in CHUNK_SIZES:
        for chunk in chunker.chunk_file(parsed, chunker_limits(IndexingSettings(chunk_size=size))):
            yield replace(chunk, header="", text="")


def recursive_ranges() -> dict[str, Part]:
    """Cut all golden sources with the chunker `recursive`."""
    limits = [chunker.ChunkLimits("recursive", size, size // 4) for size in CHUNK_SIZES]
    return {
        path: Part(
            _inputs(parsed), digest([recursive_chunker.chunk_ranges(parsed, row) for row in limits])
        )
        for path, parsed in golden_files()
    }


def headers() -> dict[str, Part]:
    """Describe chunks of equally many lines of all golden sources, and make their texts."""
    return {
        path: Part(_inputs(parsed), digest(*_described(path, parsed)))
        for path, parsed in golden_files()
    }


def _described(path: str, parsed: Parsed) -> Iterator[object]:
    chunks = chunker.describe_chunks(parsed, _ranges_of_lines(parsed.data))
    yield [chunk.header for chunk in chunks]
    for embedder in EMBEDDERS:
        yield build_embedding_texts(path, chunks, embedder)


def _ranges_of_lines(data: bytes) -> list[tuple[int, int]]:
    lines = data.splitlines(keepends=True)
    ends = np.cumsum([len(line) for line in lines]).tolist()[LINES_PER_CHUNK - 1 :: LINES_PER_CHUNK]
    return list(zip([0, *ends], [*ends, len(data)], strict=True))


def row_columns() -> dict[str, Part]:
    """Make the row of a chunk, and split the words of a text."""
    symbol = Symbol("method", "get", "Store.get", "def get(self)", "Store", 0, 40, 1, 3)
    chunk = Chunk(
        *(0, len(SAMPLE.encode()), 1, 30, SAMPLE, "a.py Store get", "python"),
        *("block", "a / b", "method", "Store.get", "def get(self)", ("get",), (symbol,)),
    )
    write = rows.FileWrite(
        path="a.py",
        content_hash=b"0123456789abcdef",
        fingerprint=None,
        language="python",
        chunks=(chunk,),
        vectors=np.ones((1, 4), np.float32),
        report=ParseReport("ok"),
        keywords=lambda _: "words",
    )
    nothing = StoredFile((None,) * 9, (None,) * 4, b"")
    change = rows.FileRows(write, 4).change(nothing)
    (row,) = change.new
    *columns, _ = row  # the digest has the version in it
    vector = rows.COPY_TYPES.index("halfvec")
    columns[vector] = HalfVector.from_binary(columns[vector])
    return {
        "words": Part("", digest(chunker.chunk_keywords(chunk))),
        "chunk": Part("", digest([str(column) for column in columns], rows.COPY_TYPES)),
    }


def segments() -> dict[str, Part]:
    """Build a segment of the sample text in each language."""
    return {info.name: _segment_part(info.name) for info in language_table.languages()}


def _segment_part(language: str) -> Part:
    text = ChunkText(0, len(SAMPLE), SAMPLE, ("get_user_by_id",), "Store", (("method", "a.b"),))
    vectors = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, -1)
    file = FileText("lib/http_server.x", 1, language, (text,), vectors, 7)
    segment = build_segment([make_document(file, TermCache())], 64)
    columns = ((field.name, getattr(segment, field.name)) for field in fields(segment))
    content = [(name, str(array.dtype), array.shape, array.tobytes()) for name, array in columns]
    return Part(digest(SAMPLE), digest(content))


def find_fault(
    name: str, version: int, parts: Mapping[str, Part], recorded: Mapping[str, object]
) -> str | None:
    """Compare a version and its results with the record; return what to do, None if they agree."""
    record = "run `python -m tests.versions`"
    changed = changed_parts(parts, recorded)
    if recorded["version"] == version and changed:
        return f"raise {name}: the results differ for {', '.join(changed)}; then {record}"
    return None if recorded == record_of(version, parts) else record


def changed_parts(parts: Mapping[str, Part], recorded: Mapping[str, object]) -> list[str]:
    """List the parts whose results differ from the recorded ones of the same inputs."""
    golden = recorded["parts"]
    assert isinstance(golden, dict)
    return [
        name
        for name, part in parts.items()
        if name in golden and golden[name][0] == part.inputs and golden[name][1] != part.result
    ]


def record_of(version: int, parts: Mapping[str, Part]) -> dict[str, object]:
    """Return the record of a version as JSON has it."""
    return {
        "version": version,
        "parts": {name: [part.inputs, part.result] for name, part in sorted(parts.items())},
    }


def read_record() -> dict[str, dict[str, object]]:
    """Read the recorded versions."""
    record: dict[str, dict[str, object]] = json.loads(RECORD.read_text("utf-8"))
    return record


def write_record() -> list[str]:
    """Write the record anew. Return the versions to raise; if there are any, nothing is written."""
    recorded = read_record() if RECORD.exists() else {}
    record = dict[str, dict[str, object]]()
    faults = list[str]()
    for name, version in versions().items():
        parts = version.compute_parts()
        golden = recorded.get(name)
        if golden and golden["version"] == version.number and changed_parts(parts, golden):
            faults.append(f"raise {name} first: the results differ")
        record[name] = record_of(version.number, parts)
    if not faults:
        RECORD.write_text(_one_line_a_part(record), "utf-8")
    return faults


def _one_line_a_part(record: Mapping[str, object]) -> str:
    text = json.dumps(record, indent=1)
    return (
        text.replace('[\n    "', '["').replace('",\n    "', '", "').replace('"\n   ]', '"]') + "\n"
    )


if __name__ == "__main__":
    sys.exit("\n".join(write_record()) or None)
