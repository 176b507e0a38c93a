"""The footprint of an index: CPU of its first index by stage, disk at rest, memory.

    python -m benchmarks.footprint DIRECTORY [--rest 60] [--variable NAME=VALUE ...]

A daemon indexes a copy of the directory. Printed are the CPU seconds of its processes until the
copy is searchable, and the bytes that PostgreSQL has written to its write-ahead log (WAL) by then;
the bytes of the state directory, of the empty daemon after a rest, and after the index and another
rest, with all files that PostgreSQL keeps (the WAL included); the bytes of a chunk by column and
index; and the memory of all processes, the highest seen and the one after the rest
(`tests.footprint`).

The stages are measured once more, in this process and without a database: each reads what the stage
before it made. They explain the CPU of the indexer processes and of the daemon, but are not a part
of it.
"""

import argparse
import asyncio
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from benchmarks.checkout import parts
from benchmarks.measure import machine, say
from cocosearchd.config.settings import DatabaseSettings, IndexingSettings
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.indexing.pipeline.chunker import (
    chunk_keywords,
    chunk_ranges,
    describe_chunks,
)
from cocosearchd.indexing.pipeline.embedding_text import build_embedding_texts
from cocosearchd.indexing.pipeline.file_manifest import build_file_manifest, pack_manifest
from cocosearchd.indexing.pipeline.file_reader import SourceFile, read_files
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.languages.parse import Parsed, parse
from cocosearchd.languages.references import fact_table
from cocosearchd.model import Chunk
from cocosearchd.search.lexical.analysis.documents import FileText, make_documents
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.segments.segment import build_segment
from cocosearchd.search.overlay import chunk_text
from cocosearchd.store.connection.database import Connection, Database
from tests.daemon import Daemon, make_daemon
from tests.footprint import MB, Footprint, measured_footprint, state_bytes

SETTLED_S = 5.0  # the processes of a fresh start are ready by then, if there is no rest
SAMPLE_S = 1.0  # between two measurements of the memory of all processes
LARGEST_FILE = 1 << 20
BATCH_FILES = 64  # files that pass through the stages together
PROCESSES = ("daemon", "analysis", "worker", "workers", "PostgreSQL")
STAGES = (
    *("read", "parse", "cut", "describe", "pack", "words", "embed"),
    *("lexical documents", "lexical segment"),
)
TABLES = """
select relname, pg_total_relation_size(oid) from pg_class
where (relname like 'codeindex%%' or relname like 'cocosearch_words%%') and relkind = 'r' order by 1
"""
PARTS = """
select 'heap', pg_relation_size(%(table)s::regclass)
union all select 'TOAST', coalesce((
    select pg_total_relation_size(reltoastrelid) from pg_class where oid = %(table)s::regclass
        and reltoastrelid <> 0), 0)
union all (select indexrelid::regclass::text, pg_relation_size(indexrelid) from pg_index
    where indrelid = %(table)s::regclass order by 2 desc)
"""
WAL = "select pg_current_wal_insert_lsn() - '0/0'"
COLUMNS = """
select attname from pg_attribute
where attrelid = %(table)s::regclass and attnum > 0 and not attisdropped order by attnum
"""
Result = TypeVar("Result")
Vectors = NDArray[np.float32]


@dataclass(slots=True)
class Stages:
    """CPU seconds of each stage in this process."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))

    def run(self, stage: str, compute: Callable[[], Result]) -> Result:
        """Return what `compute` returns, and add its CPU time to the stage."""
        began = time.process_time()
        result = compute()
        self.seconds[stage] += time.process_time() - began
        return result


@dataclass(frozen=True, slots=True)
class Corpus:
    """The files of a root that the daemon searches, with their languages."""

    root: Path
    languages: Mapping[str, str]
    size: int  # bytes of these files

    def each(self, seconds: float) -> str:
        """CPU seconds as milliseconds a file and seconds a megabyte."""
        return (
            f"{seconds * 1000 / len(self.languages):6.2f} ms a file, "
            f"{seconds / self.size * MB:6.3f} s a MB"
        )


def main() -> None:
    """Measure, print, and leave nothing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rest", type=float, default=60.0, help="seconds after the first index")
    parser.add_argument(
        "--variable", nargs="*", default=[], help="settings, as variables of the environment"
    )
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="cocosearch-bench-"))
    daemon = make_daemon(**dict(variable.split("=", 1) for variable in options.variable))
    say(machine())
    try:
        root = work / "root"
        shutil.copytree(
            options.directory, root, symlinks=True, ignore=shutil.ignore_patterns(".git")
        )
        measure_stages(measure_daemon(daemon, root, options.rest))
    finally:
        daemon.sweep()
        shutil.rmtree(daemon.home, ignore_errors=True)
        shutil.rmtree(work, ignore_errors=True)


