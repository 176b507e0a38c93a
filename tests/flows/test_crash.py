"""kill -9 of the daemon, of PostgreSQL and of both, at random moments: afterwards the index equals
a fresh one.

Short and seeded here; `make slow` runs more, and `make soak` kills while many change several roots.
"""

import asyncio
import random
import time
from pathlib import Path

import psycopg
import pytest

from cocosearch_ipc.client import CallFailed, call
from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database, series_key
from tests.daemon import Daemon

VICTIMS = ("daemon", "postgres", "both")


def populate(root: Path, rng: random.Random, files: int) -> None:
    for number in range(files):
        write(root, rng, number)


def write(root: Path, rng: random.Random, number: int) -> None:
    path = root / f"package{number % 7}" / f"module_{number}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    words = [rng.choice(("alpha", "beta", "gamma", "delta", "omega")) for _ in range(6)]
    body = "\n\n".join(
        f"def {a}_{number}_{i}(value):\n    {b} = value * {rng.randrange(1000)}\n    return {b}"
        for i, (a, b) in enumerate(zip(words, reversed(words), strict=True))
    )
    path.write_text(f'"""Module {number}."""\n\n\n{body}\n')


def change(root: Path, rng: random.Random) -> None:
    """One random operation on the tree: write, delete, move."""
    files = sorted(root.rglob("*.py"))
    what = rng.random()
    if what < 0.6 or len(files) < 5:
        write(root, rng, rng.randrange(200))
    elif what < 0.8:
        rng.choice(files).unlink()
    else:
        rng.choice(files).rename(root / f"moved_{rng.randrange(1000)}.py")


def strike(daemon: Daemon, victim: str) -> None:
    if victim in ("postgres", "both"):
        daemon.kill_postgres()
    if victim in ("daemon", "both"):
        daemon.kill()
        daemon.start()


def digest(daemon: Daemon) -> tuple[object, ...]:
    """Return a digest of every row of the only index, vectors included."""

    async def read() -> tuple[object, ...]:
        dsn: str = daemon.call("status")["store"]["dsn"]
        async with Database.open(dsn, DatabaseSettings()) as db:
            (record,) = await index_records.list_indexes(db)
            return await index_records.table_digest(db, record)

    return asyncio.run(read())


def in_sync(daemon: Daemon) -> None:
    end = time.monotonic() + 60
    while (reply := daemon.ctl("sync", "--json", "--timeout", "30", check=False)).returncode in (
        1,
        69,
    ):
        assert time.monotonic() < end, (
            f"never in sync: {reply.stdout} {reply.stderr} {daemon.log[-6000:]}"
        )
    assert reply.returncode == 0, f"not documented: {reply.returncode} {reply.stderr}"


def crash_rounds(
    daemon: Daemon, fresh: Daemon, root: Path, seed: int, strikes: int, files: int
) -> None:
    rng = random.Random(seed)
    root.mkdir()
    populate(root, rng, files)
    # without --wait: the first strikes hit the initial indexing
    daemon.ctl("up", str(root), "--name", "sample")
    for strike_number in range(strikes):
        time.sleep(rng.uniform(0, 0.4))
        if strike_number >= strikes // 2:
            for _ in range(rng.randrange(1, 30)):
                change(root, rng)
        strike(daemon, VICTIMS[strike_number % 3])
    in_sync(daemon)
    survived = digest(daemon)
    fresh.index(root, "sample")
    in_sync(fresh)
    assert survived == digest(fresh)


def test_after_kills_the_index_equals_a_fresh_one(
    daemon: Daemon, shared: Daemon, tmp_path: Path
) -> None:
    crash_rounds(daemon, shared, tmp_path / "root", seed=20261121, strikes=6, files=120)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_after_many_kills_too(daemon: Daemon, shared: Daemon, tmp_path: Path, seed: int) -> None:
    crash_rounds(daemon, shared, tmp_path / "root", seed=seed, strikes=12, files=600)


def test_nothing_is_read_while_a_killed_daemon_may_still_commit(
    daemon: Daemon, project: Path
) -> None:
    """Nothing would report such a commit: what was read before it would lack it, and be called
    fresh.
    """
    daemon.index(project, "project")
    dsn = daemon.call("status")["store"]["dsn"]
    key = series_key("public", IndexerSpec("", str(daemon.home / "state")).series)
    daemon.kill()
    with psycopg.connect(dsn, autocommit=True) as former:
        former.execute("select pg_advisory_lock_shared(%s)", (key,))
        daemon.process = daemon.launch()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            with pytest.raises(CallFailed):
                call(str(daemon.home / "run" / "rpc.sock"), "status", {}, timeout_s=1)
            time.sleep(0.1)
    daemon.await_answers()
    assert daemon.paths("should_retry", "--index", "project")[0] == "src/retry.py"
