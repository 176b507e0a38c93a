"""A running daemon, and a small project for it to watch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import Daemon, git, passing_daemon


@pytest.fixture
def stopped(cluster: Path) -> Iterator[Daemon]:
    """A daemon that has not been started."""
    with passing_daemon(cluster) as daemon:
        yield daemon


@pytest.fixture
def daemon(stopped: Daemon) -> Daemon:
    """A running daemon without indexes, of the test's own: it may be killed, stopped and told other settings."""
    stopped.start()
    return stopped


@pytest.fixture
def other_daemon(cluster: Path) -> Iterator[Daemon]:
    """A second one, that has not been started."""
    with passing_daemon(cluster) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def module_daemon(cluster: Path) -> Iterator[Daemon]:
    """The running daemon behind `shared`."""
    with passing_daemon(cluster) as daemon:
        daemon.start()
        yield daemon
        assert daemon.stop() == 0


@pytest.fixture
def shared(module_daemon: Daemon) -> Iterator[Daemon]:
    """A running daemon without indexes, for tests that leave it as it is: one for all of a module."""
    yield module_daemon
    module_daemon.clear()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small git repository in three languages."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "retry.py").write_text(
        '"""Decides whether a failed request is sent again."""\n\n\n'
        "class RetryPolicy:\n"
        "    def should_retry(self, status: int, attempt: int) -> bool:\n"
        '        """Only server errors, and at most three times."""\n'
        "        return status >= 500 and attempt < 3\n"
    )
    (root / "src" / "server.go").write_text(
        "package main\n\n// ListenAndServe accepts connections until the listener closes.\n"
        "func ListenAndServe(addr string) error {\n\treturn serve(addr)\n}\n"
    )
    (root / "README.md").write_text("# Sample\n\nA project with a retry policy and a server.\n")
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
        git(root, *arguments)
    return root