def measure_daemon(daemon: Daemon, root: Path, rest_s: float) -> Corpus:
    """Measure the first index of a root by a daemon, which is started and stopped."""
    daemon.start()
    time.sleep(max(SETTLED_S, rest_s))  # the empty daemon is measured at rest as well
    wal_before = asyncio.run(wal_bytes(daemon))
    empty, cpu_before, began = state_bytes(daemon), parts(daemon), time.perf_counter()
    with peak_memory(daemon) as samples:
        daemon.ctl("up", str(root), "--name", "bench", "--wait", limit_s=7200)
        daemon.ctl("sync", "--index", "bench", "--timeout", "600", limit_s=700)
    wall, cpu_after = time.perf_counter() - began, parts(daemon)
    corpus = asyncio.run(read_corpus(daemon, root))
    spent = {name: cpu_after[name] - cpu_before[name] for name in PROCESSES}
    chunks = daemon.json("status")["indexes"][0]["chunks"]
    say(f"{len(corpus.languages)} files, {corpus.size / MB:.1f} MB, {chunks} chunks (n=1)")
    say(f"first index               {wall:.1f} s by the clock")
    for name, seconds in {**spent, "all processes": sum(spent.values())}.items():
        say(f"CPU of {name:<19}{seconds:7.2f} s, {corpus.each(seconds)}")
    say(f"written to the WAL        {(asyncio.run(wal_bytes(daemon)) - wal_before) / MB:.1f} MB")
    just_after = state_bytes(daemon)
    time.sleep(rest_s)
    say_disk(corpus, empty, just_after, state_bytes(daemon))
    say(f"memory at its highest     {max(samples, key=lambda sample: sample.total)}")
    say(f"memory at rest            {measured_footprint(daemon)}")
    asyncio.run(say_tables(daemon))
    daemon.stop()
    return corpus


@contextmanager
def peak_memory(daemon: Daemon) -> Iterator[Sequence[Footprint]]:
    """Measure the memory of all processes every second until the end of the block."""
    samples, ended = [measured_footprint(daemon)], threading.Event()

    def measure() -> None:
        while not ended.wait(SAMPLE_S):
            samples.append(measured_footprint(daemon))

    thread = threading.Thread(target=measure)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


async def read_corpus(daemon: Daemon, root: Path) -> Corpus:
    """Read from the database which files are searched, and their sizes from disk."""
    async with opened(daemon) as connection:
        files = await table(connection, "_files")
        query = sql.SQL("select filename, language_id from {} where skip_reason is null order by 1")
        rows = await (await connection.execute(query.format(sql.Identifier(files)))).fetchall()
    return Corpus(root, dict(rows), sum((root / path).stat().st_size for path, _ in rows))


async def wal_bytes(daemon: Daemon) -> int:
    """Return the bytes that the server has written to its write-ahead log so far."""
    async with opened(daemon) as connection:
        rows = await (await connection.execute(WAL)).fetchall()
    return int(rows[0][0])


@asynccontextmanager
async def opened(daemon: Daemon) -> AsyncIterator[Connection]:
    """Open a connection to the daemon's database."""
    dsn = daemon.call("status")["store"]["dsn"]
    async with Database.open(dsn, DatabaseSettings()) as db, db.connection() as connection:
        yield connection


def say_disk(
    corpus: Corpus, empty: dict[str, int], just_after: dict[str, int], at_rest: dict[str, int]
) -> None:
    """Print what the index added to the state directory, by entry."""
    added = {name: at_rest[name] - empty.get(name, 0) for name in at_rest}
    total = sum(added.values())
    entries = ", ".join(
        f"{name} {size / MB:.1f}"
        for name, size in sorted(added.items(), key=lambda entry: -entry[1])
        if size > MB / 20
    )
    say(f"disk of an empty daemon   {sum(empty.values()) / MB:.1f} MB")
    say(f"disk just after           {(sum(just_after.values()) - sum(empty.values())) / MB:.1f} MB")
    say(f"disk at rest              {total / MB:.1f} MB, {total / corpus.size:.2f} of the files")
    say(f"                          {entries}")


