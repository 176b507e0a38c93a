"""A content that ends a parser is quarantined at once, one that stalls it the second time; other
files are unaffected.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.indexing.indexer.index_threads import IndexThreads
from cocosearchd.indexing.indexer.row_maker import RowMaker
from cocosearchd.indexing.indexer.work_priority import WorkPriority
from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pipeline.file_reader import SourceFile, read_files
from cocosearchd.indexing.pipeline.parse_result import plain_parsed_file
from cocosearchd.indexing.pool import boxed_parser
from cocosearchd.indexing.pool.boxed_parser import BoxedParser, ParseTask, parser_command
from cocosearchd.indexing.pool.bulk_messages import TaskInput, TaskRequest
from cocosearchd.indexing.pool.bulk_pool import SUSPECT, BulkPool, BulkPoolLimits
from cocosearchd.indexing.pool.parse_task import ParseFile, ParseRequest
from cocosearchd.indexing.pool.quarantine import NOT_PARSED, Quarantine, is_quarantined
from cocosearchd.runtime.disk_cache import DiskCache
from cocosearchd.sandbox.code_digest import installed_code_digest
from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.sandbox.worker_pool import PoolSize, WorkerPool
from cocosearchd.sandbox.worker_process import WorkerUnavailable
from cocosearchd.store.chunks.rows import FileWrite
from tests.indexing.parsing import NOTHING, RULES, open_caches
from tests.waiting import until

pytestmark = pytest.mark.anyio

# A worker whose parser does what a content says. No real content is known that does all of this for
# long: each that is found gets a guard.
SCRIPT = """
import os, sys, time
from cocosearchd.indexing.pipeline import parse_result
from cocosearchd.indexing.pool import {module}
from cocosearchd.indexing.pipeline.chunker import chunk_ranges
from cocosearchd.sandbox.worker_loop import run_worker
parse = parse_result.parse
def odd(path, data, *rest):
    if b"CRASH" in data:
        os.abort()
    if b"BOMB" in data:
        bombs = [bytearray(1 << 24) for _ in range(1 << 12)]
    if b"SPIN" in data:
        while True:
            pass
    if b"WAIT" in data:
        time.sleep(600)
    if b"FIRST" in data:  # it stalls the first process that parses it
        mark = data.split()[2].decode()
        if not os.path.exists(mark):
            open(mark, "w").close()
            time.sleep(600)
    if b"LEAVE" in data:
        sys.exit(0)
    return parse(path, data, *rest)
parse_result.parse = odd
run_worker({handler})
"""
PARSER = (
    *(sys.executable, "-P", "-c"),
    SCRIPT.format(
        module="parser_worker", handler="lambda: parser_worker.parser_handler(chunk_ranges)"
    ),
)
WORKER_COMMAND = (
    sys.executable,
    "-P",
    "-c",
    SCRIPT.format(module="bulk_worker", handler="bulk_worker.open_handler"),
)
HARMS = {
    b"CRASH\n": "SIGABRT",
    b"BOMB\n": "256 MiB of memory",
    b"SPIN\n": "1 s of CPU",
    b"WAIT\n": "no answer within 3 s",
    b"LEAVE\n": "exit code 0",
}
GOOD = b"def first():\n    return 1\n\n\ndef second():\n    return 2\n"
BUSY_S = 30.0
BOUNDS = ResourceLimits(address_space_bytes=256 << 20, request_cpu_s=1)


@pytest.fixture(autouse=True)
def deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline of a busy machine. A test that waits for it shortens it."""
    monkeypatch.setattr(boxed_parser, "DEADLINE_S", BUSY_S)


@asynccontextmanager
async def pool_of(command: tuple[str, ...] = PARSER, most: int = 4) -> AsyncIterator[WorkerPool]:
    pool = WorkerPool(
        "parser", command, installed_code_digest(), BOUNDS, PoolSize(max_processes=most, warm=2)
    )
    try:
        yield pool
    finally:
        await pool.aclose()


def boxed(pool: WorkerPool, quarantine: Quarantine | None = None) -> BoxedParser:
    shape = ParseRequest(RULES.limits, (), ())
    return BoxedParser(pool, quarantine or Quarantine(None), asyncio.Semaphore(1), shape)


def task(data: bytes, name: str = "a.py") -> ParseTask:
    return ParseTask(ParseFile(name, "python", data), data)


async def pause() -> None:
    pass


def ended(caplog: pytest.LogCaptureFixture) -> int:
    return sum(record.getMessage() == "worker_process_ended" for record in caplog.records)


