"""Explanations why a file is not in an index: the deciding rule, and none for a file in scope."""

import errno
import os
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.runtime.files.nofollow import open_absolute
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.ignore.unindexed_files import why_absent, why_left_out
from tests.daemon import git

SETTINGS = IndexingSettings(exclude=("*_pb2.py",))
LONG = f"{'n' * 199}/" * 12 + f"{'n' * 197}.py"  # 2,600 bytes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root below the top of a repository, so that rules above it count."""
    top = tmp_path / "top"
    root = top / "root"
    for folder in ("gen/deep", "node_modules/x", "build", "src", "private"):
        (root / folder).mkdir(parents=True)
    git(tmp_path, "init", "-q", str(top))
    (top / ".gitignore").write_text("*.log\n")
    (root / ".gitignore").write_text("# made\ngen/\n!keep.py\n")
    (root / ".cocosearchignore").write_text("private/\n")
    (top / ".git" / "info" / "exclude").write_text("mine.py\n")
    files = (
        "gen/deep/a.py",
        "node_modules/x/b.py",
        "build/c.py",
        "src/d_pb2.py",
        "src/e.py",
        "private/f.py",
    )
    for name in (*files, "mine.py", "a.log", ".env", "photo.jpeg", "server.key"):
        (root / name).write_text("x = 1\n")
    (root / LONG).parent.mkdir(parents=True)
    for name in (LONG, f"{LONG}.py"):
        (root / name).write_text("x = 1\n")
    (root / "link.py").symlink_to("src/e.py")
    (root / "away").symlink_to("/etc")
    os.mkfifo(root / "pipe.py")
    return root


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/e.py", None),
        ("nothing.py", "there is no such file"),
        ("src/e.py/x", "there is no such file"),
        ("src/\0/x.py", "no file has a NUL in its name"),
        ("src", "it is a directory"),
        ("pipe.py", "no regular file"),
        ("link.py", "link.py is a symbolic link"),
        ("away/passwd", "away is a symbolic link"),
        ("/etc/passwd", "outside of the root"),
        ("../x.py", "outside of the root"),
        ("gen/deep/a.py", "its directory gen/ is left out by .gitignore:2: gen/"),
        ("a.log", "/.gitignore:1: *.log"),
        ("mine.py", "info/exclude"),
        ("private/f.py", "its directory private/ is left out by .cocosearchignore:1: private/"),
        ("src/d_pb2.py", "indexing.exclude"),
        ("node_modules/x/b.py", "its directory node_modules/ is left out by the built-in"),
        (
            "build/c.py",
            "its directory build/ is left out by the built-in exclusions: what builds put out",
        ),
        (".env", "indexing.index_secrets"),
        ("server.key", "indexing.index_secrets"),
        ("photo.jpeg", "its type"),
        (LONG, None),
        (f"{LONG}.py", "it is left out by its length: paths have at most 2,600 bytes"),
    ],
)
def test_the_reason_is_the_one_that_decides(root: Path, path: str, expected: str | None) -> None:
    scope = RootScope(os.fsencode(root), SETTINGS)
    reason = why_absent(scope, SETTINGS, os.fsencode(path))
    assert reason is None if expected is None else reason is not None and expected in reason, reason


def test_what_is_not_included(root: Path) -> None:
    settings = IndexingSettings(include=("*.go",))
    assert (
        why_absent(RootScope(os.fsencode(root), settings), settings, b"src/e.py")
        == "it matches none of indexing.include"
    )


def test_rules_that_cannot_be_read_now_are_said_to_be(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taking the process's last file handle would fail the test's own tools first."""
    scope = RootScope(os.fsencode(root), SETTINGS)
    (root / "src" / ".gitignore").touch()

    def stumbling(path: bytes, flags: int) -> int:
        if path.endswith(b"src/.gitignore"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return open_absolute(path, flags)

    monkeypatch.setattr("cocosearchd.runtime.files.regular_files.open_absolute", stumbling)
    reason = why_absent(scope, SETTINGS, b"src/e.py")
    assert (
        reason
        == f"the rules that decide cannot be read now: {root}/src/.gitignore: Too many open files; ask again soon"
    )


def test_no_rule_is_named_for_a_directory_like_a_file_or_a_path_outside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "v1.2").mkdir(parents=True)
    (root / "node_modules").mkdir()
    scope = RootScope(os.fsencode(root), IndexingSettings())
    rules = {
        path: why_left_out(scope, IndexingSettings(), path)
        for path in (b"v1.2", b"../out/a.py", b"/out/a.py", b"v1.3", b"node_modules")
    }
    assert [path for path, rule in rules.items() if rule] == [b"v1.3", b"node_modules"], rules
