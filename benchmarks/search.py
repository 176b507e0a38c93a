"""Latency of the search pipeline over real text, with vectors of the built-in model.

    python -m benchmarks.search [--chunks 10000] [--queries 100] [--writer] [--several N] [--home DIR]
        [--reports CASES.jsonl] [--askings N]

Wall time is from the pipeline's call to its answer, hits widened from disk. CPU is of this process
(all threads) and of PostgreSQL, each per query. Questions are words of a random file, or a name
that one defines; `--reports` asks bug reports of 3,500 to 4,500 characters as well (the file is
that of `benchmarks.quality.issues`). With `--home` the index is made once and kept: a million chunks take a quarter of
an hour.
"""

import argparse
import asyncio
import random
import re
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

from benchmarks.measure import cpu_seconds, machine, percentile
from benchmarks.quality.issue_outcomes import read_cases
from benchmarks.search_corpus import SHARES, Home, connected, corpus
from cocosearchd.config.settings import IndexingSettings, SearchSettings
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.indexing.pipeline.chunker import chunk_file, chunk_keywords
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.languages.parse import parse
from cocosearchd.model import Commit, IndexRecord, hash_content
from cocosearchd.runtime import interpreter
from cocosearchd.search.answers.multi_index import search_several
from cocosearchd.search.classic.word_splitter import split_in_thread
from cocosearchd.search.code.file_masks import file_mask
from cocosearchd.search.lexical.analysis.analyser import ProcessAnalyser
from cocosearchd.search.lexical.index_snapshot import compute_signal_matrix
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.search.plan import parse_query
from cocosearchd.search.trace import Trace
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.chunks.rows import FileWrite
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.chunk_reads import file_chunks
from cocosearchd.store.server.embedded import EmbeddedPostgres
from cocosearchd.store.words.words_table import fill_words

RECALL_QUERIES = 40
REPORT_CHARACTERS = range(3500, 4500)


@dataclass
class Bench:
    """An index, what answers from it, and what it can be asked."""

    home: Home
    db: Database
    record: IndexRecord
    embedder: BuiltinEmbedder
    pipeline: Pipeline
    lexical: LexicalIndex
    plain: list[str]
    names: list[str]
    postgres: EmbeddedPostgres
    analyser: ProcessAnalyser
    askings: int = 1  # of each question


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
async def opened(home: Home, chunks: int, count: int) -> AsyncIterator[Bench]:
    """A filled index in a PostgreSQL below `home`, its words in memory, saved for the next time."""
    analyser = ProcessAnalyser()
    async with connected(home) as (db, postgres), aclosing(analyser.pool):
        record = await corpus(db, home, "bench", chunks)
        lexical = LexicalIndex(db, record, home.words / "bench", analyser)
        async with warm(lexical):
            embedder = BuiltinEmbedder()
            pipeline = Pipeline(db, embedder, SearchSettings(), lambda _: lexical)
            texts = questions(home.root / "bench", count, 2)
            yield Bench(home, db, record, embedder, pipeline, lexical, *texts, postgres, analyser)


@asynccontextmanager
async def warm(lexical: LexicalIndex) -> AsyncIterator[None]:
    """The index at work, as the daemon runs it."""
    running = asyncio.create_task(lexical.run())
    try:
        while not lexical.warm:  # noqa: ASYNC110 - it has no event for that
            await asyncio.sleep(0.1)
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def measure(
    bench: Bench, name: str, texts: Sequence[str], ask: Callable[[str], Awaitable[object]]
) -> None:
    """Ask each text, after a few to warm up, and print a row; of several askings the least counts."""
    for text in texts[:5]:
        await ask(text)
    servers = [psutil.Process(pid) for pid in bench.postgres.pids()]
    wall, cpu, cpu_before = list[float](), list[float](), cpu_seconds(servers)
    for text in texts:
        costs = [await cost(ask, text) for _ in range(bench.askings)]
        wall.append(min(elapsed for elapsed, _ in costs))
        cpu.append(min(used for _, used in costs))
    theirs = (cpu_seconds(servers) - cpu_before) * 1000 / (len(texts) * bench.askings)
    cells = [percentile(values, share) for values in (wall, cpu) for share in (0.5, 0.95)]
    print(
        f"| {name} | {' | '.join(f'{cell:.2f}' for cell in cells)} | {theirs:.2f} | {len(texts)} |"
    )