async def say_tables(daemon: Daemon) -> None:
    """Print the sizes of the tables, of the parts of the largest, and of its columns."""
    async with opened(daemon) as connection:
        for name, size in await (await connection.execute(TABLES)).fetchall():
            if size > MB / 20:
                say(f"table {name:<20}{size / MB:7.1f} MB")
        chunks = await table(connection, "_chunks")
        for name, size in await (await connection.execute(PARTS, {"table": chunks})).fetchall():
            say(f"  {name:<24}{size / MB:7.1f} MB")
        rows = await (await connection.execute(COLUMNS, {"table": chunks})).fetchall()
        names = [name for (name,) in rows]
        averages = sql.SQL(", ").join(
            sql.SQL("coalesce(avg(pg_column_size({})), 0)::float8").format(sql.Identifier(name))
            for name in names
        )
        query = sql.SQL("select {} from {}").format(averages, sql.Identifier(chunks))
        sizes = await (await connection.execute(query)).fetchone() or ()
        ordered = sorted(zip(names, sizes, strict=True), key=lambda column: -column[1])
        say("bytes a chunk             " + ", ".join(f"{n} {size:.0f}" for n, size in ordered))


async def table(connection: Connection, suffix: str) -> str:
    """Return the table of the only index whose name ends like this."""
    rows = await (await connection.execute(TABLES)).fetchall()
    names = [name for name, _ in rows if name.endswith(f"bench{suffix}")]
    assert len(names) == 1, names
    return str(names[0])


def measure_stages(corpus: Corpus) -> None:
    """Pass the files through the stages in this process, and print the CPU of each."""
    stages, embedder, terms = Stages(), BuiltinEmbedder(), TermCache()
    paths = list(corpus.languages)
    for first in range(0, len(paths), BATCH_FILES):
        run_batch(stages, corpus, paths[first : first + BATCH_FILES], embedder, terms)
    total = sum(stages.seconds.values())
    say("stages alone, in one process (n=1)")
    for name, seconds in {**stages.seconds, "all stages": total}.items():
        say(f"  {name:<24}{seconds:7.2f} s, {corpus.each(seconds)}, {seconds / total:5.1%}")


def run_batch(
    stages: Stages,
    corpus: Corpus,
    paths: Sequence[str],
    embedder: BuiltinEmbedder,
    terms: TermCache,
) -> None:
    """Pass a batch of files through all stages."""
    readings = stages.run("read", lambda: list(read_files(bytes(corpus.root), paths, LARGEST_FILE)))
    texts = [
        make_file_text(stages, embedder, source, corpus.languages[source.path])
        for source in readings
        if isinstance(source, SourceFile)
    ]
    documents = stages.run("lexical documents", lambda: list(make_documents(texts, terms)))
    dimension = embedder.fingerprint.dimension
    stages.run("lexical segment", lambda: build_segment(documents, dimension))


def make_file_text(
    stages: Stages, embedder: BuiltinEmbedder, source: SourceFile, language: str
) -> FileText:
    """Parse, cut, describe, pack and embed a file, as a worker process does."""
    path, data, limits = source.path, source.data, chunker_limits(IndexingSettings())
    parsed = stages.run("parse", lambda: parse(path, data, (), language))
    ranges = stages.run("cut", lambda: chunk_ranges(parsed, limits))
    chunks = stages.run("describe", lambda: describe_chunks(parsed, ranges))
    stages.run("pack", lambda: pack(parsed, chunks, language))
    stages.run("words", lambda: [chunk_keywords(chunk) for chunk in chunks])
    vectors = stages.run("embed", lambda: embed(embedder, path, chunks))
    return FileText(path, 1, language, tuple(chunk_text(chunk, path) for chunk in chunks), vectors)


def pack(parsed: Parsed, chunks: Sequence[Chunk], language: str) -> bytes:
    """Return the manifest of a file, packed, with its symbols and facts."""
    code = pack_code(parsed.symbols, fact_table.pack(parsed.facts))
    return pack_manifest(build_file_manifest(chunks, language, parsed.report, code, None))


def embed(embedder: BuiltinEmbedder, path: str, chunks: Sequence[Chunk]) -> Vectors:
    """Return the vectors of the chunks of a file, shape (chunks, dimension)."""
    return embedder.documents(build_embedding_texts(path, chunks, embedder.fingerprint.pairs()))


if __name__ == "__main__":
    main()
