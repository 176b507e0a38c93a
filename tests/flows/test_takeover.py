"""All processes of a daemon are stopped in the middle of a write. The server ends that write; another
daemon takes the registry over once the session of its lock has ended, and the first one ends when it
wakes.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cocosearch_ipc.cli import exits
from cocosearch_ipc.client import CallFailed
from tests import waiting
from tests.conftest import QUICK
from tests.daemon import Daemon, freezing, passing_daemon
from tests.store.remote import remote_server

LOCK_HOLDERS = (
    "select pid from pg_stat_activity"
    " where application_name like 'cocosearchd-%' and datname = current_database()"
)
# The last statement of a write: it waits for a lock of the registry's row.
WAITING_WRITES = (
    "select count(*) from pg_stat_activity"
    " where query like '%select owner from %' and state = 'active' and pid <> pg_backend_pid()"
)
LIMIT_S = 90.0  # database.IDLE_TRANSACTION_S, and as much time again for two starts
wait_until = partial(waiting.wait_until, limit_s=LIMIT_S)


@dataclass(frozen=True)
class Registry:
    """The database of a daemon: its own URL, and that of a superuser in the same schema."""

    url: str
    admin: str

    def count(self, query: str) -> int:
        with psycopg.connect(self.admin, autocommit=True) as connection:
            row = connection.execute(query.encode()).fetchone()
            assert row
            return int(row[0])

    def generation(self) -> int:
        return self.count("select generation from cocosearch_indexes")

    def end_lock_session(self) -> None:
        """Do what keepalives do when the host of a daemon is gone."""
        with psycopg.connect(self.admin, autocommit=True) as connection:
            for (pid,) in connection.execute(LOCK_HOLDERS).fetchall():
                connection.execute("select pg_terminate_backend(%s::integer)", [pid])


@pytest.fixture
def registry(public_state: Path, cluster: Path) -> Iterator[Registry]:
    home = public_state / "takeover"
    shutil.rmtree(home, ignore_errors=True)  # of the test before
    with remote_server(home, QUICK, cluster) as server:
        server.make_database("shared")
        yield Registry(
            make_conninfo(server.dsn, dbname="shared"), make_conninfo(server.admin, dbname="shared")
        )


def save(root: Path, word: str) -> None:
    (root / f"{word}.py").write_text(f"def {word}():\n    return 1\n")


def ask(daemon: Daemon, word: str, timeout_ms: int = 20_000) -> Any:
    request = {"query": word, "index": "code", "limit": 3, "sync_timeout_ms": timeout_ms}
    return daemon.call("search", **request)


def is_found(daemon: Daemon, word: str) -> bool:
    """Return whether a fresh answer has the word; no fresh answer is without it."""
    try:
        reply = ask(daemon, word)
    except CallFailed:
        return False
    has_word = any(word in hit["content"] for hit in reply["results"])
    assert has_word or not reply["fresh"], f"{word} is saved, and not in a fresh answer"
    return has_word and bool(reply["fresh"])


@contextlib.contextmanager
def frozen_in_a_write(daemon: Daemon, registry: Registry, root: Path, word: str) -> Iterator[None]:
    """Stop all processes of a daemon, in a transaction that is complete but for its commit."""
    assert daemon.process is not None
    process = psutil.Process(daemon.process.pid)
    with contextlib.ExitStack() as stack:
        with psycopg.connect(registry.admin) as blocking:
            blocking.execute("select 1 from cocosearch_registry for update")
            save(root, word)
            wait_until(lambda: registry.count(WAITING_WRITES) > 0, "nothing is written")
            stack.enter_context(freezing([process, *process.children(recursive=True)]))
        yield


def check_takeover(registry: Registry, root: Path) -> None:
    """Freeze the first daemon, have a second one take over, and wake the first."""
    save(root, "before")
    with contextlib.ExitStack() as stack:
        first, second = (
            stack.enter_context(passing_daemon(COCOSEARCH_DATABASE_URL=registry.url))
            for _ in range(2)
        )
        first.start()
        first.index(root, "code")
        with frozen_in_a_write(first, registry, root, "frozen"):
            refused = second.run()
            assert refused.returncode == exits.NOT_RUNNING
            assert "another cocosearchd, from 127.0.0.1, uses this database" in refused.stderr
            registry.end_lock_session()
            second.start()
            wait_until(lambda: is_found(second, "frozen"), second.log[-4000:])
            save(root, "taken")
            wait_until(lambda: is_found(second, "taken"), second.log[-4000:])
            generation = registry.generation()
        is_found(first, "taken")
        assert first.process is not None
        assert first.process.wait(LIMIT_S) == exits.NOT_RUNNING, first.log[-4000:]
        assert "uses this database" in first.log
        assert registry.generation() == generation
        save(root, "afterwards")
        wait_until(lambda: is_found(second, "afterwards"), second.log[-4000:])


def check_wake(registry: Registry, root: Path) -> None:
    """Freeze a daemon until the server has ended its write, and wake it without another."""
    idle = "select count(*) from pg_stat_activity where state like 'idle in transaction%'"
    save(root, "before")
    with passing_daemon(COCOSEARCH_DATABASE_URL=registry.url) as daemon:
        daemon.start()
        daemon.index(root, "code")
        with frozen_in_a_write(daemon, registry, root, "frozen"):
            assert registry.count(idle) > 0
            wait_until(lambda: registry.count(idle) == 0, "the transaction stays open")
            save(root, "meanwhile")
        wait_until(lambda: is_found(daemon, "frozen"), daemon.log[-4000:])
        wait_until(lambda: is_found(daemon, "meanwhile"), daemon.log[-4000:])


Check = Callable[[Registry, Path], None]
CHECKS: tuple[Check, ...] = (check_takeover, check_wake)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("check", CHECKS)
def test_a_daemon_is_frozen_in_a_write(check: Check, registry: Registry, tmp_path: Path) -> None:
    check(registry, tmp_path)
