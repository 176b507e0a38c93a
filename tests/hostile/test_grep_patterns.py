"""Patterns and files of `grep` whose author is hostile: one sentence, and the daemon goes on."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cocosearch_ipc import client, error_codes
from tests.daemon import Daemon

SECRET = "content of a file outside of the root"
# Patterns that RE2 refuses, or whose program would be too large.
REFUSED = {
    "a backreference": r"(a)\1",
    "lookahead": "a(?=b)",
    "an open group": "(" * 900,
    "a pattern that closes a group": "a)|(b",
    "nested repeats": "((a{1,30}){1,30}){1,30}",
    "a large repeat": "a{1001}",
    "large classes": r"(\pL\pN){900}",
    "no pattern": "",
    "two lines": "a\nb",
    "a byte that is not UTF-8": "a\udcff",
    "a long pattern": "x" * 10_001,
}
# Patterns that would take exponential or quadratic time in a matcher that backtracks.
SLOW_ELSEWHERE = {
    "stars in stars": "(a*)*b",
    "alternatives in stars": "(a|aa)+$",
    "many optional letters": "a?" * 500 + "a" * 500,
    "many states": "[ab]*a[ab]{900}c",
    "10,000 characters": "a" * 9_999 + "b",
    "deep groups": "(" * 4000 + "a" + ")" * 4000,
    "unicode classes": r"(\w+|\pL+\s*)*x",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "letters.py").write_text(("a" * 400 + "\n" + "ab" * 200 + "\n") * 300)
    (root / "plain.py").write_text("needle = 1\n")
    return root


def test_patterns_that_are_no_expressions_are_refused(shared: Daemon, root: Path) -> None:
    shared.index(root, "hostile")
    for name, pattern in REFUSED.items():
        with pytest.raises(client.CallFailed) as refused:
            shared.call("grep", index="hostile", pattern=pattern)
        assert refused.value.code == error_codes.INVALID_PARAMS, name
        assert refused.value.hint, name
        assert len(str(refused.value)) < 300, name
    assert shared.call("grep", index="hostile", pattern="needle")["total_lines"] == 1


def test_patterns_that_backtrack_elsewhere_are_answered(shared: Daemon, root: Path) -> None:
    shared.index(root, "hostile")
    for name, pattern in SLOW_ELSEWHERE.items():
        reply = shared.call("grep", index="hostile", pattern=pattern)
        assert reply["complete"], (name, reply["notes"])
        assert reply["searched_files"] == 2, name


def replace_by_link(path: Path) -> None:
    (path.parent.parent / "outside").write_text(f"needle {SECRET}\n")
    path.unlink()
    path.symlink_to(path.parent.parent / "outside")


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_binary(path: Path) -> None:
    path.write_bytes(b"needle\0" * 10)


def replace_by_large_file(path: Path) -> None:
    path.write_bytes(b"needle\n" * 1_000_000)


@pytest.mark.parametrize(
    "change", [replace_by_link, replace_by_pipe, replace_by_binary, replace_by_large_file]
)
def test_a_file_that_became_something_else_is_not_searched(
    shared: Daemon, root: Path, change: Callable[[Path], None]
) -> None:
    shared.index(root, "hostile")
    change(root / "plain.py")
    reply = shared.call("grep", index="hostile", pattern="needle", sync_timeout_ms=0)
    assert reply["files"] == []
    assert SECRET not in str(reply)
    assert reply["complete"] or reply["notes"]
    settled = shared.call("grep", index="hostile", pattern="needle", sync_timeout_ms=30_000)
    assert settled["files"] == []


def test_a_pattern_that_ends_its_process_costs_no_other_answer(shared: Daemon, root: Path) -> None:
    shared.index(root, "hostile")
    assert shared.call("grep", index="hostile", pattern="needle")["total_lines"] == 1
    for worker in shared.children("cocosearchd.search.grep.grep_worker"):
        with contextlib.suppress(psutil.NoSuchProcess):  # one that was idle for long has ended
            worker.kill()
            worker.wait(10)
    reply = shared.call("grep", index="hostile", pattern="needle")
    assert (reply["total_lines"], reply["complete"]) == (1, True)
