"""A follower of a daemon in a distributed schema: as fresh as beside a plain one, also when it moves."""

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cocosearch_ipc.client import CallFailed
from tests.cluster.nodes import Cluster, Node
from tests.cluster.test_kills import home_of
from tests.daemon import Daemon, passing_daemon
from tests.schemas import CITUS, distributed_schema

FILES = 10
# An answer names the server that is away: a node, or PostgreSQL for the coordinator.
AWAY = re.compile(r"node 127\.0\.0\.1:\d+ of the cluster went away|PostgreSQL ")


class Pair:
    """The owner of a root in one distributed schema, and its follower in another."""

    def __init__(self, owner: Daemon, follower: Daemon, root: Path, dsn: str) -> None:
        self.owner = owner
        self.follower = follower
        self.root = root
        self.dsn = dsn
        self.schema = dsn.split("search_path=")[1].split(",")[0]
        self.index = f"code@{self.schema}"
        self._saves = 0

    def save(self) -> str:
        self._saves += 1
        word = f"saved_as_{self._saves}"
        file = self.root / f"file_{self._saves % FILES}.py"
        file.write_text(f"def {word}():\n    return {self._saves}\n")
        return word

    def ask(self, word: str, **options: Any) -> Any:
        request = {"query": word, "index": self.index, "limit": 3, "sync_timeout_ms": 20_000}
        return self.follower.call("search", **(request | options))

    def check_saves(self, count: int) -> None:
        """Save and ask: each answer is fresh and has the text."""
        for _ in range(count):
            word = self.save()
            reply = self.ask(word)
            assert reply["fresh"], reply["stale_reason"]
            assert word in reply["results"][0]["content"]

    def wait_for_fresh(self, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        while not self._is_fresh():
            assert time.monotonic() < end, self.follower.log[-4000:]
            time.sleep(0.1)

    def _is_fresh(self) -> bool:
        with contextlib.suppress(CallFailed):
            return bool(self.ask("anything")["fresh"])
        return False


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    root = tmp_path / "project"
    root.mkdir()
    for number in range(FILES):
        (root / f"file_{number}.py").write_text(f"def first{number}():\n    return 0\n")
    with (
        distributed_schema(CITUS) as dsn,
        distributed_schema(CITUS) as follower_dsn,
        passing_daemon(COCOSEARCH_DATABASE_URL=dsn) as owner,
    ):
        schema = dsn.split("search_path=")[1].split(",")[0]
        owner.start()
        owner.index(root, "code")
        with passing_daemon(
            COCOSEARCH_DATABASE_URL=follower_dsn, COCOSEARCH_DATABASE_FOLLOW=schema
        ) as follower:
            follower.start()
            pair = Pair(owner, follower, root, dsn)
            end = time.monotonic() + 60
            while pair.index not in index_names(follower):
                assert time.monotonic() < end, follower.log[-4000:]
                time.sleep(0.05)
            yield pair


def index_names(daemon: Daemon) -> list[str]:
    return [index["name"] for index in daemon.call("list_indexes")["indexes"]]


def test_a_follower_answers_from_a_distributed_schema(nodes: Cluster, pair: Pair) -> None:
    pair.check_saves(10)
    size = pair.follower.call("index_stats", index=pair.index)["size_bytes"]
    assert size == pair.owner.call("index_stats", index="code")["size_bytes"] > 100_000
    source = home_of(nodes, pair.dsn)
    (target,) = [node for node in nodes.nodes[1:] if node.port != source.port]
    nodes.coordinator.execute(
        f"select citus_schema_move('{pair.schema}', '127.0.0.1', {target.port}, 'force_logical')"
    )
    pair.check_saves(5)
    target.stop("immediate")
    reply = pair.ask("saved_as_3", sync_timeout_ms=1000)
    assert not reply["fresh"]
    target.start()
    pair.wait_for_fresh(60)
    pair.check_saves(5)
    pair.owner.call("clear_index", index="code")
    end = time.monotonic() + 60
    while pair.index in index_names(pair.follower):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_follower_that_follows_itself_says_so(pair: Pair) -> None:
    with distributed_schema(CITUS) as dsn:
        schema = dsn.split("search_path=")[1].split(",")[0]
        with passing_daemon(
            COCOSEARCH_DATABASE_URL=dsn, COCOSEARCH_DATABASE_FOLLOW=f"{schema},{pair.schema}"
        ) as daemon:
            daemon.start()
            end = time.monotonic() + 60
            while pair.index not in index_names(daemon):
                assert time.monotonic() < end, daemon.log[-4000:]
                time.sleep(0.05)
            assert "is that of this daemon itself" in daemon.log


def end_and_start(node: Node) -> None:
    """End a server as a crash does, for a second."""
    time.sleep(0.5)
    node.stop("immediate")
    time.sleep(1)
    node.start()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_answer_is_wrongly_fresh_while_nodes_end(nodes: Cluster, pair: Pair) -> None:
    """Neither of the writer nor of its follower; and an error names the server that is away."""
    daemons = [(pair.owner, "code"), (pair.follower, pair.index)]
    worker = home_of(nodes, pair.dsn)
    fresh_answers, errors = 0, list[str]()
    for node in (worker, nodes.coordinator, worker, nodes.coordinator):
        fault = threading.Thread(target=end_and_start, args=(node,))
        fault.start()
        while fault.is_alive():
            word = pair.save()
            for daemon, index in daemons:
                request = {"query": word, "index": index, "limit": 3, "sync_timeout_ms": 2000}
                try:
                    reply = daemon.call("search", **request)
                except CallFailed as error:
                    errors.append(str(error))
                    continue
                fresh_answers += reply["fresh"]
                has_word = any(word in hit["content"] for hit in reply["results"])
                assert has_word or not reply["fresh"], f"{word} is saved, and not in a fresh answer"
        pair.wait_for_fresh(60)
        pair.check_saves(3)
    assert fresh_answers > 0
    assert errors
    assert [message for message in errors if not AWAY.search(message)] == []
