"""Bulk work in worker processes: rows equal those of the indexer alone, and no file is lost."""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import psutil
import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.embedding.caching import CachingEmbedder, ReuseCounters
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.embedding.vector_cache import VectorCache
from cocosearchd.indexing.indexer.index_threads import IndexThreads
from cocosearchd.indexing.indexer.row_maker import RowMaker, RowRules
from cocosearchd.indexing.indexer.transaction_group import GroupWriter
from cocosearchd.indexing.indexer.work_priority import WorkPriority
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.indexing.pipeline.file_reader import SourceFile, read_files
from cocosearchd.indexing.pool import bulk_worker
from cocosearchd.indexing.pool.bulk_messages import (
    MAX_BULK_FILE_BYTES,
    TaskInput,
    TaskRequest,
    TaskResult,
)
from cocosearchd.indexing.pool.bulk_pool import (
    COMMAND,
    MAX_FAILURES,
    BulkPool,
    BulkPoolLimits,
    TaskOutcome,
)
from cocosearchd.indexing.pool.parse_task import BATCH_BYTES, BATCH_FILES, split_batches
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.model import IndexRecord
from cocosearchd.runtime.disk_cache import DiskCache
from cocosearchd.sandbox.code_digest import installed_code_digest
from cocosearchd.sandbox.worker_process import STOP_S
from cocosearchd.store.chunks.rows import FileWrite
from cocosearchd.store.connection.database import Database
from cocosearchd.store.index_records import damaged_files, table_digest
from tests.indexing.conftest import python
from tests.indexing.parsing import NOTHING, RULES, ParserHere, open_caches
from tests.indexing.support import every_path, fresh_digest, new_record, running
from tests.store.support import new_index
from tests.waiting import until

pytestmark = pytest.mark.anyio

CASES = Path(__file__).parents[2] / "languages" / "cases" / "source"
EMBEDDER = BuiltinEmbedder()
REQUEST = TaskRequest(RULES.limits, (), EMBEDDER.fingerprint.pairs(), ())
# On a busy machine this process takes longer between two requests than workers stay without work.
EAGER = BulkPoolLimits(bytes_per_worker=1, idle_s=600.0)
# A broken worker process, which does this with its first request.
SCRIPT = """
import os, socket, sys, time
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.indexing.pool import bulk_messages, bulk_worker
from cocosearchd.sandbox.frames import encode_frame, read_frame
NONE = bulk_messages.TaskResult(b"", (), b"", False)
def answer(made):
    return encode_frame(bulk_messages.pack_task_results(made))
stream = socket.socket(fileno=int(sys.argv[1])).makefile("rwb")
stream.write(encode_frame(b""))
stream.flush()
order = bulk_messages.unpack_task_request(read_frame(stream))
{act}
stream.flush()
time.sleep(60)
"""
ACTS = {
    "dies": "os.kill(os.getpid(), 9)",
    "ends": "sys.exit(7)",
    "hangs": "pass",
    "babbles": "stream.write(os.urandom(4096))",
    "cuts off": "stream.write(answer([])[:-1]); stream.flush(); os._exit(0)",
    "errs in a bit": "frame = bytearray(answer(bulk_worker.process_request(order, BuiltinEmbedder()))); "
    "frame[-1] ^= 1; stream.write(frame)",
    "answers of others": "stream.write(answer([NONE] * 999))",
    "answers twice": "stream.write(answer([NONE]) * 9)",
}


class Watched(BulkPool):
    """A pool that counts results."""

    done = 0

    async def process(self, *arguments: object) -> list[TaskOutcome]:
        results = await super().process(*arguments)  # type: ignore[arg-type]
        self.done += sum(isinstance(result, TaskResult) for result in results)
        return results


def handles_of(pid: int) -> dict[int, str]:
    """Return the open handles and their targets."""
    handles = dict[int, str]()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one by which this is read
            handles[int(path.name)] = os.fspath(path.readlink())
    return handles


async def pause() -> None:
    pass


@asynccontextmanager
async def open_pool(
    size: int = 2,
    terms: BulkPoolLimits = EAGER,
    command: Sequence[str] = COMMAND,
    *,
    code: str = "",
) -> AsyncIterator[Watched]:
    pool = Watched(size, code or installed_code_digest(), terms, command)
    try:
        yield pool
    finally:
        await pool.aclose()
        assert not pool._workers


