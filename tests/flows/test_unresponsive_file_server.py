"""A root on a file server that stops answering: it is not fresh, and no other root is affected."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import SYNC_MS, Daemon
from tests.flows.test_unavailable_dependencies import wait_until
from tests.unresponsive_files import UnresponsiveFileSystem

UNANSWERED_MS = 1000  # a question waits this long where no answer can be fresh


@pytest.fixture
def far(tmp_path: Path) -> Iterator[tuple[Path, UnresponsiveFileSystem]]:
    """A mounted file system, and its server."""
    directory, server = (
        tmp_path / "far",
        UnresponsiveFileSystem({b"far.py": b"def lighthouse():\n    return 'far'\n"}),
    )
    directory.mkdir()
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(server.mounted(directory))
        except OSError as error:
            pytest.skip(f"nothing can be mounted here: {error}")
        yield directory, server


def fresh(daemon: Daemon, index: str, word: str, wait_ms: int = SYNC_MS) -> tuple[list[str], bool]:
    """Return the paths of the first result, and whether the answer is fresh."""
    answer = daemon.call("search", query=word, index=index, sync_timeout_ms=wait_ms)
    return [result["path"] for result in answer["results"][:1]], answer["fresh"]


def goes_on(daemon: Daemon, project: Path, word: str) -> None:
    """Check that a save elsewhere is found."""
    (project / "src" / "new.py").write_text(f"def {word}():\n    return 1\n")
    assert fresh(daemon, "project", word) == (["src/new.py"], True)


def test_nobody_waits_for_it(
    daemon: Daemon, project: Path, far: tuple[Path, UnresponsiveFileSystem], tmp_path: Path
) -> None:
    directory, server = far
    daemon.index(project)
    daemon.index(directory, "far")
    assert fresh(daemon, "far", "lighthouse") == (["far.py"], True)
    server.answers.clear()
    assert fresh(daemon, "far", "lighthouse", UNANSWERED_MS) == (["far.py"], False)
    reason = daemon.call("sync", index="far", timeout_ms=100)["reason"]
    assert "does not answer" in reason
    assert not daemon.call("get_file", path="far.py", index="far")["fresh"]
    goes_on(daemon, project, "harbour")
    waiting = daemon.begin("up", str(directory / "sub"), "--name", "sub")
    wait_until(lambda: waiting.poll() is None, "it is not asked")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "pier.py").write_text("def pier(): ...\n")
    daemon.index(tmp_path / "other")
    assert fresh(daemon, "other", "pier") == (["pier.py"], True)
    waiting.kill()
    waiting.communicate()

    restarted(daemon, server)
    goes_on(daemon, project, "anchor")
    assert fresh(daemon, "far", "lighthouse", UNANSWERED_MS) == (["far.py"], False)
    server.answers.set()
    wait_until(
        lambda: fresh(daemon, "far", "lighthouse") == (["far.py"], True),
        "it is there again, and not looked at",
    )
    assert '"settings_changed"' not in daemon.log


def restarted(daemon: Daemon, server: UnresponsiveFileSystem) -> None:
    """The daemon stops and starts while the server does not answer."""
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGTERM)
    wait_until(lambda: '"event": "stopped"' in daemon.log, "it waits for the server")
    # else the kernel keeps threads that wait for it, and with them the process
    server.answers.set()
    daemon.process.wait(60)
    server.answers.clear()
    daemon.start()
