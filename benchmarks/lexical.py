"""CPU of the lexical index alone, without a database: per query, per edited file, per start.

    python -m benchmarks.lexical [DIRECTORY ...] [--chunks 10000 100000]

Files are read from the directories (default: the standard library and the installed packages) and
repeated under other names until there are enough chunks. Vectors are random: their cost does not
depend on what they say.
"""

import argparse
import shutil
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import machine, spread
from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.pipeline.chunker import chunk_file
from cocosearchd.indexing.pipeline.skip_rules import content_skip_reason
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.detect import HEAD_BYTES, detect, is_supported
from cocosearchd.languages.parse import parse
from cocosearchd.search.code.code_profile import load_weights, rank_chunks, score_matrix
from cocosearchd.search.lexical.analysis.documents import FileText, make_document, make_documents
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    compute_signal_matrix,
    make_snapshot,
)
from cocosearchd.search.lexical.segments import segment_files
from cocosearchd.search.lexical.segments.segment import SegmentView, build_segment, size_bytes
from cocosearchd.search.lexical.segments.segment_merge import BUSY, QUIET, compact
from cocosearchd.search.overlay import chunk_text

DIMENSION, QUERIES, REPLACED = 256, 40, 30
WEIGHTS = load_weights()
PLAIN = (
    "where are retries decided after a failed request", "how are command line arguments parsed",
    "open a socket and listen for connections", "compress a stream of bytes", "walk a directory tree recursively",
    "format the traceback of an exception", "schedule a callback for later", "read values from a configuration file",
)  # fmt: skip
SYMBOLS = (
    "HTTPServer",
    "ThreadPoolExecutor",
    "json_dumps",
    "urlparse",
    "asyncio.Queue",
    "OrderedDict",
    "Path",
    "main",
)


def main() -> None:
    """Measure every size and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", nargs="*", type=Path)
    parser.add_argument("--chunks", nargs="*", type=int, default=[10_000, 100_000])
    arguments = parser.parse_args()
    paths = sysconfig.get_paths()
    sources = arguments.directory or [Path(paths["stdlib"]), Path(paths["purelib"])]
    print(machine())
    files = list(read(sources, max(arguments.chunks)))
    for chunks in arguments.chunks:
        measure(files, chunks)


def read(roots: list[Path], enough: int) -> Iterator[FileText]:
    """Files with their chunks, until there are enough chunks."""
    rng, chunk_count = np.random.default_rng(1), 0
    for root in roots:
        for path in sorted(root.rglob("*")):
            if chunk_count >= enough or not path.is_file() or not is_supported(path.name):
                continue
            data = path.read_bytes()
            language = detect(path.name, data[:HEAD_BYTES])
            if not language or content_skip_reason(data, 1 << 20):
                continue
            name = str(path.relative_to(root))
            chunks = tuple(
                chunk_text(chunk, name)
                for chunk in chunk_file(parse(name, data), chunker_limits(IndexingSettings()))
            )
            if chunks:
                chunk_count += len(chunks)
                vectors = rng.standard_normal((len(chunks), DIMENSION)).astype(np.float32)
                yield FileText(
                    name,
                    1,
                    language,
                    chunks,
                    vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
                )


def measure(files: list[FileText], chunks: int) -> None:
    """One size."""
    terms = TermCache()
    began = time.process_time()
    state = filled(files, chunks, terms)
    print(f"{state.chunk_count} chunks, {state.file_count} files, {len(state.views)} segments")
    print(f"  build             {time.process_time() - began:.1f} CPU s")
    print(
        f"  arrays            {sum(size_bytes(part.segment) for part in state.views) / 2**20:.0f} MiB"
    )
    vector = np.full(DIMENSION, DIMENSION**-0.5, np.float32)
    for kind, queries in (("plain", PLAIN), ("symbol", SYMBOLS)):
        for name, query_vector in (("words only", None), ("with vectors", vector)):
            times = cpu_times(partial(ask, state, terms, queries, query_vector), QUERIES)
            print(f"  {kind:<6} {name:<12}", spread(times))
    print(
        "  edit a file       ",
        spread(
            cpu_times(lambda n: replaced(state, edited(files[n % len(files)]), terms), REPLACED)
        ),
    )
    snapshots(state)


def filled(files: list[FileText], chunks: int, terms: TermCache) -> IndexSnapshot:
    """A view over at least `chunks` chunks: files are repeated under other names."""
    parts, batch, chunk_count = tuple[SegmentView, ...](), list[FileText](), 0
    for copy in count():
        for file in files:
            batch.append(replace(file, path=f"copy{copy}/{file.path}") if copy else file)
            chunk_count += len(file.chunks)
            if sum(len(file.chunks) for file in batch) > 5000 or chunk_count >= chunks:
                parts = compact(
                    (
                        *parts,
                        SegmentView(build_segment(list(make_documents(batch, terms)), DIMENSION)),
                    ),
                    BUSY,
                )
                batch = []
            if chunk_count >= chunks:
                return make_snapshot(compact(parts, QUIET), 1)
    raise AssertionError("count() does not end")


def ask(
    state: IndexSnapshot,
    terms: TermCache,
    queries: Sequence[str],
    vector: NDArray[np.float32] | None,
    number: int,
) -> None:
    """All of what the daemon does in memory for one query."""
    parsed_query = terms.make_query_terms(queries[number % len(queries)])
    rank_chunks(
        score_matrix(
            compute_signal_matrix(state, parsed_query, terms, vector), parsed_query.is_name, WEIGHTS
        ),
        10,
    )


def edited(file: FileText) -> FileText:
    """A line more in the chunk in the middle."""
    middle = len(file.chunks) // 2
    chunk = file.chunks[middle]
    changed = replace(chunk, text=f"{chunk.text}\n# edited: {file.path}")
    return replace(file, chunks=(*file.chunks[:middle], changed, *file.chunks[middle + 1 :]))


def replaced(state: IndexSnapshot, file: FileText, terms: TermCache) -> None:
    """Tokenise a file, kill its old version, add a segment, swap."""
    fresh = build_segment([make_document(file, terms)], DIMENSION)
    parts = list(state.views)
    for number, names in enumerate(state.path_names):
        if file.path in names.numbers:
            parts[number] = parts[number].with_deleted([names.numbers[file.path]])
    make_snapshot(compact((*parts, SegmentView(fresh)), BUSY), 2, state)


def snapshots(state: IndexSnapshot) -> None:
    """Write and read the snapshot."""
    folder = Path(tempfile.mkdtemp(prefix="cocosearch-bench-"))
    try:
        began = time.process_time()
        segment_files.save(folder, {}, 1, state.views, {})
        saved = time.process_time()
        loaded = segment_files.load(folder, {})
        assert loaded is not None
        make_snapshot(loaded.views, 1)
        print(f"  save a snapshot    {(saved - began) * 1000:.0f} CPU ms")
        print(f"  load a snapshot    {(time.process_time() - saved) * 1000:.0f} CPU ms")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cpu_times(run: Callable[[int], None], n: int) -> list[float]:
    """CPU milliseconds of n calls, after one that is not counted."""
    run(0)
    times = []
    for number in range(n):
        began = time.process_time()
        run(number)
        times.append((time.process_time() - began) * 1000)
    return times


if __name__ == "__main__":
    main()