async def ready(pool: BulkPool, count: int) -> list[psutil.Process]:
    """Wait until `count` workers are ready; the request that starts them does not wait for them."""
    assert await pool.process(REQUEST, [asked("start.py", "")], pause) == [None]
    await until(lambda: sum(worker.ready for worker in pool._workers) >= count)
    return [psutil.Process(worker.process.pid) for worker in pool._workers]


async def gone(processes: Sequence[psutil.Process]) -> None:
    await until(lambda: not any(map(_lives, processes)))


def _lives(process: psutil.Process) -> bool:
    """Return whether a process runs; False also for one that ends at this moment."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def asked(path: str, text: str) -> TaskInput:
    return TaskInput(path, "python", (text or "x = 1\n").encode(), b"")


def sources(root: Path) -> list[SourceFile]:
    return [
        file
        for file in read_files(bytes(root), every_path(root), 1 << 20)
        if isinstance(file, SourceFile)
    ]


def maker(disk_cache: DiskCache | None, pool: BulkPool | None, rules: RowRules = RULES) -> RowMaker:
    work_priority = WorkPriority()
    caches = open_caches(disk_cache, rules)
    return RowMaker(
        rules,
        EMBEDDER,
        caches.keys,
        caches.manifests,
        caches.counters,
        work_priority,
        IndexThreads(work_priority),
        ParserHere(rules.limits),
        pool,
    )


@pytest.fixture(params=[4, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def mixed(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Files of some or all languages, and what is none: empty, blank, binary, not UTF-8, with NULs,
    of one line, twice.

    Each process compiles the queries of each language that it meets: 0.1 s of CPU.
    """
    root = tmp_path / "mixed"
    files = {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for path in sorted(path for path in CASES.rglob("*") if path.is_file())[:: request.param]
    }
    files = {
        name: data
        for name, data in files.items()
        if len(data) < 60_000 and b"PRIVATE KEY" not in data
    }
    files |= {
        f"many/{number}.py": python(f"name{number}", number).encode() * 3 for number in range(60)
    }
    files |= {
        "odd/empty.py": b"",
        "odd/blank.py": b"\n \n\n",
        "odd/binary.py": b"\0\1\2" * 50,
        "odd/latin.py": "def caf\u00e9():\n    return 'cr\u00e8me'\n".encode("latin-1") * 9,
        "odd/crlf.py": python("windows").replace("\n", "\r\n").encode(),
        "odd/line.py": b"x = '" + b"a" * 30_000 + b"'\n",
        "odd/broken.py": b"def (((:\n" * 40,
        "odd/large.py": b"".join(
            python(f"large{number}", number).encode() for number in range(400)
        ),
        "odd/twice.py": python("name7", 7).encode() * 3,
        "odd/plain.xyz": b"words of no language\n" * 40,
        "odd/ leading blank.py": python("blank").encode(),
    }
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


async def of_index(db: Database, name: str) -> IndexRecord:
    return await new_index(db, name, f"/{name}".encode(), EMBEDDER.fingerprint.dimension)


async def write(writer: GroupWriter[SourceFile], files: Sequence[SourceFile]) -> None:
    writer.expect([file.path for file in files])
    await asyncio.gather(*(writer.apply(file.path, file, urgent=False) for file in files))


