"""Ignore files that appear and disappear without an event of their own."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.runtime.files.nofollow import open_absolute
from cocosearchd.watching.hints.inotify import InotifyHints
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.scans.scan_coordinator import ScanCoordinator
from tests.watching.operations import as_git_sees
from tests.watching.support import BACKENDS, MemoryIndex, digest, following, git, in_sync, on_disk
from tests.watching.test_watched_root import held, linux, put


@pytest.mark.parametrize("backend", BACKENDS)
async def test_directories_that_change_places_take_their_rules_with_them(
    root: Path, tmp_path: Path, backend: str
) -> None:
    put(root, one__a="1", one__b="1", two__sub__a="1", two__sub__b="1")
    (root / "one" / ".gitignore").write_text("a.py\n")
    async with following(root, tmp_path / "sync", backend) as (live, index):
        await in_sync(live)
        assert held(index) == {"one/b.py", "two/sub/a.py", "two/sub/b.py"}
        (root / "one").rename(root / "aside")
        (root / "two").rename(root / "one")
        (root / "aside").rename(root / "two")
        await in_sync(live)
        assert held(index) == {"one/sub/a.py", "one/sub/b.py", "two/b.py"}


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_directory_moved_in_brings_its_rules(
    root: Path, tmp_path: Path, backend: str
) -> None:
    put(root, one__a="1", one__sub__a="1", kept__a="1")
    put(tmp_path, other__a="1", other__sub__a="1", other__sub__b="1")
    (tmp_path / "other" / ".gitignore").write_text("a.py\n")
    async with following(root, tmp_path / "sync", backend) as (live, index):
        await in_sync(live)
        (root / "one").rename(tmp_path / "gone")
        (tmp_path / "other").rename(root / "one")
        await in_sync(live)
        assert held(index) == {"one/sub/b.py", "kept/a.py"}


@linux
async def test_ignore_files_are_read_after_the_directory_is_watched(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = InotifyHints.watch

    def raced(self: InotifyHints, directory: bytes) -> None:
        """Somebody writes rules at the worst moment: just before the watch."""
        rules = Path(os.fsdecode(os.path.join(os.fsencode(root), directory, b".gitignore")))
        if directory and not rules.exists():
            rules.write_text("a.py\n")
        real(self, directory)

    monkeypatch.setattr(InotifyHints, "watch", raced)
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        put(root, new__a="1", new__b="2")
        await in_sync(live)
        assert held(index) == {"new/b.py"}


def test_tracked_files_may_change_before_the_rules_are_read_again(root: Path) -> None:
    git(root, "init", "-q")
    put(root, a="1")
    scope = RootScope(os.fsencode(root), IndexingSettings()).without_trees(b"")
    git(root, "add", "a.py")
    fresh = scope.refresh_git()
    assert fresh is not None
    assert fresh.is_in_scope(b"a.py")


async def test_rules_above_the_root(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    root = tmp_path / "sub" / "root"
    put(root, a="1", b="1", c="1")
    async with following(root, tmp_path.with_name("sync")) as (live, index):
        await in_sync(live)
        (tmp_path / ".gitignore").write_text("a.py\n")
        await in_sync(live)
        assert held(index) == {"b.py", "c.py"}
        (root.parent / ".gitignore").write_text("/root/b.py\n")
        await in_sync(live)
        assert held(index) == {"c.py"}
        shutil.rmtree(tmp_path / ".git")
        await in_sync(live)
        assert held(index) == {"a.py", "b.py", "c.py"}
        git(tmp_path, "init", "-q")
        await in_sync(live)
        assert held(index) == {"c.py"}


def test_a_root_that_a_repository_above_ignores_has_the_rules_in_it_alone(
    root: Path, tmp_path: Path
) -> None:
    """This is the case below a home directory whose repository ignores everything."""
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("*\n")
    put(root, a="1", hidden="1")
    (root / ".gitignore").write_text("hidden.py\n")
    scope = RootScope(os.fsencode(root), IndexingSettings())
    assert scope.is_in_scope(b"a.py")
    assert not scope.is_in_scope(b"hidden.py")


@pytest.fixture
def repository(root: Path) -> Path:
    """A file that is ignored, one that is not, and an ignore file in a directory."""
    put(root, a="1", hidden="1", lib__b="1")
    (root / ".gitignore").write_text("hidden.py\n")
    (root / "lib" / ".gitignore").write_text("nothing\n")
    git(root, "init", "-q")
    git(root, "add", "a.py")
    return root


def test_a_change_of_git_while_a_scope_is_made_outdates_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = RootScope._top_rules

    # Patched, because git cannot be timed to work just between two lines.
    def late(self: RootScope) -> object:
        git(repository, "add", "-f", "hidden.py")  # after git was asked
        return real(self)

    monkeypatch.setattr(RootScope, "_top_rules", late)
    scope = RootScope(os.fsencode(repository), IndexingSettings())
    monkeypatch.undo()
    assert not scope.is_in_scope(b"hidden.py")
    assert scope.outdated()
    assert scope.renew().is_in_scope(b"hidden.py")


def test_a_scope_that_was_refreshed_notices_what_a_repository_below_learns(root: Path) -> None:
    put(root, below__hidden="1", below__seen="1")
    (root / "below" / ".gitignore").write_text("hidden.py\n")
    git(root / "below", "init", "-q")
    git(root, "init", "-q")
    scope = RootScope(os.fsencode(root), IndexingSettings())
    assert not scope.is_in_scope(b"below/hidden.py")
    git(root / "below", "add", "seen.py")
    fresh = scope.refresh_git()
    assert fresh is not None  # nothing is in that was not
    assert not fresh.outdated()
    git(root / "below", "add", "-f", "hidden.py")
    assert fresh.outdated()


@linux
@pytest.mark.parametrize("question", ["refresh_git", "renew"])
async def test_a_change_of_git_during_an_ignore_edit_is_in_the_next_fresh_answer(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    """A hint makes another scope while git is being asked: it knows the new ignore files, and git
    as it was.
    """
    # Patched, because a hint cannot be timed to come just while git is being asked.
    coordinators, real, init = (
        list[ScanCoordinator](),
        getattr(RootScope, question),
        ScanCoordinator.__init__,
    )

    def known(self: ScanCoordinator, *arguments: object) -> None:
        coordinators.append(self)
        init(self, *arguments)  # type: ignore[arg-type]

    def slow(self: RootScope) -> object:
        names = real(self)
        if armed:
            armed.clear()
            index = coordinators[0]
            # as the hint of lib/.gitignore does
            index.scope = index.scope and index.scope.without_trees(b"lib")
        return names

    armed = list[bool]()
    monkeypatch.setattr(ScanCoordinator, "__init__", known)
    monkeypatch.setattr(RootScope, question, slow)
    index = MemoryIndex(os.fsencode(repository))
    async with following(repository, tmp_path / "sync", index=index) as (live, _):
        await in_sync(live)
        assert held(index) == {"a.py", "lib/b.py"}
        git(repository, "add", "-f", "hidden.py")
        armed.append(True)
        await in_sync(live)
        assert not armed
        assert index.contents().keys() >= on_disk(os.fsencode(repository)).keys()


def test_a_submodule_that_is_tracked_is_in_although_a_rule_hides_its_directory(
    root: Path, tmp_path: Path
) -> None:
    put(root, a="1", below__b="1", out__c="1")
    (root / ".gitignore").write_text("below/\nout/\n")
    for directory in (root, root / "below", root / "out"):
        git(directory, "init", "-q")
        git(directory, "add", ".")
        git(directory, "commit", "-q", "-m", "first")
    assert not RootScope(os.fsencode(root), IndexingSettings()).is_in_scope(b"below/b.py")
    git(root, "add", "-f", "below")
    scope = RootScope(os.fsencode(root), IndexingSettings())
    assert scope.is_in_scope(b"below/b.py")
    assert not scope.is_in_scope(b"out/c.py")
    scratch = os.fsencode(tmp_path / "scratch")
    assert set(as_git_sees(os.fsencode(root), scratch)) == {b"a.py", b"below/b.py"}


async def test_a_link_to_a_git_directory_that_is_not_there_is_no_repository(
    root: Path, tmp_path: Path
) -> None:
    put(root, a="1", tree__a="1", tree__b="1")
    git(root, "init", "-q")
    (root / ".gitignore").write_text("a.py\n")
    git(root / "tree", "init", "-q", "--separate-git-dir", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").rename(tmp_path / "away")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        assert held(index) == {"tree/b.py"}
        scratch = os.fsencode(tmp_path / "scratch")
        assert set(as_git_sees(os.fsencode(root), scratch)) == {b"tree/b.py"}
        (tmp_path / "away").rename(tmp_path / "elsewhere")
        await in_sync(live)
        assert held(index) == {"tree/a.py", "tree/b.py"}
        (tmp_path / "elsewhere").rename(tmp_path / "away")
        await in_sync(live)
        assert held(index) == {"tree/b.py"}


@pytest.mark.parametrize("folder", ["", "sub/"])
async def test_an_ignore_file_that_is_written_by_another_of_its_names(
    root: Path, tmp_path: Path, folder: str
) -> None:
    """No event tells of that: the name may be outside of the root."""
    put(root, a="1", sub__a="1", sub__b="1")
    rules = root / folder / ".gitignore"
    rules.write_text("a.py\n")
    os.link(rules, tmp_path / "rules")
    git(root, "init", "-q")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        assert held(index) == {"sub/b.py", *(["a.py"] if folder else [])}
        git(root, "add", "sub/b.py")
        await in_sync(live)  # the rules of git are made anew by that
        (tmp_path / "rules").write_text("b.py\n")
        await in_sync(live)
        assert held(index) == {"a.py", "sub/a.py", "sub/b.py"}


@pytest.mark.parametrize(
    ("location", "whose"),
    [
        ("one that is", "the repository's"),
        ("one that is", "the user's"),
        ("one that is not yet", "the repository's"),
        ("one that is not yet", "the user's"),
        ("of a branch", "the user's"),  # a repository's own conditions are not followed
    ],
)
async def test_a_file_that_the_configuration_of_git_includes(
    root: Path, tmp_path: Path, location: str, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    git(root, "init", "-q", "-b", "main")
    put(root, a="1", b="1")
    home = root / ".git" if whose == "the repository's" else tmp_path
    (home / "patterns").write_text("a.py\n")
    included, chosen = home / "included", f"[core]\n\texcludesFile = {home}/patterns\n"
    level = "--local" if whose == "the repository's" else "--global"
    if location == "of a branch":
        git(root, "config", level, "includeIf.onbranch:other.path", str(included))
        included.write_text(chosen)
    else:
        git(root, "config", level, "include.path", str(included))
    if location == "one that is":
        included.write_text("[user]\n\tname = somebody\n")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        assert held(index) == {"a.py", "b.py"}
        if location == "of a branch":
            git(root, "symbolic-ref", "HEAD", "refs/heads/other")
        else:
            included.write_text(chosen)
        await in_sync(live)
        assert held(index) == {"b.py"}


async def test_rules_outside_of_the_tree_whose_time_is_set_back(root: Path, tmp_path: Path) -> None:
    git(root, "init", "-q")
    put(root, a="1", b="1")
    exclude = root / ".git" / "info" / "exclude"
    exclude.write_text("a.py\n")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        assert held(index) == {"b.py"}
        previous_stat = exclude.stat()
        exclude.write_text("b.py\n")
        os.utime(exclude, ns=(previous_stat.st_atime_ns, previous_stat.st_mtime_ns))
        await in_sync(live)
        assert held(index) == {"a.py"}


async def test_a_submodule_that_comes_or_goes_by_the_index_of_git_alone(
    root: Path, tmp_path: Path
) -> None:
    put(root, a="1", below__b="1")
    (root / ".gitignore").write_text("below/\n")
    for directory in (root, root / "below"):
        git(directory, "init", "-q")
        git(directory, "add", ".")
        git(directory, "commit", "-q", "-m", "first")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        assert held(index) == {"a.py"}
        git(root, "add", "-f", "below")
        await in_sync(live)
        assert held(index) == {"a.py", "below/b.py"}
        git(root, "rm", "-q", "-f", "--cached", "below")
        await in_sync(live)
        assert held(index) == {"a.py"}


def test_the_remains_of_a_git_directory_are_no_repository(root: Path) -> None:
    put(root, a="1", below__b="1")
    (root / ".gitignore").write_text("b.py\n")
    git(root, "init", "-q")
    git(root / "below", "init", "-q")
    # a repository has rules of its own
    assert RootScope(os.fsencode(root), IndexingSettings()).is_in_scope(b"below/b.py")
    shutil.rmtree(root / "below" / ".git" / "objects")
    assert not RootScope(os.fsencode(root), IndexingSettings()).is_in_scope(b"below/b.py")


@linux
@pytest.mark.parametrize("location", ["", "below"])
async def test_a_repository_that_is_seen_before_it_is_one(
    root: Path, tmp_path: Path, location: str
) -> None:
    """`git init` makes its directory first: a scan that comes just then sees no repository, and no
    event follows.
    """
    put(root, below__a="1", below__hidden="1")
    (root / "below" / ".gitignore").write_text("hidden.py\n")
    index = MemoryIndex(os.fsencode(root))
    (root / location / ".git").mkdir()
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        await in_sync(live)
        assert held(index) == {"below/a.py"}
        git(root / location, "init", "-q")
        git(root / location, "add", "-f", ".")
        await in_sync(live)
        assert held(index) == {"below/a.py", "below/hidden.py"}


def test_another_repository_in_the_environment_is_not_asked(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks, `git bisect run` and `git rebase --exec` leave it there for the programs they start."""
    git(root, "init", "-q")
    (root / "tracked.py").write_text("x = 1\n")
    git(root, "add", ".")
    (root / ".gitignore").write_text("*.py\n")
    (tmp_path / "other").mkdir()
    git(tmp_path / "other", "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert RootScope(os.fsencode(root), IndexingSettings()).is_in_scope(b"tracked.py")


@pytest.mark.parametrize("location", ["", "below"])
@pytest.mark.parametrize("name", [".gitignore", ".git"])
async def test_rules_that_cannot_be_read_for_a_moment_are_not_no_rules(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str, name: str
) -> None:
    """A work tree of another repository, whose `.git` is a file: without it, rules and what is
    tracked are others.
    """
    for directory in dict.fromkeys((root, root / location)):
        put(directory, a="1", kept="1", hidden="1")
        (directory / ".gitignore").write_text("kept.py\nhidden.py\n")
        git(directory, "init", "-q", f"--separate-git-dir={tmp_path / 'git'}{directory.name}")
        git(directory, "add", "-f", "a.py", "kept.py")
    failing = set[str]()
    real_open, real_read = os.open, Path.read_bytes

    def stumbling(path: Any, flags: int, *arguments: Any, **keywords: Any) -> int:
        if flags & os.O_CLOEXEC:  # the index of this test reads without
            fail(os.fsdecode(path))
        return real_open(path, flags, *arguments, **keywords)

    def stumbling_in_tree(path: bytes, flags: int) -> int:
        fail(os.fsdecode(path))
        return open_absolute(path, flags)

    def stumbling_read(path: Path) -> bytes:
        fail(str(path))
        return real_read(path)

    # taking the process's last file handle would fail the test's own tools first
    def fail(path: str) -> None:
        if path in failing:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("cocosearchd.runtime.files.regular_files.os.open", stumbling)
    monkeypatch.setattr("cocosearchd.runtime.files.regular_files.open_absolute", stumbling_in_tree)
    monkeypatch.setattr(Path, "read_bytes", stumbling_read)
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        previous = held(index)
        assert previous == {path for path in previous if "hidden" not in path}
        failing.add(str(root / location / name))
        live.rescan("a test")
        answer = await live.sync(1)
        assert not answer.fresh
        assert "Too many open files" in (answer.reason or "")
        await live.configure(IndexingSettings(extend_exclude=("new.py",)))
        put(root, new="1")
        assert not (await live.sync(1)).fresh
        (root / location / ".gitignore").write_text("kept.py\nhidden.py\n\n")
        put(root / location, hidden="2", kept="2")
        assert not (await live.sync(1)).fresh
        assert held(index) == previous
        failing.clear()
        await in_sync(live)
        assert held(index) == previous, (
            "by the settings of now, which could not be followed when they came"
        )
        assert live.status().reason is None
        kept_path = (Path(location) / "kept.py").as_posix()
        assert index.files[kept_path].content_hash == digest((root / kept_path).read_bytes())
