"""The cost of the code graph: of its facts in an index, and of questions to it.

    python -m benchmarks.graph_cost DIRECTORY [--saves 100] [--questions 200]
    python -m benchmarks.graph_cost --symbols 3000000 [--files 100000]

With a directory, a daemon indexes it: CPU and disk of the first index, CPU of saves, then of the
first question and of questions about random definitions. An older version, without questions,
prints the first two: set PYTHONPATH to its work tree. With `--symbols`, the memory of a table of
names of that size is measured, without a database: each file uses 150 distinct names.
"""

import argparse
import asyncio
import os
import random
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.checkout import parts
from benchmarks.measure import machine, say, spread
from cocosearch_ipc.client import CallFailed
from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.store.connection.database import Database
from tests.daemon import Daemon, make_daemon

USED_NAMES = 150  # distinct names that a file uses, as in the Python files of this machine
VOCABULARY = 1_500_000  # names in all files; a few of them are in most files
KINDS = ["function", "method", "class"]
PAGES = 100  # of 100 definitions
SIZES = """
select relname, pg_total_relation_size(oid) from pg_class
where relname like 'codeindex%%' and relkind = 'r' order by 1
"""
FACTS = "select coalesce(sum(octet_length(facts) + octet_length(name_hashes)), 0) from {}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--saves", type=int, default=100)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--symbols", type=int)
    parser.add_argument("--files", type=int, default=100_000)
    options = parser.parse_args()
    say(machine())
    if options.symbols:
        measure_table(options.symbols, options.files)
    if options.directory:
        measure_daemon(options.directory, options.saves, options.questions)


def measure_daemon(directory: Path, saves: int, questions: int) -> None:
    """Index a copy of a directory, save files, ask questions."""
    work = Path(tempfile.mkdtemp(prefix="cocosearch-bench-"))
    daemon = make_daemon()
    try:
        root = work / "root"
        shutil.copytree(directory, root, ignore=shutil.ignore_patterns(".git"))
        daemon.start()
        began = parts(daemon)
        daemon.ctl("up", str(root), "--name", "bench", "--wait", limit_s=3600)
        say_cpu("first index", began, parts(daemon))
        say(f"chunks                    {daemon.json('status')['indexes'][0]['chunks']}")
        asyncio.run(say_disk(daemon))
        measure_saves(daemon, root, saves, "saves before a question")
        if measure_questions(daemon, questions):
            measure_saves(daemon, root, saves, "saves after questions")
    finally:
        daemon.stop()
        daemon.sweep()
        shutil.rmtree(daemon.home, ignore_errors=True)
        shutil.rmtree(work, ignore_errors=True)


def say_cpu(title: str, start: dict[str, float], end: dict[str, float], count: int = 1) -> None:
    """Print CPU by part: seconds, or milliseconds each if there are several."""
    names = ("daemon", "analysis", "worker", "workers", "PostgreSQL")
    scale, unit = (1000 / count, "ms") if count > 1 else (1, "s")
    spent = {name: (end[name] - start[name]) * scale for name in names}
    figures = ", ".join(f"{name} {value:.2f}" for name, value in spent.items())
    say(f"{title:<25} {sum(spent.values()):.2f} {unit} CPU ({figures}; n={count})")


async def say_disk(daemon: Daemon) -> None:
    """Print the sizes of the tables, indexes included, and of the facts."""
    dsn = daemon.call("status")["store"]["dsn"]
    async with Database.open(dsn, DatabaseSettings()) as db, db.connection() as connection:
        sizes = dict(await (await connection.execute(SIZES)).fetchall())
        total = sum(sizes.values())
        say(f"tables                    {total / 2**20:.1f} MB")
        files = next(name for name in sizes if name.endswith("_files"))
        columns = await connection.execute(
            "select count(*) from information_schema.columns"
            " where table_name = %s and column_name = 'facts'",
            (files,),
        )
        if await columns.fetchone() == (1,):
            cursor = await connection.execute(FACTS.format(files).encode())
            (facts,) = await cursor.fetchone() or (0,)
            say(f"facts                     {facts / 2**20:.1f} MB, {facts / total:.1%}")


def measure_saves(daemon: Daemon, root: Path, count: int, title: str) -> None:
    """Append a line to one file after another, each until it is in sync."""
    rng = random.Random(1)
    paths = sorted(path for path in root.rglob("*.py") if path.stat().st_size < 30_000)
    cpu_before, walls = parts(daemon), list[float]()
    for number in range(count):
        with rng.choice(paths).open("a") as file:
            file.write(f"\nSAVED_{number} = {number}\n")
        began = time.perf_counter()
        daemon.call("sync", index="bench")
        walls.append((time.perf_counter() - began) * 1000)
    say_cpu(title, cpu_before, parts(daemon), count)
    say(f"{'':<25} {spread(walls)}")