@pytest.mark.parametrize("harm", HARMS)
async def test_one_strike_and_the_file_is_plain_text(
    harm: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    if b"WAIT" in harm:
        monkeypatch.setattr(boxed_parser, "DEADLINE_S", 3.0)
    async with pool_of() as pool:
        parser = boxed(pool)
        result = await parser.parse_save(task(harm * 100))
        monkeypatch.setattr(boxed_parser, "DEADLINE_S", BUSY_S)
        strikes = 2 if b"WAIT" in harm else 1
        assert ended(caplog) == strikes, "one process, once; after a stall one more"
        assert is_quarantined(result.parsed_file.report)
        assert HARMS[harm] in result.parsed_file.report.error_message
        assert not result.cacheable, "the result of another parser may be better"
        assert result.parsed_file == plain_parsed_file(
            harm * 100, RULES.limits, result.parsed_file.report.error_message
        )
        assert list(parser.quarantine.reasons([harm * 100, GOOD])) == [harm * 100]
        good = await parser.parse_save(task(GOOD))
        assert [symbol.name for symbol in good.parsed_file.symbols] == ["first", "second"]
        assert ended(caplog) == strikes


async def test_a_stall_that_does_not_come_again_is_no_strike(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that swaps for a minute does this."""
    monkeypatch.setattr(boxed_parser, "DEADLINE_S", 3.0)
    mark = tmp_path / "stalled"
    data = b"# FIRST %b\n" % bytes(mark) + GOOD
    async with pool_of() as pool:
        parser = boxed(pool)
        saved = asyncio.create_task(parser.parse_save(task(data)))
        await until(mark.exists)
        monkeypatch.setattr(boxed_parser, "DEADLINE_S", BUSY_S)  # of the second time
        result = await saved
        assert [symbol.name for symbol in result.parsed_file.symbols] == ["first", "second"]
        assert result.cacheable
        assert ended(caplog) == 1
        assert not parser.quarantine.reasons([data])


async def test_neighbours_in_a_batch_are_parsed_and_the_killer_has_two_tries(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with pool_of() as pool:
        parser = boxed(pool)
        batch = [*(task(GOOD + b"# %d" % number) for number in range(7)), task(b"CRASH\n")]
        results = await parser.parse(batch[4:] + batch[:4], pause)
        assert [is_quarantined(result.parsed_file.report) for result in results] == [False] * 3 + [
            True
        ] + [False] * 4
        assert all(len(result.parsed_file.symbols) == 2 for result in results if result.cacheable)
        assert ended(caplog) == 2, "with the others, and alone"


async def test_a_parser_that_ends_whatever_it_gets_is_no_fault_of_a_file() -> None:
    broken = (*PARSER[:-1], PARSER[-1].replace('b"CRASH" in data', "True"))
    async with pool_of(broken) as pool:
        parser = boxed(pool)
        with pytest.raises(WorkerUnavailable, match="whatever it parses"):
            await parser.parse_save(task(GOOD))
        assert not parser.quarantine.reasons([GOOD])


async def test_stalled_saves_of_one_index_leave_room_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(boxed_parser, "DEADLINE_S", 20.0)
    async with pool_of() as pool:
        hostile, neighbour = boxed(pool), boxed(pool)
        stalls = [
            asyncio.create_task(hostile.parse_save(task(b"WAIT %d\n" % number)))
            for number in range(6)
        ]
        bulk = asyncio.create_task(hostile.parse([task(b"WAIT bulk\n")], pause))
        await until(lambda: len(pool.pids) >= 3 and bool(pool._idle))
        for _ in range(3):
            assert not is_quarantined((await neighbour.parse_save(task(GOOD))).parsed_file.report)
        assert not any(stall.done() for stall in stalls)
        monkeypatch.setattr(boxed_parser, "DEADLINE_S", 2.0)  # the rest; each stalls twice
        results = await asyncio.gather(*stalls)
        assert all(is_quarantined(result.parsed_file.report) for result in [*results, *await bulk])


async def test_somebody_elses_kill_is_no_strike() -> None:
    async with pool_of() as pool:
        parser = boxed(pool)
        await parser.parse_save(task(GOOD))
        saved = asyncio.create_task(parser.parse_save(task(GOOD * 2000)))
        await until(lambda: any(process._requests for process in pool._lifetimes))
        # on a busy machine a spare one is starting, and the request would wait for that start
        for process in [process for process in pool._lifetimes if process.ready]:
            os.kill(process.process.pid, signal.SIGKILL)
        assert not is_quarantined((await saved).parsed_file.report)


async def test_a_quarantine_outlasts_the_process_and_is_of_content(tmp_path: Path) -> None:
    first = Quarantine.open(tmp_path)
    first.add(b"content", "it crashes")
    again = Quarantine.open(tmp_path)  # while the first lives, as after a kill
    assert again.reasons([b"content", b"another"]) == {b"content": "it crashes"}
    again.close()
    first.close()


async def test_a_quarantine_without_a_disk_lasts_as_long_as_the_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    quarantine = Quarantine.open(tmp_path / "file")
    quarantine.add(b"content", "it crashes")
    assert quarantine.reasons([b"content"]) == {b"content": "it crashes"}


def asked(path: str, data: bytes) -> TaskInput:
    return TaskInput(path, "python", data, b"")


def sources(root: Path, files: dict[str, bytes]) -> list[SourceFile]:
    root.mkdir(exist_ok=True)
    for path, data in files.items():
        (root / path).write_bytes(data)
    return [
        file for file in read_files(bytes(root), files, 1 << 20) if isinstance(file, SourceFile)
    ]


def maker(
    parser: BoxedParser, disk_cache: DiskCache | None, bulk_pool: BulkPool | None = None
) -> RowMaker:
    work_priority = WorkPriority()
    caches = open_caches(disk_cache)
    return RowMaker(
        RULES,
        BuiltinEmbedder(),
        caches.keys,
        caches.manifests,
        caches.counters,
        work_priority,
        IndexThreads(work_priority),
        parser,
        bulk_pool,
    )


@pytest.mark.parametrize("urgent", [True, False])
async def test_a_known_killer_is_not_parsed_again(
    tmp_path: Path, disk_cache: DiskCache, urgent: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in a copy, nor after a restart; when its content changes, it is."""
    stored = None if urgent else [NOTHING]
    for _ in range(2):
        quarantine = Quarantine.open(tmp_path)
        async with pool_of() as pool:
            make = maker(boxed(pool, quarantine), disk_cache)
            for name in ("a.py", "copy.py"):
                (write,) = await make(
                    sources(tmp_path / "root", {name: b"CRASH quokka\n" * 9}), stored, urgent=urgent
                )
                assert isinstance(write, FileWrite)
                assert write.chunks
                assert write.chunks[0].text.startswith("CRASH quokka")
                assert write.report.error_message.startswith(NOT_PARSED)
            assert ended(caplog) == 1
            (write,) = await make(sources(tmp_path / "root", {"a.py": GOOD}), stored, urgent=urgent)
            assert isinstance(write, FileWrite)
            assert write.report.status == "ok"
        quarantine.close()


async def test_a_file_that_ends_a_worker_is_parsed_again_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = {f"{number}.py": GOOD + b"# %d\n" % number for number in range(30)} | {
        "killer.py": b"CRASH\n"
    }
    bulk_pool = BulkPool(
        1, installed_code_digest(), BulkPoolLimits(bytes_per_worker=1), WORKER_COMMAND
    )
    quarantine = Quarantine(None)
    async with pool_of() as pool:
        make, read = (
            maker(boxed(pool, quarantine), None, bulk_pool),
            sources(tmp_path / "root", files),
        )
        await make(read[:1], [NOTHING], urgent=False)  # starts the worker
        await until(lambda: any(worker.ready for worker in bulk_pool._workers))
        writes = await make(read, [NOTHING] * len(read), urgent=False)
        await bulk_pool.aclose()
    assert all(isinstance(write, FileWrite) for write in writes)
    plain = [
        write.path
        for write in writes
        if isinstance(write, FileWrite) and is_quarantined(write.report)
    ]
    assert plain == ["killer.py"]
    assert [record.getMessage() for record in caplog.records].count("bulk_worker_ended") == 1
    assert ended(caplog) == 1
    assert not bulk_pool._failed_at, "a file's fault is not the pool's"


async def test_a_worker_that_ends_before_it_begins_a_batch_casts_no_doubt_on_the_batch(
    tmp_path: Path,
) -> None:
    bulk_pool = BulkPool(
        1, installed_code_digest(), BulkPoolLimits(bytes_per_worker=1), WORKER_COMMAND
    )
    order = TaskRequest(RULES.limits, (), (), ())
    from_first = [asked("a.py", b"CRASH\n"), *(asked(f"{number}.py", GOOD) for number in range(15))]
    await bulk_pool.process(order, from_first[:1], pause)
    await until(lambda: any(worker.ready for worker in bulk_pool._workers))
    answers = await bulk_pool.process(order, from_first, pause)
    await bulk_pool.aclose()
    assert [answer is SUSPECT for answer in answers] == [True] * 8 + [False] * 8


def test_the_command_loads_no_database_no_cocoindex_and_no_numpy() -> None:
    heavy = ("cocoindex", "psycopg", "sqlite3", "asyncio", "fastmcp", "numpy")
    code = f"import sys, {parser_command('definitions')[-1]}; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("chunker", ["definitions", "recursive"])
async def test_the_real_processes_parse_within_their_bounds(
    chunker: Literal["definitions", "recursive"],
) -> None:
    pool = boxed_parser.parser_pool(chunker, installed_code_digest())
    try:
        parser = BoxedParser(
            pool,
            Quarantine(None),
            asyncio.Semaphore(1),
            ParseRequest(ChunkLimits(chunker, 300, 50), (), ()),
        )
        result = await parser.parse_save(task(GOOD * 50))
        assert len(result.parsed_file.symbols) == 100
        assert len(result.parsed_file.ranges) > 5
    finally:
        await pool.aclose()
