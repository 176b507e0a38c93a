"""Daemons in distributed schemas: moved, alone in their schema, and without their node."""

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cocosearch_ipc.client import CallFailed
from tests.cluster.nodes import Cluster
from tests.cluster.test_kills import home_of
from tests.daemon import Daemon, passing_daemon
from tests.schemas import CITUS, distributed_schema


@pytest.fixture
def schema_dsn() -> Iterator[str]:
    with distributed_schema(CITUS) as dsn:
        yield dsn


@pytest.fixture
def writer(schema_dsn: str) -> Iterator[Daemon]:
    with passing_daemon(COCOSEARCH_DATABASE_URL=schema_dsn) as daemon:
        daemon.start()
        yield daemon


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    for number in range(10):
        save(root, number, f"first{number}")
    return root


def save(root: Path, number: int, word: str) -> None:
    (root / f"file_{number}.py").write_text(f"def {word}():\n    return {number}\n")


def paths(daemon: Daemon, word: str) -> tuple[bool, list[str]]:
    reply = daemon.call("search", query=word, index="code", limit=3)
    return reply["fresh"], [hit["path"] for hit in reply["results"] if word in hit["content"]]


class Saves:
    """Saves beside something else, each of which is asked for at once."""

    def __init__(self, daemon: Daemon, root: Path) -> None:
        self.failures = list[str]()
        self.answers = 0
        self._daemon = daemon
        self._root = root
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Saves":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            number += 1
            word = f"saved_as_{number}"
            save(self._root, number % 10, word)
            try:
                answer = paths(self._daemon, word)
            except CallFailed as error:
                self.failures.append(str(error))
                continue
            self.answers += 1
            if answer != (True, [f"file_{number % 10}.py"]):
                self.failures.append(f"{word}: {answer}")


def test_a_schema_moves_beside_saves(
    nodes: Cluster, schema_dsn: str, writer: Daemon, root: Path
) -> None:
    writer.index(root, "code")
    source = home_of(nodes, schema_dsn)
    (target,) = [node for node in nodes.nodes[1:] if node.port != source.port]
    schema = schema_dsn.split("search_path=")[1].split(",")[0]
    with Saves(writer, root) as saves:
        time.sleep(1)
        nodes.coordinator.execute(
            f"select citus_schema_move('{schema}', '127.0.0.1', {target.port}, 'force_logical')"
        )
        moved = (saves.answers, len(saves.failures))
        time.sleep(2)
    assert home_of(nodes, schema_dsn) == target
    assert saves.failures[moved[1] :] == []
    assert saves.answers > moved[0] > 0
    assert saves.failures == []


def test_each_daemon_has_its_own_schema(writer: Daemon, root: Path, tmp_path: Path) -> None:
    writer.index(root, "code")
    second_root = tmp_path / "other"
    second_root.mkdir()
    save(second_root, 1, "of_the_other")
    with distributed_schema(CITUS) as dsn, passing_daemon(COCOSEARCH_DATABASE_URL=dsn) as second:
        second.start()
        second.index(second_root, "code")
        assert paths(second, "of_the_other") == (True, ["file_1.py"])
        assert paths(second, "first3") == (True, [])
        assert paths(writer, "first3") == (True, ["file_3.py"])
        assert paths(writer, "of_the_other") == (True, [])


def test_a_second_daemon_in_one_schema_is_refused(writer: Daemon, schema_dsn: str) -> None:
    assert writer.answers()
    with passing_daemon(COCOSEARCH_DATABASE_URL=schema_dsn) as second:
        outcome = second.run()
    assert outcome.returncode != 0
    assert "another cocosearchd" in outcome.stderr
    assert "schema" in outcome.stderr


def test_a_node_that_is_away_is_named_and_waited_for(
    nodes: Cluster, schema_dsn: str, writer: Daemon, root: Path
) -> None:
    writer.index(root, "code")
    worker = home_of(nodes, schema_dsn)
    worker.stop("immediate")
    try:
        save(root, 3, "while_it_was_away")
        end = time.monotonic() + 60
        while (store := writer.call("status")["store"])["state"] == "up":
            assert time.monotonic() < end, store
            time.sleep(0.2)
        assert f":{worker.port}" in store["reason"], store
    finally:
        worker.start()
    end = time.monotonic() + 60
    while not is_found(writer, "while_it_was_away"):
        assert time.monotonic() < end, writer.log[-4000:]
        time.sleep(0.2)


def is_found(daemon: Daemon, word: str) -> bool:
    with contextlib.suppress(CallFailed):
        return paths(daemon, word) == (True, ["file_3.py"])
    return False
