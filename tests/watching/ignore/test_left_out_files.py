"""Files that are out of scope are counted by the kind of rule, within bounds."""

import os
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.watching.ignore import left_out_files
from cocosearchd.watching.ignore.left_out_files import LeftOutFiles, count_left_out
from cocosearchd.watching.ignore.root_scope import RootScope


def make_files(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x = 1\n")


def count(root: Path, settings: IndexingSettings) -> LeftOutFiles:
    return count_left_out(RootScope(os.fsencode(root), settings), settings)


def test_files_are_counted_by_the_rule_that_leaves_them_out(tmp_path: Path) -> None:
    make_files(tmp_path, "made/a.py", "made/deep/b.py", "node_modules/c.js", ".env", "d.jpeg")
    make_files(tmp_path, "mine/e.py", "f_pb2.py", ".git/config", "src/searched.py")
    (tmp_path / ".gitignore").write_text("made/\n.gitignore\n.cocosearchignore\n")
    (tmp_path / ".cocosearchignore").write_text("mine/\n")
    counts = count(tmp_path, IndexingSettings(exclude=("*_pb2.py",))).counts
    assert counts == {
        "gitignore": 4,
        "built_in": 1,
        "secret_name": 1,
        "type": 1,
        "cocosearchignore": 1,
        "exclude": 1,
    }


def test_files_that_are_not_included_are_counted(tmp_path: Path) -> None:
    make_files(tmp_path, "a.py", "b.go")
    left_out = count(tmp_path, IndexingSettings(include=("*.go",)))
    assert left_out == LeftOutFiles({"include": 1}, is_complete=True)


def test_the_count_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is lowered, because a thousand files would take seconds to write."""
    monkeypatch.setattr(left_out_files, "MAX_COUNTED_FILES", 5)
    make_files(tmp_path, *(f"made/{number}.py" for number in range(20)))
    (tmp_path / ".gitignore").write_text("*\n")
    left_out = count(tmp_path, IndexingSettings())
    assert (left_out.counts, left_out.is_complete) == ({"gitignore": 5}, False)
