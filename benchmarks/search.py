"""Latency of the search pipeline: real text, synthetic vectors, a PostgreSQL of its own.

    python -m benchmarks.search [--chunks 10000] [--queries 200] [--writer] [--several N]

Wall time is from the pipeline's call to its answer, hits widened from disk. CPU is of this process (all threads) and of
PostgreSQL, each per query. Questions are words of a random chunk, or a name that one defines.
"""

import argparse
import asyncio
import random
import re
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

from benchmarks.measure import cpu_seconds, machine, percentile
from cocosearchd.embedding.base import EmbedderFingerprint, Vectors
from cocosearchd.indexing.chunk import HEADER_VERSION, Limits, chunk, chunker_id
from cocosearchd.languages.parse import parse
from cocosearchd.languages.scopes import pack
from cocosearchd.model import Commit, Filter, IndexIdentity, IndexRecord
from cocosearchd.search.disk import content_hash
from cocosearchd.search.lexical import LexicalIndex
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.search.plan import Query
from cocosearchd.search.several import search_several
from cocosearchd.search.trace import Trace
from cocosearchd.settings import DatabaseSettings, SearchSettings
from cocosearchd.store.embedded import EmbeddedPostgres
from cocosearchd.store.migrate import migrate_registry
from cocosearchd.store.pool import Database
from cocosearchd.store.queries import FileWrite, file_chunks, replace_file, vector_search
from cocosearchd.store.records import create_index, list_indexes

DIMENSION, LATENT, CLUSTERS, NOISE = 256, 24, 3000, 0.3
# Folders by the share of files that lie in them: what a filter is measured with.
SHARES = {"five": 0.05, "one": 0.01, "rare": 0.0005}
RECALL_QUERIES = 50
SERVER = {"shared_buffers": "256MB", "max_connections": "50", "jit": "off", "random_page_cost": "1.1"}


class SyntheticEmbedder:
    """Vectors of clusters of very unequal sizes in few dimensions, with noise: near to what models give."""

    def __init__(self, seed: int) -> None:
        self.fingerprint = EmbedderFingerprint("synthetic", "clusters", str(seed), DIMENSION)
        rng = np.random.default_rng(seed)
        self._spread = rng.standard_normal((LATENT, DIMENSION)).astype(np.float32)
        self._centres = rng.standard_normal((CLUSTERS, LATENT)).astype(np.float32)
        self._shares = 1 / np.arange(1, CLUSTERS + 1)
        self._shares /= self._shares.sum()

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One vector for each text, by its content."""
        return np.stack([self._vector(text) for text in texts]) if texts else np.zeros((0, DIMENSION), np.float32)

    async def embed_query(self, text: str) -> Vectors:
        """The vector of a question."""
        return self._vector(text)

    async def aclose(self) -> None:
        """Nothing is held."""

    def _vector(self, text: str) -> NDArray[np.float32]:
        rng = np.random.default_rng(int.from_bytes(content_hash(text.encode()), "big"))
        centre = self._centres[rng.choice(CLUSTERS, p=self._shares)]
        latent = centre + NOISE * rng.standard_normal(LATENT).astype(np.float32)
        vector = latent @ self._spread + NOISE * rng.standard_normal(DIMENSION).astype(np.float32)
        found: NDArray[np.float32] = (vector / np.linalg.norm(vector)).astype(np.float32)
        return found


@dataclass
class Bench:
    """An index, what answers from it, and what it can be asked."""

    db: Database
    record: IndexRecord
    embedder: SyntheticEmbedder
    pipeline: Pipeline
    lexical: LexicalIndex
    plain: list[str]
    names: list[str]
    postgres: EmbeddedPostgres


def sources(seed: int) -> Iterator[tuple[str, bytes]]:
    """Python files of the packages that are installed here, in a random order."""
    paths = sorted(Path(np.__file__).resolve().parents[1].rglob("*.py"))
    random.Random(seed).shuffle(paths)
    for path in paths:
        data = path.read_bytes()
        if 200 < len(data) < 100_000:
            yield path.name, data


def folder(rng: random.Random) -> str:
    """Where the next file lies."""
    drawn = rng.random()
    for name, share in SHARES.items():
        if drawn < share:
            return name
        drawn -= share
    return f"rest{rng.randrange(20)}"


async def fill(db: Database, root: Path, embedder: SyntheticEmbedder, name: str, chunks: int, seed: int) -> IndexRecord:
    """Index files until there are enough chunks; their copies lie below `root`."""
    identity = IndexIdentity(embedder.fingerprint.pairs(), chunker_id(Limits()), HEADER_VERSION)
    record = await create_index(db, name, bytes(root), (), DIMENSION, identity)
    rng, done = random.Random(seed), 0
    for number, (base, data) in enumerate(sources(seed)):
        path = f"{folder(rng)}/{number}_{base}"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
        parsed = parse(path, data)
        pieces = chunk(parsed, Limits())
        vectors = await embedder.embed_documents([piece.text for piece in pieces])
        await replace_file(
            db,
            record,
            FileWrite(
                path,
                content_hash(data),
                None,
                parsed.language,
                pieces,
                vectors,
                parsed.report,
                None,
                pack(parsed.symbols),
            ),
        )
        done += len(pieces)
        if done >= chunks:
            break
    return next(each for each in await list_indexes(db) if each.name == name)


def questions(root: Path, count: int, seed: int) -> tuple[list[str], list[str]]:
    """Plain questions and names, from files of the index."""
    rng, plain, names = random.Random(seed), list[str](), list[str]()
    files = sorted(root.rglob("*.py"))
    while len(plain) < count or len(names) < count:
        text = rng.choice(files).read_text("utf-8", "replace")
        sentences = re.findall(r'"""\s*([A-Z][a-z]+(?: [a-z]+){3,7})', text)
        defined = re.findall(r"(?:def|class) ([A-Za-z]\w{4,})", text)
        if sentences:
            plain.append(rng.choice(sentences).lower())
        if defined:
            names.append(rng.choice(defined))
    return plain[:count], names[:count]