async def test_rows_equal_those_that_the_indexer_makes_alone(
    db: Database, cacheable: DiskCache, mixed: Path
) -> None:
    """A first index and a change of every file, then what was stored first again; vectors and words
    as well.

    Once with what is kept of files, and once without.
    """
    records = [await of_index(db, name) for name in ("alone", "keeping", "forgetting")]
    first = sources(mixed)
    for path in (mixed / "many").iterdir():
        text = path.read_text()
        path.write_text(
            text.replace("total", "sum", 3) + "\n# more\n" + python(path.stem + "_more")
        )
    second = sources(mixed)
    async with open_pool() as pool:
        makers = [maker(None, None), maker(cacheable, pool), maker(None, pool)]
        alone, keeping, forgetting = (
            GroupWriter(db, record, WorkPriority(), make)
            for record, make in zip(records, makers, strict=True)
        )
        await ready(pool, 1)
        for files, min_done in ((first, len(first) * 3 // 4), (second, 55), (first, 0)):
            await write(alone, files)
            expected = await table_digest(db, records[0])
            pool.done = 0
            await write(keeping, files)
            assert await table_digest(db, records[1]) == expected
            assert pool.done >= min_done
            assert min_done or not pool.done, "all of it was known"
            pool.done = 0
            await write(forgetting, files)
            assert await table_digest(db, records[2]) == expected
            assert pool.done >= (min_done or 55)
    assert await damaged_files(db, records[1]) == await damaged_files(db, records[2]) == ()


async def test_results_of_workers_are_cached(tmp_path: Path, cacheable: DiskCache) -> None:
    """Manifests and vectors are cached and counted."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.py").write_text(python("a"))
    (source,) = sources(tmp_path / "root")
    counters, store = ReuseCounters(), VectorCache(tmp_path / "vectors.sqlite", 1 << 24)
    embedder, work_priority = CachingEmbedder(EMBEDDER, store, counters), WorkPriority()
    caches = open_caches(cacheable)
    async with open_pool(1) as pool:
        await ready(pool, 1)
        make = RowMaker(
            RULES,
            embedder,
            caches.keys,
            caches.manifests,
            counters,
            work_priority,
            IndexThreads(work_priority),
            ParserHere(RULES.limits),
            pool,
        )
        (write,) = await make([source], [NOTHING], urgent=False)
        (again,) = await make([source], [NOTHING], urgent=False)
        (moved,) = await make([replace(source, path="b.py")], [NOTHING], urgent=False)
        assert pool.done == 2
    assert isinstance(write, FileWrite)
    assert isinstance(again, FileWrite)
    assert isinstance(moved, FileWrite)
    assert write.chunks == again.chunks
    assert (write.vectors == again.vectors).all()
    assert [write.keywords(chunk) for chunk in write.chunks] == [
        again.keywords(chunk) for chunk in again.chunks
    ]
    chunks = len(write.chunks)
    assert counters == ReuseCounters(computed=2 * chunks, reused=chunks, parsed=2)
    await embedder.aclose()


@pytest.mark.parametrize("act", ACTS)
async def test_a_program_that_is_no_worker_costs_only_time(
    tmp_path: Path, act: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The program is ended, logged, and started again a few times; then the indexer does all work."""
    script = tmp_path / "worker.py"
    script.write_text(SCRIPT.format(act=ACTS[act]))
    for number in range(20):
        (tmp_path / "root").mkdir(exist_ok=True)
        (tmp_path / "root" / f"{number}.py").write_text(python(f"name{number}"))
    files, processes = sources(tmp_path / "root"), list[psutil.Process]()
    alone = await maker(None, None)(files, [NOTHING] * len(files), urgent=False)
    async with open_pool(
        1, replace(EAGER, deadline_s=0.3), (sys.executable, "-P", os.fspath(script))
    ) as pool:
        make = maker(None, pool)
        for round_ in range(MAX_FAILURES):
            processes += await ready(pool, 1)
            writes = await make(files, [NOTHING] * len(files), urgent=False)
            for write, single in zip(writes, alone, strict=True):
                assert isinstance(write, FileWrite)
                assert isinstance(single, FileWrite)
                assert (write.path, write.chunks) == (single.path, single.chunks)
                assert (write.vectors == single.vectors).all()
            await gone(processes)
            await until(lambda: not pool._lifetimes)
            events = [
                record for record in caplog.records if record.getMessage() == "bulk_worker_ended"
            ]
            assert len(events) == round_ + 1
        assert len(await make(files, [NOTHING] * len(files), urgent=False)) == len(files)
        assert not pool._lifetimes, "it rests"
        assert pool.done == 0
    assert vars(events[-1])["alone"] is True
    assert vars(events[0])["alone"] is False


async def test_a_worker_that_is_killed_or_stopped_at_work_loses_no_row(
    cacheable: DiskCache, mixed: Path
) -> None:
    async with open_pool(2, replace(EAGER, deadline_s=6.0)) as pool:
        make, files = maker(cacheable, pool), sources(mixed)
        processes = await ready(pool, 1)
        for victim in processes:
            victim.suspend()
        work = asyncio.create_task(make(files, [NOTHING] * len(files), urgent=False))
        await asyncio.sleep(0.1)
        (saved,) = await make(files[:1], None, urgent=True)
        assert isinstance(saved, FileWrite), "a save does not wait for it"
        assert not work.done()
        processes[0].kill()
        writes = await work
        assert all(isinstance(write, FileWrite) for write in writes)
        await gone(processes)
        (mixed / "new.py").write_text(python("new"))
        await ready(pool, 1)
        (new,) = [write for write in sources(mixed) if write.path == "new.py"]
        done = pool.done
        await make([new], [NOTHING], urgent=False)
        assert pool.done == done + 1, "started again"


async def test_workers_start_with_enough_work_and_end_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with open_pool(2, replace(EAGER, bytes_per_worker=1000, idle_s=1.0)) as pool:
        assert await pool.process(REQUEST, [asked("a.py", "x" * 999)], pause) == [None]
        assert not pool._lifetimes
        assert await pool.process(REQUEST, [asked("b.py", "x = 1")], pause) == [None]
        assert len(pool._lifetimes) == 1
        assert await pool.process(REQUEST, [asked("c.py", "x" * 9000)], pause) == [None]
        assert len(pool._lifetimes) == 2
        with anyio.fail_after(60):
            while not all(worker.ready for worker in pool._workers) or len(pool._workers) < 2:
                await pool.process(REQUEST, [asked("d.py", "x = 1")], pause)
                await asyncio.sleep(0.02)
        processes = [psutil.Process(worker.process.pid) for worker in pool._workers]
        await gone(processes)
        await until(lambda: not pool._lifetimes)
        assert await pool.process(REQUEST, [asked("e.py", "x" * 999)], pause) == [None]
        assert not pool._lifetimes, "the count begins again"
    assert [record for record in caplog.records if record.getMessage() == "bulk_worker_ended"] == []


async def test_no_handles_and_no_program_are_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with open_pool(1) as pool:
        highest = max(handles_of(os.getpid()))
        descriptors = [os.open(os.devnull, os.O_RDONLY) for _ in range(highest)]  # no gaps
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(descriptors) + 1, hard))
            assert await pool.process(REQUEST, [asked("a.py", "")], pause) == [None]
            await until(lambda: not pool._lifetimes)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for handle in descriptors:
                os.close(handle)
        assert await ready(pool, 1)
    async with open_pool(1, command=("/nowhere/python",)) as pool:
        assert await pool.process(REQUEST, [asked("a.py", "")], pause) == [None]
        await asyncio.wait(pool._lifetimes)
    events = [
        vars(record)["how"]
        for record in caplog.records
        if record.getMessage() == "bulk_worker_ended"
    ]
    assert len(events) == 2
    assert all("cannot be started" in how for how in events)


