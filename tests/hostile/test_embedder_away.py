"""A model server that is away when the daemon starts: what is indexed stays, and only new text waits for it."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cocosearchd.embedding.base import EmbedderFingerprint
from cocosearchd.embedding.promised import fingerprint_of
from tests.daemon import Daemon, passing_daemon
from tests.embedding.ollama_server import Script, ollama_server
from tests.store.remote import free_port

pytestmark = pytest.mark.timeout(180)
FILES = 12


@pytest.fixture
def server() -> Iterator[tuple[int, contextlib.ExitStack]]:
    """The port of a model server that runs until the stack is closed."""
    port = free_port()
    with contextlib.ExitStack() as running:
        running.enter_context(ollama_server(Script(dimension=32), port))
        yield port, running


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Some files that were written long enough ago to be known by their times."""
    root = tmp_path / "project"
    root.mkdir()
    for number in range(FILES):
        path = root / f"module{number}.py"
        path.write_text(f"def function_number_{number}():\n    return {number}\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return root


def awaited_index(daemon: Daemon, true: Callable[[dict[str, Any]], bool], limit_s: float = 60.0) -> dict[str, Any]:
    """The status of the only index once it is as wanted."""
    end = time.monotonic() + limit_s
    while True:
        (index,) = daemon.call("status")["indexes"]
        if true(index):
            return dict(index)
        assert time.monotonic() < end, f"{index}\n{daemon.log[-3000:]}"
        time.sleep(0.25)


@contextlib.contextmanager
def restarted_without_embedder(
    cluster: Path, root: Path, server: tuple[int, contextlib.ExitStack], between: Callable[[], None]
) -> Iterator[Daemon]:
    """A daemon that indexed a root and was stopped; then its model server ended, files changed, and it came back."""
    port, running = server
    variables = {"COCOSEARCH_EMBEDDER_PROVIDER": "ollama", "COCOSEARCH_OLLAMA_URL": f"http://127.0.0.1:{port}"}
    with passing_daemon(cluster, **variables) as daemon:
        daemon.start()
        daemon.ctl("up", str(root), "--wait")
        assert daemon.stop() == 0
        running.close()
        between()
        daemon.start()
        yield daemon


def test_files_that_did_not_change_stay_indexed_and_fresh(
    cluster: Path, root: Path, server: tuple[int, contextlib.ExitStack]
) -> None:
    def touch() -> None:
        for path in root.iterdir():
            os.utime(path)  # looks changed, and is not

    with restarted_without_embedder(cluster, root, server, touch) as daemon:
        index = awaited_index(daemon, lambda index: index["state"] == "live" and not index["pending"])
        assert (index["failed_count"], index["failed"], index["files"]) == (0, [], FILES)
        reply = daemon.call("search", query="function_number_7", index="project", sync_timeout_ms=10_000)
        assert reply["fresh"], reply["stale_reason"]
        assert reply["results"][0]["path"] == "module7.py"


def test_only_what_changed_waits_and_is_caught_up(
    cluster: Path, root: Path, server: tuple[int, contextlib.ExitStack]
) -> None:
    port, _ = server

    def change() -> None:
        (root / "module1.py").write_text("def changed_while_away():\n    return 1\n")
        (root / "module2.py").unlink()
        os.utime(root / "module3.py")

    with restarted_without_embedder(cluster, root, server, change) as daemon:
        index = awaited_index(daemon, lambda index: index["failed_count"] == 1 and index["files"] == FILES - 1)
        assert [file["path"] for file in index["failed"]] == ["module1.py"]
        assert f"http://127.0.0.1:{port}" in index["failed"][0]["error"]
        reply = daemon.call("search", query="function_number_7", index="project", sync_timeout_ms=500)
        assert (reply["fresh"], reply["pending"]) == (False, ["module1.py"])
        assert "1 file waits for the embedder, the first is module1.py: Ollama at" in reply["stale_reason"]
        assert "could not be indexed" not in reply["stale_reason"]
        (root / "module4.py").unlink()  # what goes needs no vector
        awaited_index(daemon, lambda index: index["files"] == FILES - 2)
        with ollama_server(Script(dimension=32), port):
            awaited_index(daemon, lambda index: not index["failed_count"] and not index["pending"], limit_s=30)
            reply = daemon.call("search", query="changed_while_away", index="project", sync_timeout_ms=10_000)
            assert reply["fresh"], reply["stale_reason"]
            assert reply["results"][0]["path"] == "module1.py"


def test_a_fingerprint_is_read_back_from_its_pairs() -> None:
    fingerprint = EmbedderFingerprint("ollama", "nomic-embed-text", "sha256:1", 768, "doc: ", "query: ", 2048)
    assert fingerprint_of(fingerprint.pairs()) == fingerprint
    assert fingerprint_of((*fingerprint.pairs(), ("zeal", "1"))) is None
    assert fingerprint_of(tuple(pair for pair in fingerprint.pairs() if pair[0] != "dimension")) is None
