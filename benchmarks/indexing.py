"""Time of the write flow alone: updater, indexer process and PostgreSQL, without a daemon.

    python -m benchmarks.indexing [DIRECTORY] [--files N] [--saves N]

Prints files and megabytes a second and CPU seconds of a first indexing, the same for a run in which
nothing changed, the time from handing over a saved file to its commit, idle and during another
first indexing, and memory. Without a directory the standard library of the running Python is copied
and indexed.
"""

import argparse
import shutil
import sysconfig
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import psutil

from benchmarks.measure import cpu_seconds, machine, say, spread
from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.migrate import migrate_registry
from cocosearchd.store.server.embedded import EmbeddedPostgres
from tests.indexing.support import Bench, Change, Source, every_path, new_record, running

PATIENCE_S = 900.0


@dataclass(frozen=True, slots=True)
class Job:
    """The input of all measurements: the files, the number of saves, and the server."""

    root: Path
    paths: list[str]
    saves: int
    postgres: EmbeddedPostgres


def main() -> None:
    """Run all measurements and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "directory", nargs="?", type=Path, default=Path(sysconfig.get_paths()["stdlib"])
    )
    parser.add_argument("--files", type=int, default=800)
    parser.add_argument("--saves", type=int, default=60)
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="cocosearch-bench-", dir="/tmp"))
    work.chmod(0o711)
    postgres = EmbeddedPostgres(
        work / "postgres", {"shared_buffers": "128MB", "max_wal_size": "1GB"}
    )
    say(machine())
    try:
        root = copy(arguments.directory, work / "root", arguments.files)
        anyio.run(measure, Job(root, every_path(root), arguments.saves, postgres), work)
    finally:
        postgres.stop()
        shutil.rmtree(work, ignore_errors=True)


def copy(source: Path, root: Path, files: int) -> Path:
    """The first `files` Python files below `source`, spread over its folders as they are."""
    paths = [
        path
        for path in sorted(source.rglob("*.py"))
        if "site-packages" not in path.parts and path.is_file()
    ]
    for path in paths[:: max(1, len(paths) // files)][:files]:
        target = root / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return root


async def measure(job: Job, work: Path) -> None:
    """All figures, in order."""
    dsn = await anyio.to_thread.run_sync(job.postgres.ensure)
    async with Database.open(dsn, DatabaseSettings()) as db:
        await migrate_registry(db)
        record = await new_record(db, job.root)
        async with running(db, record, job.root, IndexerSpec(dsn, str(work / "state"))) as bench:
            await bench.feed(job.paths[0])  # the child is up
            await indexing(bench, job, "first indexing")
            await indexing(bench, job, "nothing changed")
            say(f"save to commit, idle:   {spread(await saving(bench, job))}")
            await crowd(bench, job)


async def indexing(bench: Bench, job: Job, title: str) -> None:
    """One pass over all files."""
    assert bench.updater.pid is not None
    child = psutil.Process(bench.updater.pid)
    servers = [psutil.Process(pid) for pid in job.postgres.pids()]
    cpu_before, before_pg, began = cpu_seconds([child]), cpu_seconds(servers), time.perf_counter()
    bench.source.give(Change(tuple(job.paths)))
    failed = await bench.source.idle(PATIENCE_S)
    wall, cpu = time.perf_counter() - began, cpu_seconds([child]) - cpu_before
    servers = [psutil.Process(pid) for pid in job.postgres.pids()]
    files, stored = len(job.paths), await index_records.counts(bench.db, bench.record)
    megabytes = sum((job.root / path).stat().st_size for path in job.paths) / 1e6
    say(
        f"{title}: {files} files, {megabytes:.1f} MB, {stored.chunks} chunks, {len(failed)} failed in {wall:.1f} s: "
        f"{files / wall:.0f} files/s, {megabytes / wall:.2f} MB/s; CPU child {cpu:.1f} s ({cpu / megabytes:.2f} s/MB), "
        f"PostgreSQL {cpu_seconds(servers) - before_pg:.1f} s; child {child.memory_info().rss / 2**20:.0f} MiB"
    )


async def saving(bench: Bench, job: Job) -> list[float]:
    """Milliseconds from handing over a saved file to the return of the hook; the edit is inside of
    the file.
    """
    seconds = []
    for number in range(job.saves):
        path = job.root / job.paths[number * 7 % len(job.paths)]
        lines = path.read_bytes().splitlines(keepends=True)
        lines.insert(len(lines) // 2, b"# saved %d\n" % number)
        path.write_bytes(b"".join(lines))
        began = time.perf_counter()
        failed = await bench.feed(job.paths[number * 7 % len(job.paths)])
        seconds.append((time.perf_counter() - began) * 1000)
        assert not failed, failed
    return seconds


async def crowd(bench: Bench, job: Job) -> None:
    """Saves in one index while another one is made for the first time; then in the one that is
    being made.
    """
    second_record = await new_record(bench.db, job.root, "crowd", suffix=b"/.")
    busy = replace(bench, record=second_record, source=Source())
    await bench.updater.add(second_record, busy.source)
    busy.source.give(Change(tuple(job.paths)))
    durations = await saving(bench, replace(job, saves=job.saves // 2))
    say(f"save to commit, another index being made: {spread(durations)}")
    durations = []
    while busy.source.waiting:
        began = time.perf_counter()
        await busy.source.overtake(Change((job.paths[0],), force=True, urgent=True))
        durations.append((time.perf_counter() - began) * 1000)
    if durations:
        say(f"save to commit, in an index being made:   {spread(durations)}")
    await busy.source.idle(PATIENCE_S)


if __name__ == "__main__":
    main()
