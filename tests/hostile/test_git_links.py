"""Links in a repository's metadata that lead out of it are not followed.

They may lead to a mount that hangs, or to a file that changes all the time.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.model import RACY_NS
from cocosearchd.watching.git import stamps
from cocosearchd.watching.ignore.root_scope import RootScope
from tests.watching.support import git

LIMIT = 100


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a file that is hidden by its configuration."""
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "config", "extensions.worktreeConfig", "true")
    git(root, "config", "core.excludesFile", ".git/chosen")
    (root / ".git" / "chosen").write_text("hidden.py\n")
    (root / "shown.py").touch()
    git(root, "add", "shown.py")
    return root


def scope_of(root: Path) -> RootScope:
    return RootScope(os.fsencode(root), IndexingSettings())


def link_away(root: Path, outside: Path, name: str) -> None:
    """Put a file of the repository outside of it, and a link in its place."""
    path = root / ".git" / name
    if path.exists():
        path.rename(outside)
    else:
        outside.touch()
    path.symlink_to(outside)


def include(root: Path, outside: Path) -> None:
    outside.touch()
    git(root, "config", "include.path", str(outside))


def exclude(root: Path, outside: Path) -> None:
    outside.touch()
    git(root, "config", "core.excludesFile", str(outside))


AWAY: dict[str, Callable[[Path, Path], None]] = {
    name: lambda root, outside, name=name: link_away(root, outside, name)
    for name in ("index", "config", "config.worktree", "info/exclude", "chosen")
} | {"an include": include, "the excludes file": exclude}


@pytest.mark.parametrize("name", AWAY)
def test_a_file_outside_of_the_repository_is_not_touched(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    outside = tmp_path / "outside"
    AWAY[name](root, outside)
    scope = scope_of(root)
    assert scope.outdated(LIMIT) is False
    touched = set[object]()
    real = os.stat

    def stat(path: object, **options: object) -> os.stat_result:
        touched.add(os.path.realpath(path) if isinstance(path, bytes) else path)
        return real(path, **options)  # type: ignore[arg-type]

    # Patched, because no mount of a test machine hangs: only calls through `os.stat` follow links.
    monkeypatch.setattr(os, "stat", stat)
    assert scope.outdated(LIMIT) is False
    monkeypatch.undo()
    assert os.fsencode(outside) not in touched
    outside.write_text("# longer than before\n" * 10)
    assert not scope.outdated(), "what is not read does not count"


@pytest.mark.parametrize("name", ["config", "info/exclude", "chosen"])
def test_a_link_inside_of_the_repository_is_followed(root: Path, name: str) -> None:
    link_away(root, root / ".git" / "moved", name)
    scope = scope_of(root)
    assert not scope.is_in_scope(b"hidden.py")
    assert not scope.outdated()
    with (root / ".git" / "moved").open("a") as file:
        file.write("# more\n")
    assert scope.outdated(LIMIT)


@pytest.mark.parametrize("kind", ["link", "pointer", "link below a link"])
def test_a_git_directory_elsewhere_is_followed(root: Path, tmp_path: Path, kind: str) -> None:
    """The tool `repo` makes such links, worktrees and submodules have such pointers."""
    (tmp_path / "real").mkdir()
    git_dir = tmp_path / "real" / "git"
    (root / ".git").rename(git_dir)
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    if kind == "pointer":
        (root / ".git").write_text(f"gitdir: {tmp_path / 'linked' / 'git'}\n")
    else:
        (root / ".git").symlink_to(git_dir if kind == "link" else tmp_path / "linked" / "git")
    (git_dir / "info" / "exclude").write_text("private.py\n")
    scope = scope_of(root)
    assert not scope.is_in_scope(b"private.py")
    assert scope.outdated(LIMIT) is False
    git(root, "add", "-f", "--intent-to-add", "shown.py")
    (root / "private.py").touch()
    git(root, "add", "-f", "private.py")
    assert scope.outdated(LIMIT)
    renewed = scope.renew()
    assert renewed.is_in_scope(b"private.py")
    assert not renewed.outdated()
    (root / ".git").unlink()
    (root / ".git").symlink_to(tmp_path / "nowhere")
    assert renewed.outdated(LIMIT)


def test_a_pointer_to_nowhere_is_looked_at_in_a_thread(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".git").write_text(f"gitdir: {tmp_path}/away\n")
    scope = scope_of(tmp_path)
    assert scope.is_in_scope(b"sub/x.py")
    assert scope.outdated(LIMIT) is None
    assert scope.outdated() is False


def test_a_link_above_the_root_is_looked_at_in_a_thread(tmp_path: Path) -> None:
    git_dir = tmp_path / "real"
    git(tmp_path, "init", "-q")
    (tmp_path / ".git").rename(git_dir)
    (tmp_path / ".git").symlink_to(git_dir)
    (tmp_path / ".gitignore").write_text("hidden.py\n")
    root = tmp_path / "above" / "root"
    root.mkdir(parents=True)
    scope = scope_of(root)
    assert not scope.is_in_scope(b"hidden.py")
    assert scope.outdated(LIMIT) is None
    assert scope.outdated() is False


def test_stamps_of_links_are_their_own(tmp_path: Path) -> None:
    file, link, behind = (tmp_path / name for name in ("file", "link", "behind"))
    file.touch()
    link.symlink_to(file)
    behind.symlink_to(tmp_path)
    assert stamps.own_stamp(os.fsencode(file)) == stamps.stamp_of(file.stat())
    assert stamps.own_stamp(os.fsencode(link)) == stamps.stamp_of(link.lstat())
    assert stamps.own_stamp(os.fsencode(behind / "file")) is None
    assert stamps.stamp(os.fsencode(behind / "file")) == stamps.stamp_of(file.stat())
    young = stamps.StampedFile(os.fsencode(file), is_own=True)
    assert young.settled_stamp() != young.stamp()
    assert time.time_ns() - file.stat().st_ctime_ns < RACY_NS
