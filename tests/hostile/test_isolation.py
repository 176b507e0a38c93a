"""One root never stops another: a root that hangs, or an index that fails, leaves saves of every
other fresh.
"""

import time
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from cocosearch_ipc.client import CallFailed
from tests.daemon import Daemon, passing_daemon
from tests.hostile.hanging import hanging_directory
from tests.hostile.neighbour import Neighbour, settle

FILES = {
    "a.py": b"def first_of_the_hanging():\n    pass\n",
    "b.py": b"def second_of_the_hanging():\n    pass\n",
    "cocosearch.yaml": b"topics: [hanging]\n",
}
HANGS_S = 6.0  # each of the daemon's looks at a root comes at least twice in that time
# Twice the threads of the daemon itself and of one root (`root_threads.THREADS_PER_ROOT`).
THREADS = 60


def threads(daemon: Daemon) -> int:
    assert daemon.process is not None
    return psutil.Process(daemon.process.pid).num_threads()


@pytest.mark.parametrize(
    "hanging", [{"cocosearch.yaml", "a.py"}, {"", *FILES}], ids=["some", "all"]
)
def test_a_root_that_hangs_stops_no_other(
    shared: Daemon, hostile_root: Path, neighbour: Neighbour, hanging: set[str]
) -> None:
    with hanging_directory(hostile_root, FILES) as directory:
        neighbour.watch(shared)
        shared.index(hostile_root)
        previous_threads, end = threads(shared), time.monotonic() + HANGS_S
        directory.hanging = hanging
        while time.monotonic() < end:
            neighbour.assert_fresh(shared, rounds=1)
            try:
                shared.call(
                    "search",
                    query="first",
                    index=hostile_root.name,
                    sync_timeout_ms=100,
                    why_not="a.py",
                )
            except CallFailed:
                continue  # it may be refused, and must not keep the next save of the neighbour
        neighbour.assert_fresh(shared)
        assert directory.waiting
        assert threads(shared) < previous_threads + THREADS, (
            "the looks at one root use up the threads"
        )
        shared.call("status")


def test_a_root_that_hangs_keeps_no_daemon_from_starting(
    daemon: Daemon, hostile_root: Path, neighbour: Neighbour
) -> None:
    with hanging_directory(hostile_root, FILES) as directory:
        neighbour.watch(daemon)
        daemon.index(hostile_root)
        daemon.kill()
        directory.hanging = {"cocosearch.yaml"}
        daemon.start()
        settle(daemon, neighbour)
        neighbour.assert_fresh(daemon)
        directory.hanging = set()


TABLE = "codeindex_hostile__hostile_chunks"


def test_an_index_that_cannot_be_started_stops_no_other(
    dsn: str, hostile_root: Path, neighbour: Neighbour
) -> None:
    """A table of it is missing: the daemon says so, serves the others, and starts it when it
    can.
    """
    (hostile_root / "a.py").write_text("def of_the_broken():\n    pass\n")
    with (
        passing_daemon(COCOSEARCH_DATABASE_URL=dsn) as daemon,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        daemon.start()
        neighbour.watch(daemon)
        daemon.index(hostile_root)
        daemon.kill()
        connection.execute(f"ALTER TABLE {TABLE} RENAME TO {TABLE}_away")
        daemon.start()
        settle(daemon, neighbour)
        neighbour.assert_fresh(daemon)
        assert "could not be started" in status_of(daemon, hostile_root)["reason"]
        connection.execute(f"ALTER TABLE {TABLE}_away RENAME TO {TABLE}")
        end = time.monotonic() + 60
        while status_of(daemon, hostile_root)["state"] == "refused":
            assert time.monotonic() < end, "it is not started again"
            time.sleep(0.2)
        daemon.ctl("sync", "--index", hostile_root.name)
        answer = daemon.call("search", query="of_the_broken", index=hostile_root.name)
        assert [result["path"] for result in answer["results"]] == ["a.py"]


def status_of(daemon: Daemon, root: Path) -> Any:
    (status,) = [index for index in daemon.call("status")["indexes"] if index["name"] == root.name]
    return status