async def cost(ask: Callable[[str], Awaitable[object]], text: str) -> tuple[float, float]:
    """Ask a text; wall and CPU milliseconds."""
    began, used = time.perf_counter(), time.process_time()
    await ask(text)
    return (time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000


def row(bench: Bench, **parameters: object) -> Callable[[str], Awaitable[object]]:
    """Asks the pipeline with these parameters."""

    async def ask(text: str) -> object:
        return await bench.pipeline.run(bench.record, parse_query(text, **parameters), Trace())

    return ask


async def latencies(bench: Bench) -> None:
    """The table."""
    plain, names = bench.plain, bench.names
    print(
        "| question | wall p50 ms | wall p95 | CPU p50 ms | CPU p95 | PostgreSQL CPU mean ms | n |"
    )
    print("|---|---|---|---|---|---|---|")
    again = [text for text, _ in zip(cycle(plain[:20]), range(5 * len(plain)), strict=False)]
    for text in plain[:20]:
        await row(bench)(text)
    await measure(bench, "kept (exact)", again, row(bench))
    await measure(bench, "code, plain words", plain, row(bench, use_cache=False))
    await measure(bench, "code, a name", names, row(bench, use_cache=False))
    for folder_name, share in SHARES.items():
        ask = row(bench, use_cache=False, paths=(f"{folder_name}/**",))
        await measure(bench, f"code, filter on {share:.2%} of files", plain, ask)
    await measure(
        bench,
        "code, functions only",
        plain,
        row(bench, use_cache=False, symbol_types=("function",)),
    )
    phrases = [f'"{" ".join(text.split()[:2])}" {text}' for text in plain[:20]]
    await measure(bench, "code, a phrase in quotes", phrases, row(bench, use_cache=False))


async def report_latencies(bench: Bench, cases: Path) -> None:
    """The row of bug reports."""
    reports = [case.query for case in read_cases(cases) if len(case.query) in REPORT_CHARACTERS]
    await measure(bench, "code, a bug report", reports, row(bench, use_cache=False))


async def through_postgres(bench: Bench) -> None:
    """The rows of the profile that asks PostgreSQL, and of the other one while it has to."""
    plain, names = bench.plain, bench.names
    ask = row(bench, use_cache=False, profile="classic", use_hybrid=True)
    await measure(bench, "classic, words not stored, plain words", plain[:5], ask)
    began = time.perf_counter()
    await fill_words(bench.db, bench.record, split_in_thread)
    print(f"words stored in {time.perf_counter() - began:.1f} s")
    await measure(bench, "classic, all words, plain words", plain, ask)
    await measure(
        bench, "classic, plain words", plain, row(bench, use_cache=False, profile="classic")
    )
    await measure(bench, "classic, a name", names, row(bench, use_cache=False, profile="classic"))
    for folder_name, share in SHARES.items():
        ask = row(bench, use_cache=False, profile="classic", paths=(f"{folder_name}/**",))
        await measure(bench, f"classic, filter on {share:.2%} of files", plain, ask)
    ask = row(bench, use_cache=False, profile="classic", reranker="functional")
    await measure(bench, "classic, functional reranker", plain[:50], ask)
    with_words, bench.pipeline = (
        bench.pipeline,
        Pipeline(bench.db, bench.embedder, SearchSettings()),
    )
    await measure(
        bench,
        "code while the lexical index is cold, plain words",
        plain,
        row(bench, use_cache=False),
    )
    await measure(
        bench, "code while the lexical index is cold, a name", names, row(bench, use_cache=False)
    )
    bench.pipeline = with_words


async def recall(bench: Bench) -> None:
    """The vector leg, and what the profile `code` compares, against an exact scan of the vectors as
    stored.
    """
    keys, vectors = list[tuple[str, int, int]](), list[NDArray[np.float16]]()
    async for file in file_chunks(bench.db, bench.record, None):
        for chunk in file.chunks:
            if chunk.vector is not None:
                keys.append((file.path, chunk.start_byte, chunk.end_byte))
                vectors.append(chunk.vector)
    matrix = np.stack(vectors)
    print("| recall@10 of the cosines that `code` compares | mean | least | n |")
    print("|---|---|---|---|")
    for name in ("", *SHARES):
        rows = [
            number for number, key in enumerate(keys) if not name or key[0].startswith(f"{name}/")
        ]
        recalls = [
            await _recall_of(bench, text, name, keys, matrix, rows)
            for text in bench.plain[:RECALL_QUERIES]
        ]
        label = f"filter on {SHARES[name]:.2%} of files" if name else "no filter"
        print(
            f"| {label} | {sum(recalls) / len(recalls):.3f} | {min(recalls):.1f} | {len(recalls)} |"
        )


async def _recall_of(
    bench: Bench,
    text: str,
    folder_name: str,
    keys: Sequence[tuple[str, int, int]],
    matrix: NDArray[np.float16],
    rows: Sequence[int],
) -> float:
    """The share of the ten chunks nearest by an exact scan that are among the ten nearest that were
    compared.
    """
    vector = await bench.embedder.embed_query(text)
    if not vector.any() or not rows:
        return 1.0
    exact = np.concatenate(
        [
            matrix[rows[start : start + 50_000]].astype(np.float32) @ vector
            for start in range(0, len(rows), 50_000)
        ]
    )
    best = {keys[rows[row]][:2] for row in np.argsort(-exact)[:10].tolist()}
    hits = await compared(bench, text, vector, (f"{folder_name}/**",) if folder_name else ())
    return len(best & set(hits)) / len(best)


async def compared(
    bench: Bench, text: str, vector: NDArray[np.float32], paths: tuple[str, ...]
) -> list[tuple[str, int]]:
    """The ten chunks that pass the filter and have the highest cosine known to the profile
    `code`.
    """
    parsed = bench.lexical.make_query_terms(text)
    snapshot = await bench.lexical.snapshot()
    assert snapshot is not None
    evidence = compute_signal_matrix(
        snapshot, parsed, bench.lexical.terms, vector, partial(file_mask, Filter(paths=paths))
    )
    assert evidence.chunks.cosines is not None
    cosines = np.nan_to_num(evidence.chunks.cosines, nan=-2)
    if evidence.allowed is not None:
        cosines[~evidence.allowed[evidence.chunks.files]] = -2
    order = np.argsort(-cosines)[:10].tolist()
    return [
        (evidence.paths[evidence.chunks.files[chunk]], int(evidence.chunks.keys[chunk, 0]))
        for chunk in order
    ]


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
            pieces = await asyncio.to_thread(chunk_file, parsed, chunker_limits(IndexingSettings()))
            vectors = await bench.embedder.embed_documents([piece.text for piece in pieces])
            write = FileWrite(
                name,
                hash_content(data),
                None,
                parsed.language,
                pieces,
                vectors,
                parsed.report,
                None,
                pack_code(parsed.symbols, b""),
                keywords=chunk_keywords,
            )
            generation = await replace_file(bench.db, bench.record, write)
            await bench.lexical.apply(Commit(bench.record.name, generation, (name,)))
            bench.record = replace(bench.record, generation=generation)
            await asyncio.sleep(0.05)

    await fill_words(bench.db, bench.record, split_in_thread)
    writing = asyncio.create_task(write())
    try:
        await measure(
            bench, "code beside a writer, plain words", bench.plain, row(bench, use_cache=False)
        )
        ask = row(bench, use_cache=False, profile="classic", use_hybrid=True)
        await measure(bench, "classic hybrid beside a writer, plain words", bench.plain, ask)
    finally:
        stop.set()
        await writing


async def with_several(bench: Bench, count: int, chunks: int) -> None:
    """One question to `count` indexes that together have `chunks` chunks."""
    lexical, records = dict[str, LexicalIndex](), list[IndexRecord]()
    for number in range(count):
        name = f"part{number}"
        records.append(await corpus(bench.db, bench.home, name, chunks // count, 10 + number))
        lexical[name] = LexicalIndex(bench.db, records[-1], bench.home.words / name, bench.analyser)
        await lexical[name].catch_up()
    pipeline = Pipeline(bench.db, bench.embedder, SearchSettings(), lexical.get)

    async def ask(text: str) -> object:
        return await search_several(pipeline, records, parse_query(text, use_cache=False))

    await measure(bench, f"code, {count} indexes of {chunks // count} chunks", bench.plain, ask)


async def run(options: argparse.Namespace, home: Path) -> None:
    """Everything that was asked for."""
    home.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240
    home.chmod(0o711)  # noqa: ASYNC240
    async with opened(Home(home), options.chunks, options.queries) as bench:
        bench.askings = options.askings
        print(dict(bench.lexical.sizes()))
        await latencies(bench)
        if options.reports is not None:
            await report_latencies(bench, options.reports)
        if not options.code:
            await through_postgres(bench)
        if options.several:
            await with_several(bench, options.several, options.chunks)
        if options.writer:
            await with_writer(bench)
        memory = psutil.Process().memory_full_info()
        print(
            f"memory: {memory.uss / 2**20:.0f} MiB of its own, {memory.rss / 2**20:.0f} MiB with mapped files"
        )
        await recall(bench)


def main() -> None:
    """Fill, ask, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--writer", action="store_true", help="also measure beside a writer")
    parser.add_argument(
        "--several", type=int, default=0, metavar="N", help="also ask N smaller indexes at once"
    )
    parser.add_argument(
        "--askings",
        type=int,
        default=1,
        help="of each question: the least counts, on a busy machine",
    )
    parser.add_argument("--reports", type=Path, metavar="CASES.jsonl")
    parser.add_argument(
        "--code", action="store_true", help="leave out what PostgreSQL ranks: seconds at a million"
    )
    parser.add_argument(
        "--home", type=Path, metavar="DIR", help="keep the index here for the next time"
    )
    options = parser.parse_args()
    print(machine())
    interpreter.configure_interpreter()
    with tempfile.TemporaryDirectory(prefix="cocosearch-bench-", dir="/tmp") as home:
        asyncio.run(run(options, options.home or Path(home)))


if __name__ == "__main__":
    main()