async def test_other_code_is_not_mixed_with_this(caplog: pytest.LogCaptureFixture) -> None:
    async with open_pool(1, code="of another version") as pool:
        await pool.process(REQUEST, [asked("a.py", "")], pause)
        await asyncio.wait(pool._lifetimes)
        assert not pool
    (event,) = [
        vars(record)["how"]
        for record in caplog.records
        if record.getMessage() == "bulk_worker_ended"
    ]
    assert "restart" in event


async def test_a_worker_has_only_its_own_handles_and_the_indexers_priority() -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    async with open_pool(1) as pool:
        (process,) = await ready(pool, 1)
        handles = handles_of(process.pid)
        (link,) = (handle for handle, target in handles.items() if target.startswith("socket:"))
        # mapped
        (model,) = (handle for handle, target in handles.items() if target.endswith(".rows.npy"))
        assert handles.keys() == {0, 1, 2, link, model}
        assert process.nice() == psutil.Process().nice()
        pool._workers[0]._writer.close()  # as the kernel does for a child that was killed
        await gone([process])
    os.close(descriptor)


def test_a_worker_loads_neither_the_database_nor_cocoindex() -> None:
    heavy = ("cocoindex", "psycopg", "sqlite3", "asyncio", "fastmcp")
    code = (
        "import sys, cocosearchd.indexing.pool.bulk_worker;"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_worker_handles_other_models_and_unparsed_files() -> None:
    files = (
        asked("a.py", python("a")),
        asked("b.py", "x = '" + "a" * 30_000 + "'\n"),
        asked("c.py", "def (((:\n"),
    )
    first, second, third = bulk_worker.process_request(
        replace(REQUEST, embedder=(("provider", "ollama"),), files=files), EMBEDDER
    )
    assert first.new_chunks
    assert not first.vectors
    assert first.cacheable
    assert not second.cacheable
    assert second.new_chunks, "it is searched as plain text"
    assert third.cacheable, "it was parsed, with errors"


async def test_some_files_are_not_given_to_workers(tmp_path: Path) -> None:
    """Windows of CocoIndex, and what is larger than a message should be."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.py").write_text(python("a"))
    (tmp_path / "root" / "large.sql").write_text("select 1;\n" * (MAX_BULK_FILE_BYTES // 10 + 1))
    read = read_files(bytes(tmp_path / "root"), ["a.py", "large.sql"], 9 << 20)
    files = [file for file in read if isinstance(file, SourceFile)]
    async with open_pool(1) as pool:
        await ready(pool, 1)
        windows = replace(RULES, limits=chunker_limits(IndexingSettings("recursive")))
        few = replace(
            RULES, limits=chunker_limits(IndexingSettings(chunk_size=100_000))
        )  # chunks of the large file
        for rules, selected in ((windows, files[:1]), (few, files[1:]), (few, files)):
            large = replace(rules, skip=replace(RULES.skip, max_file_bytes=9 << 20))
            await maker(None, pool, large)(selected, [NOTHING] * len(selected), urgent=False)
            assert pool.done == (len(selected) == 2)


async def test_a_cancelled_request_leaves_workers_at_work(caplog: pytest.LogCaptureFixture) -> None:
    async with open_pool(1) as pool:
        (process,) = await ready(pool, 1)
        process.suspend()
        work = asyncio.create_task(pool.process(REQUEST, [asked("a.py", "")], pause))
        await asyncio.sleep(0.05)
        work.cancel()
        await asyncio.wait({work})
        process.resume()
        (result,) = await pool.process(REQUEST, [asked("b.py", python("b"))], pause)
        assert isinstance(result, TaskResult)
        assert result.new_chunks == 3
    assert not caplog.records


def test_batches_are_small_and_all_of_it() -> None:
    sizes = [1, 70_000, 5, 60_000, 9_000, *[9] * 30]
    batches = list(split_batches(sizes))
    assert [number for part in batches for number in part] == list(range(len(sizes)))
    for part in batches:
        assert len(part) <= BATCH_FILES
        assert len(part) == 1 or sum(sizes[number] for number in part) <= BATCH_BYTES
    assert list(split_batches([])) == []


async def test_the_indexer_has_workers_that_end_with_it(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path
) -> None:
    """The indexer is killed during a first index of two megabytes: its workers end with it."""
    # Two workers are due. One long string is the cheapest content, 0.06 s of CPU a megabyte: it has
    # no symbols and no uses.
    string = '"""' + "Nothing is decided here, and nothing is counted.\n" * 600 + '"""\n'
    for number in range(75):
        (root / f"large{number}.py").write_text(python(f"name{number}") + string)
    alone = replace(spec, indexing=IndexingSettings(processes=0))
    expected = await fresh_digest(db, root, alone, tmp_path / "other")
    spec = replace(spec, indexing=IndexingSettings(processes=2))
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        work = asyncio.create_task(bench.feed_all())
        workers = list[psutil.Process]()
        with anyio.fail_after(60):
            while not workers:
                await asyncio.sleep(0.02)
                with contextlib.suppress(psutil.NoSuchProcess):
                    workers = (
                        psutil.Process(bench.updater.pid).children() if bench.updater.pid else []
                    )
        assert bench.updater.pid is not None
        os.kill(bench.updater.pid, signal.SIGKILL)
        await gone(workers)
        assert await work == {}
        child = psutil.Process(bench.updater.pid)
        workers = child.children()
        assert await bench.digest() == expected
    await gone([child, *workers])
    assert STOP_S < 5