@asynccontextmanager
async def opened(home: Path, chunks: int, count: int) -> AsyncIterator[Bench]:
    """A filled index in a PostgreSQL below `home`."""
    postgres = EmbeddedPostgres(home / "state", SERVER)
    try:
        async with Database.open(postgres.ensure(), DatabaseSettings(pool_max=8)) as db:
            await migrate_registry(db)
            embedder, root = SyntheticEmbedder(1), home / "root"
            root.mkdir()
            record = await fill(db, root, embedder, "bench", chunks, 1)
            lexical = LexicalIndex(db, record, home / "lexical")
            await lexical.catch_up()
            async with db.connection() as connection:
                await connection.execute("vacuum analyze")
            pipeline = Pipeline(db, embedder, SearchSettings(), lambda _: lexical)
            yield Bench(db, record, embedder, pipeline, lexical, *questions(root, count, 2), postgres)
    finally:
        postgres.stop()


async def measure(bench: Bench, name: str, texts: Sequence[str], ask: Callable[[str], Awaitable[object]]) -> None:
    """Ask each text once, after a few to warm up, and print a row."""
    for text in texts[:5]:
        await ask(text)
    servers = [psutil.Process(pid) for pid in bench.postgres.pids()]
    wall, cpu, before = list[float](), list[float](), cpu_seconds(servers)
    for text in texts:
        began, used = time.perf_counter(), time.process_time()
        await ask(text)
        wall.append((time.perf_counter() - began) * 1000)
        cpu.append((time.process_time() - used) * 1000)
    theirs = (cpu_seconds(servers) - before) * 1000 / len(texts)
    cells = [percentile(values, share) for values in (wall, cpu) for share in (0.5, 0.95)]
    print(f"| {name} | {' | '.join(f'{cell:.2f}' for cell in cells)} | {theirs:.2f} | {len(texts)} |")


def row(bench: Bench, **parameters: object) -> Callable[[str], Awaitable[object]]:
    """Asks the pipeline with these parameters."""
    query = replace(Query(""), **parameters)  # type: ignore[arg-type]

    async def ask(text: str) -> object:
        return await bench.pipeline.run(bench.record, replace(query, text=text), Trace())

    return ask


async def latencies(bench: Bench) -> None:
    """The table."""
    plain, names = bench.plain, bench.names
    print("| question | wall p50 ms | wall p95 | CPU p50 ms | CPU p95 | PostgreSQL CPU mean ms | n |")
    print("|---|---|---|---|---|---|---|")
    again = [text for text, _ in zip(cycle(plain[:20]), range(5 * len(plain)), strict=False)]
    await measure(bench, "kept (exact)", again, row(bench))
    await measure(bench, "code, plain words", plain, row(bench, use_cache=False))
    await measure(bench, "code, a name", names, row(bench, use_cache=False))
    for folder_name, share in SHARES.items():
        ask = row(bench, use_cache=False, paths=(f"{folder_name}/**",))
        await measure(bench, f"code, filter on {share:.2%} of files", plain, ask)
    await measure(bench, "code, functions only", plain, row(bench, use_cache=False, symbol_types=("function",)))
    await measure(bench, "classic, plain words", plain, row(bench, use_cache=False, profile="classic"))
    await measure(bench, "classic, a name", names, row(bench, use_cache=False, profile="classic"))
    for folder_name, share in SHARES.items():
        ask = row(bench, use_cache=False, profile="classic", paths=(f"{folder_name}/**",))
        await measure(bench, f"classic, filter on {share:.2%} of files", plain, ask)
    ask = row(bench, use_cache=False, profile="classic", reranker="functional")
    await measure(bench, "classic, functional reranker", plain[:50], ask)
    warm, bench.pipeline = bench.pipeline, Pipeline(bench.db, bench.embedder, SearchSettings())
    await measure(bench, "code while the lexical index is cold, plain words", plain, row(bench, use_cache=False))
    await measure(bench, "code while the lexical index is cold, a name", names, row(bench, use_cache=False))
    bench.pipeline = warm


