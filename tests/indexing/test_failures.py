"""The indexer process dies, PostgreSQL refuses, a file kills: nothing is lost, and other files go
on.
"""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from cocosearchd.errors import StoreUnavailable
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.indexing.indexer.set_aside import SetAside
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.indexing.throttle import DISK_FULL
from cocosearchd.model import Commit
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from tests.indexing.conftest import python
from tests.indexing.support import (
    Bench,
    Change,
    Source,
    every_path,
    fresh_digest,
    new_record,
    running,
)

pytestmark = pytest.mark.anyio

KILLS = 6
REFUSE = """
create function refuse() returns trigger language plpgsql as
    $$ begin if new.filename = 'lib/retry.py' then raise exception 'refused'; end if; return new; end $$;
create trigger refuse before insert on codeindex_code__code_files for each row execute function refuse();
"""


async def test_a_transaction_that_fails_fails_its_file_only(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    record = await new_record(db, root)
    async with db.connection() as connection:
        await connection.execute(REFUSE)
    async with running(db, record, root, spec) as bench:
        failed = await bench.feed_all()
        assert set(failed) == {"lib/retry.py"}
        assert "refused" in failed["lib/retry.py"]
        assert set(await bench.stored()) == set(every_path(root)) - {"lib/retry.py"}
        assert "lib/retry.py" not in {path for commit in bench.commits for path in commit.paths}
        async with db.connection() as connection:
            await connection.execute("drop trigger refuse on codeindex_code__code_files")
        assert await bench.feed("lib/retry.py") == {}
        assert set(await bench.stored()) == set(every_path(root))
        assert bench.updater.status.deaths == 0


async def test_postgresql_that_is_away_is_waited_for(
    db: Database, root: Path, spec: IndexerSpec, server: str
) -> None:
    record = await new_record(db, root)
    async with running(db, record, root, replace(spec, store_wait_s=3.0)) as bench:
        assert await bench.feed("lib/cache.py") == {}
        with _closed(server, spec.dsn):
            failed = await bench.feed("lib/retry.py", "README.md")
            assert set(failed) == {"lib/retry.py", "README.md"}
            assert not any("Traceback" in text for text in failed.values())
        assert await bench.feed(*failed) == {}
        assert bench.updater.status.deaths == 0


async def test_a_hook_that_fails_leaves_the_paths_dirty(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:

        async def fail(commit: Commit) -> None:
            raise StoreUnavailable("the words cannot be read")

        original, bench.updater._on_commit = bench.updater._on_commit, fail
        assert await bench.feed("lib/retry.py") == {"lib/retry.py": "the words cannot be read"}
        bench.updater._on_commit = original
        assert await bench.feed("lib/retry.py") == {}


async def test_no_room_for_the_memory_is_no_fault_of_the_files(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    record = await new_record(db, root)
    state = anyio.Path(spec.state_dir)
    await state.mkdir()
    await (state / "cocoindex").write_text("in the way")
    async with running(db, record, root, spec) as bench:
        failed = await bench.feed("README.md", "lib/retry.py")
        assert all("cocoindex" in text for text in failed.values()), failed
        assert len(failed) == 2
        await (state / "cocoindex").unlink()
        assert await bench.feed(*failed) == {}
        assert bench.updater.status.deaths == 0


async def test_an_updater_that_was_ended_can_run_again(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    record, source, commits = await new_record(db, root), Source(), list[Commit]()

    async def on_commit(commit: Commit) -> None:
        commits.append(commit)
        if len(commits) == 1:
            ended.cancel()
            await anyio.sleep_forever()

    updater = Updater(spec, on_commit)
    await updater.add(record, source)
    source.give(Change(("README.md",)))
    with anyio.CancelScope() as ended:
        await updater.run()
    assert await source.idle() == {"README.md": "the updater stopped"}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(updater.run)
        source.give(Change(("README.md",)))
        assert await source.idle() == {}
        assert [commit.paths for commit in commits] == [("README.md",)] * 2
        tasks.cancel_scope.cancel()
    assert updater.pid is None


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 21))]
)
async def test_kill_9_at_any_moment(
    db: Database, root: Path, spec: IndexerSpec, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    bench_files = {
        f"many/{n}/{name}{n}.py": python(f"{name}{n}", n)
        for n in range(20)
        for name in ("left", "right")
    }
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        bench.write(bench_files)
        bench.source.give(_all(bench))
        for kill in range(KILLS):
            await _kill(bench, after_s=chance.uniform(0.0, 0.4))
            # What a person does meanwhile: edits, deletes, renames, creates.
            selected = sorted(bench_files)[kill * 5 : kill * 5 + 3]
            (root / selected[0]).write_text(python("edited", kill))
            (root / selected[1]).unlink()
            (root / selected[2]).rename(root / f"moved{kill}.py")
            bench.source.give(_all(bench, *selected))
        assert await bench.source.idle() == {}
        assert bench.source.aside == {}
        assert bench.updater.status.deaths >= KILLS
        digest = await bench.digest()
    assert digest == await fresh_digest(db, root, spec, tmp_path / "other")


async def test_a_file_that_kills_is_set_aside_and_no_other(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    record = await new_record(db, root)
    other_record = await new_record(db, root, "other", suffix=b"/.")
    async with running(db, record, root, replace(spec, crash_on="lib/retry.py")) as bench:
        second = replace(bench, record=other_record, source=Source())
        await bench.updater.add(other_record, second.source)
        failed = tuple(
            await asyncio.gather(
                bench.feed_all(), second.feed(*every_path(root / "src"), "README.md")
            )
        )
        assert failed == (bench.source.aside, {}), "what is set aside is not done"
        assert set(bench.source.aside) == {"lib/retry.py"}
        assert second.source.aside == {}
        assert set(await bench.stored()) == set(every_path(root)) - {"lib/retry.py"}
        assert "SIGABRT" in bench.source.aside["lib/retry.py"]
        assert await bench.feed("README.md") == {}
        assert bench.updater.status.state == "running"


async def test_a_file_that_ends_its_parser_is_plain_text_until_it_changes(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    """The indexing process does not end of it, also when it is asked again after a restart."""
    (root / "a.kt").write_text('val a = "${\n' * 1_100)  # its parser aborts at 1,025
    record = await new_record(db, root)
    for _ in range(2):
        async with running(db, record, root, spec) as bench:
            assert await bench.feed_all() == {}
            assert bench.source.aside == {}
            assert bench.updater.status.deaths == 0
            assert set(await bench.stored()) == set(every_path(root))
            (failure,) = await index_records.parse_failures(db, record)
            assert failure.error_message.startswith("not parsed: ")
    async with running(db, record, root, spec) as bench:
        (root / "a.kt").write_text("fun a() = 1\n")
        assert await bench.feed("a.kt") == {}
        assert not await index_records.parse_failures(db, record)


async def test_on_a_full_disk_no_file_is_blamed(
    db: Database, root: Path, spec: IndexerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory that cannot grow ends the child (SIGBUS), whatever it writes. A full disk would stop
    the other tests.
    """
    monkeypatch.setattr("cocosearchd.indexing.throttle.free_bytes", lambda _: 0)
    spec = replace(spec, crash_on="lib/retry.py", indexing=replace(spec.indexing, min_free_bytes=0))
    async with running(db, await new_record(db, root), root, spec) as bench:
        assert await bench.feed("lib/retry.py") == {"lib/retry.py": DISK_FULL}
        assert bench.source.aside == {}


# a child that stalls is known after two seconds, and three or four do one after the other
async def test_a_file_that_stalls_the_indexer_is_set_aside(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    record = await new_record(db, root)
    async with running(
        db, record, root, replace(spec, hang_on="lib/retry.py"), stall_s=4.0
    ) as bench:
        assert set(await bench.feed("lib/retry.py", "README.md")) == {"lib/retry.py"}
        assert set(bench.source.aside) == {"lib/retry.py"}
        assert set(await bench.stored()) == {"README.md"}


async def test_a_file_that_ends_the_indexer_is_still_set_aside_after_a_restart(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    """By its content: the same in another file is known, and a changed one is indexed."""
    record, crashing = await new_record(db, root), replace(spec, crash_on="retry.py")
    async with running(db, record, root, crashing) as bench:
        assert set(await bench.feed("lib/retry.py")) == {"lib/retry.py"}
        assert bench.updater.status.deaths == 2, "as a suspect, and alone"
        assert await bench.feed("README.md") == {}
    async with running(db, record, root, crashing) as bench:
        bench.write({"lib/copy_retry.py": (root / "lib/retry.py").read_bytes()})
        failed = await bench.feed("lib/retry.py", "lib/copy_retry.py")
        assert set(failed) == set(bench.source.aside) == {"lib/retry.py", "lib/copy_retry.py"}
        assert all("change it" in reason for reason in failed.values())
        assert bench.updater.status.deaths == 0, "it was not tried"
    async with running(db, record, root, spec) as bench:
        bench.write({"lib/retry.py": python("changed")})
        assert await bench.feed("lib/retry.py") == {}
        assert "lib/retry.py" in await bench.stored()


async def test_a_kill_from_outside_is_no_strike(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        feeding = asyncio.create_task(bench.feed("lib/retry.py"))
        for _ in range(2):
            await _kill(bench, after_s=0.0)
        assert await feeding == {}
        assert bench.source.aside == {}


async def test_a_list_of_contents_that_cannot_be_read_is_begun_anew(tmp_path: Path) -> None:
    for damaged in ("", "[]", '{"code": "now", "contents": 7}', "\0"):
        (tmp_path / "set_aside.json").write_text(damaged)
        contents = SetAside(tmp_path, "now")
        contents.add(b"hash", "it stalls")
        assert SetAside(tmp_path, "now").reason(b"hash") == "it stalls"
        assert SetAside(tmp_path, "of another version").reason(b"hash") is None


async def test_an_indexer_that_does_not_start_is_ended(
    db: Database, root: Path, spec: IndexerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped, or waits for a disk, before it answers; the next process may not."""
    monkeypatch.setattr(
        "cocosearchd.indexing.coordinator.indexer_process.START_S", 0.02, raising=False
    )
    async with running(db, await new_record(db, root), root, spec) as bench:
        with anyio.fail_after(60):
            while bench.updater.status.deaths < 2:  # noqa: ASYNC110 - no event tells of it
                await anyio.sleep(0.01)
        monkeypatch.setattr("cocosearchd.indexing.coordinator.indexer_process.START_S", 60.0)
        assert await bench.feed("README.md") == {}


async def test_an_index_can_be_removed_while_the_indexer_is_dead(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    record = await new_record(db, root)
    async with running(db, record, root, spec) as bench:
        await bench.feed("README.md")
        assert bench.updater.pid is not None
        os.kill(bench.updater.pid, signal.SIGKILL)
        await bench.updater.remove("code")
        again = Source()
        await bench.updater.add(record, again)
        assert await replace(bench, source=again).feed_all() == {}


async def test_the_indexer_ends_with_the_daemon(
    db: Database, root: Path, spec: IndexerSpec
) -> None:
    await new_record(db, root)
    code = (
        "import anyio, sys; from cocosearchd.indexing.coordinator.updater import Updater, IndexerSpec\n"
        "async def main():\n"
        "    async def hook(commit): pass\n"
        "    updater = Updater(IndexerSpec(sys.argv[1], sys.argv[2]), hook)\n"
        "    async with anyio.create_task_group() as tasks:\n"
        "        tasks.start_soon(updater.run)\n"
        "        while updater.status.state != 'running': await anyio.sleep(0.01)\n"
        "        print(updater.pid, flush=True)\n"
        "        await anyio.sleep_forever()\n"
        "anyio.run(main)\n"
    )
    command = [sys.executable, "-P", "-c", code, spec.dsn, spec.state_dir]
    async with await anyio.open_process(command, stderr=None) as daemon:
        assert daemon.stdout is not None
        child = int((await daemon.stdout.receive()).split()[0])
        daemon.kill()
        began = time.monotonic()
        while _alive(child):
            assert time.monotonic() - began < 60.0
            await anyio.sleep(0.01)


def _all(bench: Bench, *more: str) -> Change:
    return Change((*every_path(bench.root), *more))


async def _kill(bench: Bench, after_s: float) -> None:
    """`kill -9` the child once it runs and the time has passed."""
    deaths = bench.updater.status.deaths
    with anyio.fail_after(60):
        while (pid := bench.updater.pid) is None:  # noqa: ASYNC110 - the updater has no event for tests
            await anyio.sleep(0.01)
        await anyio.sleep(after_s)
        os.kill(pid, signal.SIGKILL)
        while bench.updater.status.deaths == deaths:  # noqa: ASYNC110 - as above
            await anyio.sleep(0.01)


@contextmanager
def _closed(server: str, dsn: str) -> Iterator[None]:
    """The database takes no connections and has none."""
    name = str(conninfo_to_dict(dsn)["dbname"])
    allow = sql.SQL("alter database {} allow_connections {}")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(allow.format(sql.Identifier(name), sql.Literal(False)))
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = %s and backend_type = 'client backend'",
            [name],
        )
        try:
            yield
        finally:
            connection.execute(allow.format(sql.Identifier(name), sql.Literal(True)))


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # an orphan is somebody else's to reap