def measure_questions(daemon: Daemon, count: int) -> bool:
    """Ask for references and impact of random definitions; False if the daemon has no such question."""
    names = symbol_names(daemon)
    rng = random.Random(2)
    process = psutil.Process(daemon.process.pid if daemon.process else os.getpid())
    memory = process.memory_info().rss
    try:
        timed(daemon, process, "references", "first question", [rng.choice(names)])
    except CallFailed as error:
        say(f"no questions: {error}")
        return False
    say(f"{'':<25} {(process.memory_info().rss - memory) / 2**20:.1f} MB more in the daemon")
    for verb in ("references", "impact"):
        timed(daemon, process, verb, verb, [rng.choice(names) for _ in range(count)])
    say(f"{'':<25} {(process.memory_info().rss - memory) / 2**20:.1f} MB more in the daemon")
    return True


def symbol_names(daemon: Daemon) -> list[str]:
    """Return the qualified names of some thousand definitions, listed page by page."""
    names, cursor = set[str](), None
    for _ in range(PAGES):
        page = {"query": "", "symbol_types": KINDS, "limit": 100, "cursor": cursor}
        reply = daemon.call("search", index="bench", **page)
        names |= {result["symbol_name"] for result in reply["results"] if result["symbol_name"]}
        cursor = reply["cursor"]
        if cursor is None:
            break
    return sorted(names)


def timed(daemon: Daemon, process: psutil.Process, verb: str, title: str, names: list[str]) -> None:
    """Ask one question after another; print CPU of the daemon and wall time of each."""
    cpu, walls = list[float](), list[float]()
    answer_count = 0
    for name in names:
        times, began = process.cpu_times(), time.perf_counter()
        try:
            reply = daemon.call(verb, target=name, index="bench")
        except CallFailed as error:
            if "definitions" not in error.message:
                raise
            reply = {}  # an ambiguous name: its definitions are listed
        walls.append((time.perf_counter() - began) * 1000)
        after = process.cpu_times()
        cpu.append((after.user + after.system - times.user - times.system) * 1000)
        answer_count += reply.get("total", 0)
    say(f"{title:<25} CPU mean {sum(cpu) / len(cpu):.1f} ms, {spread(cpu)}")
    say(f"{'':<25} wall {spread(walls)}; {answer_count} places")


def measure_table(symbols: int, files: int) -> None:
    """Build a table of names and print its memory and the time of look-ups."""
    # not at the top: an older version has no such modules
    from cocosearchd.graph.name_table import NameTable, split_files
    from cocosearchd.runtime.interpreter import return_memory
    from cocosearchd.store.file_facts import StoredNames

    process = psutil.Process()
    start = process.memory_info().rss
    table = NameTable()
    unbuilt = list[Any]()
    built = 0.0
    for number, (path, generation, packed) in enumerate(synthetic_files(symbols, files), 1):
        unbuilt.append(StoredNames(path, generation, packed))
        if number % 2000 == 0 or number == files:
            began = time.process_time()
            *full, unbuilt = split_files(unbuilt)
            for part in full if number < files else (*full, unbuilt):
                table = table.replace((), part)
            built += time.process_time() - began
    del unbuilt
    return_memory()
    memory = process.memory_info().rss - start
    say(f"{symbols} symbols in {files} files: {memory / 2**20:.0f} MB, of which arrays")
    say(f"{table.nbytes / 2**20:.0f} MB; built in {built:.1f} s CPU")
    began = time.process_time()
    for number in range(1000):
        table.files_using(f"name_{number * 997}")
    say(f"files of a name: {(time.process_time() - began):.3f} ms CPU")
    began = time.process_time()
    for number in range(100):
        table.replace([f"src/mod{number}/file_{number}.py"], [])
    say(f"a change of a file: {(time.process_time() - began) * 10:.3f} ms CPU")


def synthetic_files(symbols: int, files: int) -> Iterator[tuple[str, int, bytes]]:
    """Yield path, generation and packed hashes of names; frequent names are in most files."""
    rng = np.random.default_rng(1)
    vocabulary = rng.permutation(np.arange(VOCABULARY, dtype="<u4") * np.uint32(2861))
    defined = max(1, symbols // files)
    for number in range(files):
        names = [
            np.unique(vocabulary[(VOCABULARY * rng.random(count) ** power).astype(int)])
            for count, power in ((defined, 1), (USED_NAMES, 4))
        ]
        packed = struct.pack("<I", len(names[0])) + names[0].tobytes() + names[1].tobytes()
        yield f"src/mod{number % 1000}/file_{number}.py", number, packed


if __name__ == "__main__":
    main()