async def recall(bench: Bench) -> None:
    """The vector leg against an exact scan in memory of the vectors as stored."""
    keys, vectors = list[tuple[str, int, int]](), list[NDArray[np.float32]]()
    async for file in file_chunks(bench.db, bench.record, None):
        for one in file.chunks:
            if one.vector is not None:
                keys.append((file.path, one.start_byte, one.end_byte))
                vectors.append(one.vector.astype(np.float32))
    matrix, hits = np.stack(vectors), 0
    asked = bench.plain[:RECALL_QUERIES]
    for text in asked:
        vector = await bench.embedder.embed_query(text)
        best = {keys[place] for place in np.argsort(-(matrix @ vector))[:10].tolist()}
        hits += len(best & {each.key for each in await vector_search(bench.db, bench.record, vector, Filter(), 10)})
    print(f"recall@10 of the vector leg: {hits / (10 * len(asked)):.4f} (n={len(asked)})")


async def with_writer(bench: Bench) -> None:
    """The same questions while files are replaced, each by itself with a line more."""
    root, stop = Path(bench.record.root.decode()), asyncio.Event()
    paths = sorted(root.rglob("*.py"))  # noqa: ASYNC240 - before anything is measured

    async def write() -> None:
        rng, count = random.Random(3), 0
        while not stop.is_set():
            path, count = rng.choice(paths), count + 1
            data = path.read_bytes() + f"\nEDIT_{count} = {count}\n".encode()
            path.write_bytes(data)
            name = str(path.relative_to(root))
            parsed = await asyncio.to_thread(parse, name, data)
            pieces = await asyncio.to_thread(chunk, parsed, Limits())
            vectors = await bench.embedder.embed_documents([piece.text for piece in pieces])
            write = FileWrite(
                name,
                content_hash(data),
                None,
                parsed.language,
                pieces,
                vectors,
                parsed.report,
                None,
                pack(parsed.symbols),
            )
            generation = await replace_file(bench.db, bench.record, write)
            await bench.lexical.apply(Commit(bench.record.name, generation, (name,)))
            bench.record = replace(bench.record, generation=generation)
            await asyncio.sleep(0.05)

    writing = asyncio.create_task(write())
    try:
        await measure(bench, "code beside a writer, plain words", bench.plain, row(bench, use_cache=False))
        ask = row(bench, use_cache=False, profile="classic", use_hybrid=True)
        await measure(bench, "classic hybrid beside a writer, plain words", bench.plain, ask)
    finally:
        stop.set()
        await writing


async def with_several(bench: Bench, home: Path, count: int, chunks: int) -> None:
    """One question to `count` indexes that together have `chunks` chunks."""
    lexical, records = dict[str, LexicalIndex](), list[IndexRecord]()
    for number in range(count):
        name = f"part{number}"
        record = await fill(bench.db, home / name, bench.embedder, name, chunks // count, 10 + number)
        records.append(record)
        lexical[name] = LexicalIndex(bench.db, record, home / "words" / name)
        await lexical[name].catch_up()
    pipeline = Pipeline(bench.db, bench.embedder, SearchSettings(), lexical.get)

    async def ask(text: str) -> object:
        return await search_several(pipeline, records, Query(text, use_cache=False))

    await measure(bench, f"code, {count} indexes of {chunks // count} chunks", bench.plain, ask)


async def main() -> None:
    """Fill, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--writer", action="store_true", help="also measure beside a writer")
    parser.add_argument("--several", type=int, default=0, metavar="N", help="also ask N smaller indexes at once")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="cocosearch-bench-", dir="/tmp") as home:
        Path(home).chmod(0o711)  # noqa: ASYNC240
        async with opened(Path(home), options.chunks, options.queries) as bench:
            print(dict(bench.lexical.sizes()))
            await latencies(bench)
            if options.writer:
                await with_writer(bench)
            if options.several:
                await with_several(bench, Path(home), options.several, options.chunks)
            await recall(bench)


if __name__ == "__main__":
    asyncio.run(main())
