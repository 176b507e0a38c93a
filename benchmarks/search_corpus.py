"""Makes an index of any size over real text, once: the corpus of `benchmarks.search`.

Files are those of the standard library and of the installed packages. When there are not enough,
they are repeated under other names, their vectors turned a little aside, so that no two chunks are
alike. Secondary indexes are made at the end.
"""

import itertools
import random
import shutil
import sysconfig
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cocosearchd.config.settings import DatabaseSettings, IndexingSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.indexing.pipeline.chunker import (
    HEADER_VERSION,
    chunk_file,
    chunk_keywords,
    chunker_id,
)
from cocosearchd.indexing.pipeline.skip_rules import content_skip_reason
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.detect import HEAD_BYTES, detect, is_supported
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.languages.parse import parse
from cocosearchd.model import IndexIdentity, IndexRecord, hash_content
from cocosearchd.store.chunks.file_writer import replace_files
from cocosearchd.store.chunks.rows import FileWrite
from cocosearchd.store.connection.database import Connection, Database
from cocosearchd.store.connection.migrate import migrate_registry
from cocosearchd.store.index_records import create_index, list_indexes
from cocosearchd.store.server.embedded import EmbeddedPostgres

# Folders by the share of files that lie in them: what a filter is measured with.
SHARES = {"five": 0.05, "one": 0.01, "rare": 0.0005}
ASIDE = 0.45  # length of the noise on a repeated vector: its cosine with the first is about .91
SERVER = {
    "shared_buffers": "256MB",
    "max_connections": "50",
    "jit": "off",
    "random_page_cost": "1.1",
}
LOADING = {"statement_timeout": "0", "maintenance_work_mem": "512MB"}
BATCH_FILES = 100


@dataclass(frozen=True, slots=True)
class Source:
    """A file to be indexed, with its vectors before they are turned aside."""

    path: Path
    write: FileWrite


@dataclass(frozen=True, slots=True)
class Home:
    """The parts of a benchmark's index: a PostgreSQL, the files, and the snapshots of the lexical
    index.
    """

    path: Path

    @property
    def root(self) -> Path:
        """The files."""
        return self.path / "root"

    @property
    def words(self) -> Path:
        """The snapshots."""
        return self.path / "words"


@asynccontextmanager
async def connected(home: Home) -> AsyncIterator[tuple[Database, EmbeddedPostgres]]:
    """The PostgreSQL of `home`, made if it is missing, stopped at the end."""
    home.root.mkdir(parents=True, exist_ok=True)
    postgres = EmbeddedPostgres(home.path / "state", SERVER)
    try:
        async with Database.open(postgres.ensure(), DatabaseSettings(pool_max=8)) as db:
            await migrate_registry(db)
            yield db, postgres
    finally:
        postgres.stop()


async def corpus(db: Database, home: Home, name: str, chunks: int, seed: int = 1) -> IndexRecord:
    """The index `name` with at least `chunks` chunks below `home.root`; made unless it is there."""
    records = {record.name: record for record in await list_indexes(db)}
    if name in records:
        return records[name]
    embedder = BuiltinEmbedder()
    identity = IndexIdentity(
        embedder.fingerprint.pairs(), chunker_id(chunker_limits(IndexingSettings())), HEADER_VERSION
    )
    root = home.root / name
    root.mkdir()
    record = await create_index(db, name, bytes(root), (), embedder.fingerprint.dimension, identity)
    await _load(db, record, root, embedder, chunks, seed)
    return next(record for record in await list_indexes(db) if record.name == name)


def sources(seed: int) -> Iterator[Path]:
    """Files of supported types of the standard library and of the installed packages, in a random
    order.
    """
    paths = sysconfig.get_paths()
    source_paths = sorted(
        {
            p
            for top in ("stdlib", "purelib")
            for p in Path(paths[top]).rglob("*")
            if is_supported(p.name)
        }
    )
    random.Random(seed).shuffle(source_paths)
    yield from (
        path for path in source_paths if path.is_file() and 200 < path.stat().st_size < 100_000
    )


async def prepared(seed: int, embedder: Embedder) -> AsyncIterator[Source]:
    """Each source parsed, chunked and embedded, under its own name."""
    for path in sources(seed):
        data = path.read_bytes()
        language = detect(path.name, data[:HEAD_BYTES])
        if not language or content_skip_reason(data, 1 << 20):
            continue
        parsed = parse(path.name, data)
        pieces = chunk_file(parsed, chunker_limits(IndexingSettings()))
        vectors = await embedder.embed_documents(
            [f"{chunk.header}\n{chunk.text}" for chunk in pieces]
        )
        yield Source(
            path,
            FileWrite(
                path.name,
                hash_content(data),
                None,
                language,
                pieces,
                vectors,
                parsed.report,
                code=pack_code(parsed.symbols, b""),
                keywords=chunk_keywords,
            ),
        )


async def _load(
    db: Database, record: IndexRecord, root: Path, embedder: Embedder, chunks: int, seed: int
) -> None:
    rng, noise, done = random.Random(seed), np.random.default_rng(seed), 0
    firsts, files = list[Source](), list[FileWrite]()
    async with db.session(LOADING) as connection:
        definitions = await _without_indexes(connection, record)
        async for number, (source, again) in _repeated(prepared(seed, embedder), firsts):
            path = f"{folder(rng)}/{number}_{source.path.name}"
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.path, root / path)
            write = _moved(source.write, path, noise if again else None)
            files.append(write)
            done += len(write.chunks)
            if len(files) == BATCH_FILES or done >= chunks:
                await replace_files(db, record, files)
                files = []
            if done >= chunks:
                break
        for definition in definitions:
            await connection.execute(definition.encode())
        await connection.execute("vacuum analyze")


async def _repeated(
    first: AsyncIterator[Source], repeated: list[Source]
) -> AsyncIterator[tuple[int, tuple[Source, bool]]]:
    """The sources, then the same again and again; numbered, and whether each has come before."""
    number = 0
    async for source in first:
        repeated.append(source)
        yield number, (source, False)
        number += 1
    for source in itertools.cycle(repeated):
        yield number, (source, True)
        number += 1


def folder(rng: random.Random) -> str:
    """Return the folder of the next file."""
    drawn = rng.random()
    for name, share in SHARES.items():
        if drawn < share:
            return name
        drawn -= share
    return f"rest{rng.randrange(20)}"


def _moved(write: FileWrite, path: str, noise: np.random.Generator | None) -> FileWrite:
    vectors = write.vectors
    if noise is not None and len(vectors):
        aside = noise.standard_normal(vectors.shape).astype(np.float32)
        aside *= ASIDE / np.linalg.norm(aside, axis=1, keepdims=True)
        vectors = np.where(vectors.any(axis=1, keepdims=True), vectors + aside, 0)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return FileWrite(
        path,
        write.content_hash,
        None,
        write.language,
        write.chunks,
        np.asarray(vectors, np.float32),
        write.report,
        code=write.code,
        keywords=write.keywords,
    )


async def _without_indexes(connection: Connection, record: IndexRecord) -> list[str]:
    """Drop the secondary indexes of the chunks; their definitions."""
    names = await connection.execute(
        "select indexrelid::regclass::text, pg_get_indexdef(indexrelid) from pg_index"
        " where indrelid = to_regclass(%s) and not indisprimary",
        [f'"codeindex_{record.slug}__{record.slug}_chunks"'],
    )
    rows = await names.fetchall()
    for name, _ in rows:
        await connection.execute(f"drop index {name}".encode())
    return [definition for _, definition in rows]
