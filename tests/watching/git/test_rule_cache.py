"""The cache of git's rules: it has those of the repositories that are there, and no others."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cocosearchd.watching.git import rule_cache
from cocosearchd.watching.git.git_config import UserConfig
from cocosearchd.watching.git.repository import GitRules, Repository, read_rules
from cocosearchd.watching.watched_root import WatchedRoot
from tests.watching.support import following, git, in_sync
from tests.watching.test_watched_root import held, put


def make_repository(directory: Path) -> None:
    directory.mkdir(parents=True)
    git(directory, "init", "-q")
    put(directory, a="1")


def cached_repositories(live: WatchedRoot) -> set[str]:
    scope = live._coordinator.scope
    assert scope is not None
    return {os.path.basename(os.fsdecode(top)) for top in scope.rule_cache._rules}


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the repositories that git is asked about."""
    names = list[str]()

    def record(
        repository: Repository, read_user: Callable[[], UserConfig], last: GitRules | None
    ) -> GitRules:
        names.append(os.path.basename(os.fsdecode(repository.top)))
        return read_rules(repository, read_user, last)

    monkeypatch.setattr(rule_cache, "read_rules", record)
    return names


async def test_rules_of_repositories_that_are_gone_are_forgotten(
    tmp_path: Path, questions: list[str]
) -> None:
    root = tmp_path / "root"
    put(root, own="1")
    for name in ("stays", "goes", "moves"):
        make_repository(root / "sub" / name)
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        assert cached_repositories(live) == {"stays", "goes", "moves"}
        shutil.rmtree(root / "sub" / "goes")
        (root / "sub" / "moves").rename(root / "sub" / "moved")
        await in_sync(live)
        questions.clear()
        live.rescan("for the test")
        await in_sync(live)
        assert cached_repositories(live) == {"stays", "moved"}
        assert questions == [], "git has answered before for those that are there"
        assert held(index) == {"own.py", "sub/stays/a.py", "sub/moved/a.py"}


async def test_git_is_asked_again_only_about_a_repository_that_was_ignored(
    tmp_path: Path, questions: list[str]
) -> None:
    root = tmp_path / "root"
    for name in ("one", "two"):
        make_repository(root / name)
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        questions.clear()
        (root / ".cocosearchignore").write_text("two/\n")
        await in_sync(live)
        assert held(index) == {"one/a.py"}
        assert cached_repositories(live) == {"one"}
        (root / ".cocosearchignore").write_text("# nothing\n")
        await in_sync(live)
        assert held(index) == {"one/a.py", "two/a.py"}
        assert set(questions) == {"two"}


async def test_git_is_asked_once_about_a_repository_that_ignores_the_root(
    tmp_path: Path, questions: list[str]
) -> None:
    """Its rules are not used, but that it ignores the root must be known to each scan."""
    outer = tmp_path / "outer"
    make_repository(outer)
    (outer / ".gitignore").write_text("root/\n")
    root = outer / "root"
    put(root, own="1")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        questions.clear()
        for _ in range(2):
            live.rescan("for the test")
            await in_sync(live)
        assert questions == []
        assert held(index) == {"own.py"}
