"""A running daemon, and a small project for it to watch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import Daemon, git, passing_daemon


@pytest.fixture
def other_daemon(cluster: Path) -> Iterator[Daemon]:
    """A second one, that has not been started."""
    with passing_daemon(cluster) as daemon:
        yield daemon


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
