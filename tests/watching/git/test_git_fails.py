"""git that fails for a while, refuses a repository, or is missing: the real git behind a wrapper."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.freshness import stale_reason
from cocosearchd.watching.git import git_command
from cocosearchd.watching.git import repository as asked
from cocosearchd.watching.ignore.root_scope import RootScope
from tests.watching.support import GIT, digest, following, in_sync
from tests.watching.test_watched_root import held, put

FAILURES = {
    "memory": "echo 'fatal: unable to map index file: Cannot allocate memory' >&2; exit 128",
    "nothing said": "exit 1",
    "killed": "kill -9 $$",
    "hangs": "exec sleep 30",
    "tracked alone": 'case "$*" in *ls-files*) echo "fatal: index file smaller than expected" >&2; exit 128;; esac',
}


class Wrapped:
    """A `git` first in the PATH, which does what it is told before it does what git does."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        directory.mkdir()
        self._real, self._first = shutil.which("git") or "", directory / "first"
        (directory / "git").write_text(
            f'#!/bin/sh\n[ -e "{self._first}" ] && . "{self._first}"\nexec "{self._real}" "$@"\n'
        )
        (directory / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")

    def first(self, script: str) -> None:
        beside = self._first.with_suffix(".new")
        beside.write_text(script + "\n")
        beside.rename(self._first)

    def again(self) -> None:
        self._first.unlink()

    def real(self, root: Path, *arguments: str) -> None:
        subprocess.run([self._real, *GIT, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wrapped:
    monkeypatch.setattr(git_command, "TIMEOUT_S", 1.0)
    monkeypatch.setattr(asked, "GIT_RETRY_S", 0.05)
    monkeypatch.setattr(asked, "RETRY_MAX_S", 0.2)
    return Wrapped(tmp_path / "bin", monkeypatch)


@pytest.fixture
def root(tmp_path: Path, git: Wrapped) -> Path:
    """`kept.py` is tracked although ignored; the configuration hides `secret.py`, an ignore file
    `hidden.py`.
    """
    root = tmp_path / "root"
    put(root, a="1", kept="1", hidden="1", secret="1")
    (root / ".gitignore").write_text("kept.py\nhidden.py\n")
    git.real(root, "init", "-q")
    (root / ".git" / "excludes").write_text("secret.py\n")
    git.real(root, "config", "core.excludesFile", ".git/excludes")
    git.real(root, "add", "-f", "a.py", "kept.py")
    return root


def scope_of(root: Path) -> RootScope:
    return RootScope(os.fsencode(root), IndexingSettings())


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failure_that_may_pass_changes_no_rule(
    root: Path, tmp_path: Path, git: Wrapped, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        assert held(index) == {"a.py", "kept.py"}
        git.first(FAILURES[failure])
        put(root, new="1")
        git.real(root, "add", "new.py")  # so that git is to be asked
        answer = await live.sync(5)
        assert not answer.fresh
        assert "git does not answer" in (answer.reason or "")
        assert "git does not answer" in (live.status().reason or "")
        live.rescan("a test")
        put(root, kept="2")
        assert not (await live.sync(5)).fresh
        assert held(index) == {"a.py", "kept.py", "new.py"}, "the rules of before hold"
        assert index.files["kept.py"].content_hash == digest((root / "kept.py").read_bytes())
        git.real(root, "rm", "-q", "--cached", "-f", "kept.py")
        assert not (await live.sync(5)).fresh
        assert held(index) == {"a.py", "kept.py", "new.py"}
        git.again()
        await in_sync(live)
        assert held(index) == {"a.py", "new.py"}
        assert live.status().reason is None
    assert [record.message for record in caplog.records].count("git_unresponsive") == 1


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failure_at_the_first_scan_after_a_start(
    root: Path, tmp_path: Path, git: Wrapped, failure: str
) -> None:
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
    put(root, a="2", new="1", kept="2")
    git.first(FAILURES[failure])
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        assert not (await live.sync(5)).fresh
        assert held(index) - {"new.py"} == {"a.py", "kept.py"}
        (root / "a.py").unlink()
        put(root, hidden="2", secret="2")
        assert not (await live.sync(5)).fresh
        assert held(index) - {"new.py"} == {"kept.py"}, (
            "what is gone is gone; nothing that may be hidden comes in"
        )
        git.again()
        await in_sync(live)
        assert held(index) == {"kept.py", "new.py"}
        assert index.files["kept.py"].content_hash == digest((root / "kept.py").read_bytes())


async def test_the_rules_of_before_outlive_a_loss_of_hints_and_a_change_of_settings(
    root: Path, tmp_path: Path, git: Wrapped
) -> None:
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        git.first(FAILURES["memory"])
        live._end_epoch(stale_reason("root_replaced"))
        assert not (await live.sync(5)).fresh
        await live.configure(IndexingSettings(extend_exclude=("new.py",)))
        put(root, new="1", kept="2")
        assert not (await live.sync(5)).fresh
        assert held(index) == {"a.py", "kept.py"}
        assert index.files["kept.py"].content_hash == digest((root / "kept.py").read_bytes())
        git.again()
        await in_sync(live)
        assert held(index) == {"a.py", "kept.py"}


@pytest.mark.parametrize("submodule", [False, True], ids=["nested", "submodule"])
async def test_a_repository_below_fails_for_itself(
    root: Path, tmp_path: Path, git: Wrapped, submodule: bool
) -> None:
    """The one above answers, so what is deleted and not fresh is of the one below alone."""
    directory = tmp_path / "other" if submodule else root / "below"
    put(directory, b="1", kept="1")
    (directory / ".gitignore").write_text("kept.py\n")
    git.real(directory, "init", "-q")
    git.real(directory, "add", "-f", ".")
    if submodule:
        git.real(directory, "commit", "-q", "-m", "first")
        git.real(
            root,
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            str(directory),
            "below",
        )
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        assert held(index) == {"a.py", "kept.py", "below/b.py", "below/kept.py"}
    below = root / ".git" / "modules" / "below" if submodule else root / "below" / ".git"
    fails_below = f'[ "$GIT_INDEX_FILE" -ef {below}/index ] && {{ {FAILURES["memory"]}; }}'
    git.first(fails_below)
    git.real(root, "rm", "-q", "--cached", "-f", "kept.py")
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        answer = await live.sync(5)
        assert (answer.fresh, answer.pending) == (False, ("below/",))
        assert held(index) == {"a.py", "below/b.py", "below/kept.py"}
        git.again()
        await in_sync(live)
        assert held(index) == {"a.py", "below/b.py", "below/kept.py"}
        git.first(fails_below)
        (root / "below" / ".gitignore").write_text("kept.py\nnew.py\n")
        git.real(root / "below", "add", ".gitignore")
        put(root, below__new="1")
        assert not (await live.sync(5)).fresh
        assert held(index) == {"a.py", "below/b.py", "below/kept.py"}
        git.again()
        await in_sync(live)
        assert held(index) == {"a.py", "below/b.py", "below/kept.py"}


async def test_whether_a_repository_above_hides_the_root_stays_as_it_was(
    tmp_path: Path, git: Wrapped
) -> None:
    above = tmp_path / "above"
    put(above / "root", a="1", kept="1")
    git.real(above, "init", "-q")
    (above / ".gitignore").write_text("*\n")
    async with following(above / "root", tmp_path / "sync") as (live, index):
        await in_sync(live)
        assert held(index) == {"a.py", "kept.py"}
        git.first(FAILURES["memory"])
        live.rescan("a test")
        await in_sync(live)  # patterns decide on that, and git is not needed for them
        git.real(above, "config", "user.name", "somebody")  # so that git is to be asked
        live.rescan("a test")
        assert not (await live.sync(5)).fresh
        assert held(index) == {"a.py", "kept.py"}
        git.again()
        (above / ".gitignore").write_text("kept.py\n")
        await in_sync(live)
        assert held(index) == {"a.py"}


async def test_a_repository_that_belongs_to_somebody_else_tracks_nothing_and_is_fresh(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Patched, because only root can give a file to somebody else.
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    async with following(root, tmp_path / "sync") as (live, index):
        for _ in range(3):
            live.rescan("a test")
            await in_sync(live)
        assert "a.py" in held(index)
        assert "kept.py" not in held(index)
        assert "dubious ownership" in (live.status().reason or "")
        assert live.status().state == "live"
    assert [record.message for record in caplog.records].count("git_refused") == 1


async def test_a_submodule_that_was_renamed_without_git_goes_on_being_one(
    root: Path, tmp_path: Path, git: Wrapped
) -> None:
    directory = tmp_path / "other"
    put(directory, b="1", ignored="1")
    (directory / ".gitignore").write_text("ignored.py\n")
    git.real(directory, "init", "-q")
    git.real(directory, "add", ".")
    git.real(directory, "commit", "-q", "-m", "first")
    git.real(
        root,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(directory),
        "below",
    )
    put(root / "below", ignored="2")
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        (root / "below").rename(root / "renamed")  # its configuration goes on naming `below`
        await in_sync(live)
        assert held(index) == {"a.py", "kept.py", "renamed/b.py"}
        (root / "renamed").rename(root / "below")
        await in_sync(live)
        assert held(index) == {"a.py", "kept.py", "below/b.py"}
        assert live.status().reason is None


async def test_without_git_ignore_files_count_and_it_is_said(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "env").symlink_to(shutil.which("env") or "")
    monkeypatch.setenv("PATH", str(programs))
    async with following(root, tmp_path / "sync") as (live, index):
        await in_sync(live)
        assert held(index) == {"a.py", "secret.py"}
        assert "git" in (live.status().reason or "")


def test_a_git_that_goes_on_failing_is_asked_with_longer_pauses(root: Path, git: Wrapped) -> None:
    git.first(FAILURES["memory"])
    scope, pauses = scope_of(root), list[float]()
    for _ in range(4):
        trouble = scope.git_failures()[b""]
        pauses.append(trouble.pause_s)
        time.sleep(max(0.0, trouble.retry_at - time.monotonic()))
        assert scope.outdated()
        scope = scope.refresh_git() or scope.renew()
        assert not scope.outdated()
    assert pauses == [0.05, 0.1, 0.2, 0.2]


async def test_a_git_that_hangs_holds_one_thread_however_many_ask(
    root: Path, tmp_path: Path, git: Wrapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_command, "TIMEOUT_S", 3.0)
    async with following(root, tmp_path / "sync") as (live, _):
        await in_sync(live)
        git.first(f"echo >> {tmp_path}/asked; exec sleep 30")
        git.real(root, "rm", "-q", "--cached", "a.py")
        for _ in range(5):
            assert not (await live.sync(0.2)).fresh
        assert (tmp_path / "asked").read_text() == "\n"
        git.again()
        await in_sync(live)
