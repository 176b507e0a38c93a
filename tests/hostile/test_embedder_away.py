"""A model server that is away at the start: the index stays, and only new text waits."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cocosearchd.embedding.base import EmbedderFingerprint
from cocosearchd.embedding.offline import fingerprint_from_pairs
from tests.daemon import Daemon, passing_daemon
from tests.embedding.ollama_server import Script, ollama_server
from tests.store.remote import free_port

FILES = 12


@pytest.fixture
def server() -> Iterator[tuple[int, contextlib.ExitStack]]:
    """The port of a model server that runs until the stack is closed."""
    port = free_port()
    with contextlib.ExitStack() as running:
        running.enter_context(ollama_server(Script(dimension=32), port))
        yield port, running


@pytest.fixture
def roots(tmp_path: Path) -> dict[str, Path]:
    """Two of some files each, by name, written long enough ago to be known by their times."""
    roots = {name: tmp_path / name for name in ("touched", "changed")}
    for root in roots.values():
        root.mkdir()
        for number in range(FILES):
            path = root / f"module{number}.py"
            path.write_text(f"def function_number_{number}():\n    return {number}\n")
            os.utime(path, (1_700_000_000, 1_700_000_000))
    return roots


def awaited_index(
    daemon: Daemon, name: str, true: Callable[[dict[str, Any]], bool], limit_s: float = 60.0
) -> dict[str, Any]:
    """The status of an index once it is as wanted."""
    end = time.monotonic() + limit_s
    while True:
        (index,) = [index for index in daemon.call("status")["indexes"] if index["name"] == name]
        if true(index):
            return dict(index)
        assert time.monotonic() < end, f"{index}\n{daemon.log[-3000:]}"
        time.sleep(0.25)


def test_indexed_files_stay_and_only_changed_ones_wait(
    cluster: Path, roots: dict[str, Path], server: tuple[int, contextlib.ExitStack]
) -> None:
    """A daemon indexed two roots and was stopped; its model server ended, and it came back without
    it.
    """
    port, running = server
    variables = {
        "COCOSEARCH_EMBEDDER_PROVIDER": "ollama",
        "COCOSEARCH_OLLAMA_URL": f"http://127.0.0.1:{port}",
    }
    with passing_daemon(cluster, **variables) as daemon:
        daemon.start()
        for root in roots.values():
            daemon.index(root)
        assert daemon.stop() == 0
        running.close()
        change(roots)
        daemon.start()
        assert_touched_files_stay(daemon)
        assert_changed_files_wait(daemon, port)
        (roots["changed"] / "module4.py").unlink()  # what goes needs no vector
        awaited_index(daemon, "changed", lambda index: index["files"] == FILES - 2)
        with ollama_server(Script(dimension=32), port):
            assert_caught_up(daemon)


def change(roots: dict[str, Path]) -> None:
    for path in roots["touched"].iterdir():
        os.utime(path)  # looks changed, and is not
    (roots["changed"] / "module1.py").write_text("def changed_while_away():\n    return 1\n")
    (roots["changed"] / "module2.py").unlink()
    os.utime(roots["changed"] / "module3.py")


def assert_touched_files_stay(daemon: Daemon) -> None:
    """Indexed and fresh."""
    index = awaited_index(
        daemon, "touched", lambda index: index["state"] == "live" and not index["pending"]
    )
    assert (index["failed_count"], index["failed"], index["files"]) == (0, [], FILES)
    reply = daemon.call(
        "search", query="function_number_7", index="touched", sync_timeout_ms=10_000
    )
    assert reply["fresh"], reply["stale_reason"]
    assert reply["results"][0]["path"] == "module7.py"


def assert_changed_files_wait(daemon: Daemon, port: int) -> None:
    """The one that has new text, and no other."""
    index = awaited_index(
        daemon, "changed", lambda index: index["failed_count"] == 1 and index["files"] == FILES - 1
    )
    assert [file["path"] for file in index["failed"]] == ["module1.py"]
    assert f"http://127.0.0.1:{port}" in index["failed"][0]["error"]
    reply = daemon.call("search", query="function_number_7", index="changed", sync_timeout_ms=500)
    assert (reply["fresh"], reply["pending"]) == (False, ["module1.py"])
    assert (
        "1 file waits for the embedder, the first is module1.py: Ollama at" in reply["stale_reason"]
    )
    assert "could not be indexed" not in reply["stale_reason"]


def assert_caught_up(daemon: Daemon) -> None:
    """Once the model server is back."""
    awaited_index(
        daemon,
        "changed",
        lambda index: not index["failed_count"] and not index["pending"],
    )
    reply = daemon.call(
        "search", query="changed_while_away", index="changed", sync_timeout_ms=10_000
    )
    assert reply["fresh"], reply["stale_reason"]
    assert reply["results"][0]["path"] == "module1.py"


def test_a_fingerprint_is_read_back_from_its_pairs() -> None:
    fingerprint = EmbedderFingerprint(
        "ollama", "nomic-embed-text", "sha256:1", 768, "doc: ", "query: ", 2048
    )
    assert fingerprint_from_pairs(fingerprint.pairs()) == fingerprint
    assert fingerprint_from_pairs((*fingerprint.pairs(), ("zeal", "1"))) is None
    assert (
        fingerprint_from_pairs(
            tuple(pair for pair in fingerprint.pairs() if pair[0] != "dimension")
        )
        is None
    )
