"""Cost of a restart with nothing changed, and of a daemon at rest, for a root of many small files.

    python -m benchmarks.restart [--seeded] [FILES]

CPU seconds are those of all processes (daemon, worker, PostgreSQL) from their start until `sync`
says fresh. With `--seeded` there is no first index: the store's own functions write the rows, a
chunk a file, with vectors of chance. At the end the comparison with the disk is measured by itself,
in this process.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.main_job import everything, idling, restarting, say
from benchmarks.measure import cpu_seconds, machine
from cocosearchd.config.settings import DatabaseSettings, IndexingSettings, WatchingSettings
from cocosearchd.indexing.pipeline.chunker import chunk_file, chunk_keywords
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.parse import parse
from cocosearchd.model import Fingerprint, IndexRecord, hash_content
from cocosearchd.store import index_records
from cocosearchd.store.chunks.file_writer import replace_files
from cocosearchd.store.chunks.rows import FileWrite
from cocosearchd.store.connection.database import Database
from cocosearchd.store.server.embedded import EmbeddedPostgres
from cocosearchd.watching.dirty_set import DirtySet
from cocosearchd.watching.hints.backend_choice import open_hints
from cocosearchd.watching.scans.scan_coordinator import ScanCoordinator
from cocosearchd.watching.stored_files import StoredFiles
from tests.daemon import Daemon, make_daemon

AT_ONCE = 500  # files in a transaction


def main() -> None:
    """Index once, then restart three times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=int, nargs="?", default=10_000)
    parser.add_argument("--seeded", action="store_true")
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="cocosearch-bench-"))
    daemon = make_daemon()
    sys.stdout.write(f"{machine()}\n")
    try:
        daemon.start()
        if arguments.seeded:
            seeded(daemon, root, arguments.files)
        else:
            indexed(daemon, root, arguments.files)
        for _ in range(3):
            # files younger than two seconds are read again, because their times prove nothing
            time.sleep(3)
            restarting(daemon)
        time.sleep(10)  # the daemon loads MCP three seconds after its start
        idling(daemon)
        daemon.stop()
        reconciling(daemon, root)
    finally:
        daemon.sweep()
        shutil.rmtree(daemon.home, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)


def make_files(root: Path, files: int) -> list[Path]:
    """A hundred in each directory."""
    paths = [root / f"package_{number // 100}" / f"module_{number}.py" for number in range(files)]
    for number, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f'"""Module {number}."""\n\n\ndef function_{number}(value):\n    return value * {number}\n'
        )
    return paths


def indexed(daemon: Daemon, root: Path, files: int) -> None:
    """By the daemon."""
    make_files(root, files)
    cpu, began = cpu_seconds(everything(daemon)), time.perf_counter()
    daemon.ctl("up", str(root), "--name", "bench", "--wait", limit_s=3600)
    wall = time.perf_counter() - began
    cpu = cpu_seconds(everything(daemon)) - cpu
    say(
        f"initial index of {files} files",
        f"{wall:.1f} s wall, {cpu:.1f} s CPU, {files / wall:.0f} files/s",
    )


def seeded(daemon: Daemon, root: Path, files: int) -> None:
    """By this process, while the daemon rests; then the daemon reads its words, which it keeps."""
    daemon.ctl("up", str(root), "--name", "bench", "--wait")
    daemon.stop()
    with served(daemon) as dsn:
        asyncio.run(write_rows(dsn, root, make_files(root, files)))
    daemon.start()
    daemon.ctl("sync", "--index", "bench", "--timeout", "600", limit_s=700)
    while f'"files": {files}' not in "".join(
        line for line in daemon.log.splitlines() if "lexical_warm" in line
    ):
        time.sleep(0.1)
    say("seeded", f"{files} files")


@contextmanager
def served(daemon: Daemon) -> Iterator[str]:
    """The PostgreSQL of a daemon that rests."""
    postgres = EmbeddedPostgres(daemon.home / "state" / "postgres", {"shared_buffers": "128MB"})
    try:
        yield postgres.ensure()
    finally:
        postgres.stop()


def reconciling(daemon: Daemon, root: Path) -> None:
    """The comparison of all files with what is stored, by itself: directories are watched, nothing
    has changed.
    """
    (daemon.home / "sync").mkdir()
    with served(daemon) as dsn:
        asyncio.run(reconciled(daemon, dsn, os.fsencode(root), os.fsencode(daemon.home / "sync")))


async def reconciled(daemon: Daemon, dsn: str, root: bytes, sync: bytes) -> None:
    async with Database.open(dsn, DatabaseSettings()) as db:
        (record,) = await index_records.list_indexes(db)
        for _ in range(5):
            dirty = DirtySet(WatchingSettings())
            coordinator = ScanCoordinator(root, StoredFiles(db, record), IndexingSettings(), dirty)
            await coordinator.open()
            hints, _ = open_hints(root, sync, WatchingSettings(), lambda _: None)
            dirty.mark_tree("")
            cpu_s, server = time.process_time(), cpu_seconds(daemon.postgres())
            await coordinator.scan(dirty.begin_scan(), hints.watch, lambda: True)
            cpu_s, server = time.process_time() - cpu_s, cpu_seconds(daemon.postgres()) - server
            hints.close()
            say(
                "reconcile by itself",
                f"{coordinator.total} files: {cpu_s:.2f} s CPU, PostgreSQL {server:.2f} s",
            )


async def write_rows(dsn: str, root: Path, paths: Iterable[Path]) -> None:
    rng, every = np.random.default_rng(1), list(paths)
    async with Database.open(dsn, DatabaseSettings()) as db:
        (record,) = await index_records.list_indexes(db)
        for start in range(0, len(every), AT_ONCE):
            selected = every[start : start + AT_ONCE]
            await replace_files(
                db, record, [file_write(root, path, record, rng) for path in selected]
            )


def file_write(root: Path, path: Path, record: IndexRecord, rng: np.random.Generator) -> FileWrite:
    data, name, status = path.read_bytes(), path.relative_to(root).as_posix(), path.lstat()
    parsed = parse(name, data)
    chunks = chunk_file(parsed, chunker_limits(IndexingSettings()))
    vectors = rng.standard_normal((len(chunks), record.dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    stored_print = Fingerprint.from_status(status)
    return FileWrite(
        name,
        hash_content(data),
        stored_print,
        parsed.language,
        chunks,
        vectors,
        parsed.report,
        keywords=chunk_keywords,
    )


if __name__ == "__main__":
    main()
