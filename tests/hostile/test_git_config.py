"""A repository's configuration runs nothing: each key that git documents as running a program is
tried.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from cocosearchd.watching.git import git_command
from cocosearchd.watching.git.git_changes import read_changes
from cocosearchd.watching.git.git_command import (
    SWITCHED_OFF,
    GitCall,
    GitRefused,
    GitUnresponsive,
    run_git,
)
from tests.daemon import Daemon
from tests.hostile.git_keys import ARM, HARMLESS, RUN, SUSPICIOUS, hostile_config
from tests.hostile.neighbour import Neighbour

PLACES = [
    "config",
    "worktree config",
    "included",
    "included from the tree",
    "submodule",
    "nested",
    "gitdir link",
]
HOOKS = [
    "post-index-change",
    "fsmonitor-watchman",
    "pre-commit",
    "post-checkout",
    "query-watchman",
    "reference-transaction",
]
BARE = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "HOME": "/nonexistent",
}


def git(root: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    """The test's own git, before the attack is armed or as what shows that it is."""
    options = (
        "-c",
        "user.name=Test",
        "-c",
        "user.email=test@example.invalid",
        "-c",
        "protocol.file.allow=always",
    )
    return subprocess.run(
        ["git", *options, *arguments], cwd=root, check=check, capture_output=True, env=BARE
    )


def repository(root: Path) -> Path:
    """Files, ignore rules, a tracked file that rules hide, and an index that a file system monitor
    is asked for.
    """
    root.mkdir(parents=True, exist_ok=True)
    (root / "shown.py").write_text("def shown():\n    return 1\n")
    (root / "hidden.py").write_text("def hidden():\n    return 1\n")
    (root / "forced.py").write_text("def forced():\n    return 1\n")
    (root / ".gitignore").write_text("hidden.py\nforced.py\n")
    (root / ".gitattributes").write_text("* filter=canary diff=canary merge=canary\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-f", ".gitignore", "shown.py", "forced.py")
    git(root, "commit", "-q", "-m", "first")
    git(root, "update-index", "--fsmonitor", "--untracked-cache")
    return root


def armed(location: str, top: Path, canary: Path) -> Path:
    """A root with the hostile configuration at one of the places; returns the work tree that it is
    of.
    """
    hooks = top.parent / "hooks"
    hooks.mkdir()
    for name in HOOKS:
        shutil.copy(canary, hooks / name)
    text = hostile_config(canary, hooks)
    root = repository(top)
    tree, git_dir = root, root / ".git"
    if location == "submodule":
        neighbour = repository(top.parent / "other")
        git(root, "submodule", "--quiet", "add", str(neighbour), "below")
        tree, git_dir = root / "below", root / ".git" / "modules" / "below"
    elif location == "nested":
        tree = repository(root / "below")
        git_dir = tree / ".git"
    elif location == "gitdir link":
        git_dir = (root / ".git").rename(root.parent / "elsewhere.git")
        (root / ".git").write_text(f"gitdir: {git_dir}\n")
    if tree != root:  # what a submodule checks out is what was committed
        (tree / "hidden.py").write_text("def hidden():\n    return 1\n")
        git(tree, "update-index", "--fsmonitor")
    for name in HOOKS:
        shutil.copy(canary, git_dir / "hooks" / name)
    with (git_dir / "config").open("a") as config:
        if location == "worktree config":
            config.write("[extensions]\n\tworktreeConfig = true\n")
            (git_dir / "config.worktree").write_text(text)
        elif location == "included":
            config.write("[include]\n\tpath = more\n")
            (git_dir / "more").write_text(text)
        elif location == "included from the tree":
            config.write("[include]\n\tpath = ../more\n")
            (root / "more").write_text(text)
        else:
            config.write(text)
    return tree


def runs(canary: Path) -> str:
    ran = canary.with_suffix(".ran")
    return ran.read_text() if ran.exists() else ""


def indexed(daemon: Daemon, index: str) -> set[str]:
    return {file["path"] for file in daemon.call("list_files", index=index)["files"]}


@pytest.mark.parametrize("location", PLACES)
def test_no_key_of_a_repository_runs_a_program(
    shared: Daemon, hostile_root: Path, canary: Path, neighbour: Neighbour, location: str
) -> None:
    tree = armed(location, hostile_root, canary)
    lead = f"{tree.relative_to(hostile_root)}/" if tree != hostile_root else ""
    neighbour.watch(shared)
    shared.index(hostile_root)
    assert {f"{lead}shown.py", f"{lead}forced.py"} <= indexed(shared, "hostile")
    assert f"{lead}hidden.py" not in indexed(shared, "hostile")
    (tree / "later.py").write_text("def written_later():\n    return 1\n")
    index = next(
        path for path in tree.parent.rglob("index") if path.parent.joinpath("HEAD").exists()
    )
    os.utime(index)  # git is asked again
    answer = shared.call("search", query="written_later", index="hostile")
    assert answer["fresh"], answer
    neighbour.assert_fresh(shared)
    assert runs(canary) == ""


@pytest.mark.parametrize("location", PLACES)
def test_no_key_runs_a_program_when_changes_are_asked_for(
    hostile_root: Path, canary: Path, location: str
) -> None:
    tree = armed(location, hostile_root, canary)
    (tree / "shown.py").write_text("def shown():\n    return 2\n")
    changes = read_changes(os.fsencode(tree), "HEAD")
    assert [change.path for change in changes.files if change.hunks] == ["shown.py"]
    assert runs(canary) == ""


def test_the_canary_runs_when_git_itself_is_asked(hostile_root: Path, canary: Path) -> None:
    """Otherwise the test above would show nothing."""
    tree = armed("config", hostile_root, canary)
    git(tree, "ls-files", check=False)
    assert runs(canary)


def test_every_documented_key_that_may_run_a_program_is_in_the_tables() -> None:
    listed = subprocess.run(
        ["git", "help", "--config"], check=True, capture_output=True, text=True
    ).stdout.split()
    documented = [key for key in listed if "." in key]
    assert len(documented) > 500
    unknown = [
        key
        for key in documented
        if SUSPICIOUS.search(key) and key not in RUN and not HARMLESS.fullmatch(key)
    ]
    assert not unknown, "which of these run a program? put them into RUN or HARMLESS"


def test_keys_documented_to_run_a_program_are_switched_off_by_options_too() -> None:
    """A second wall: those whose key has no name of the repository's choice."""
    fixed = {key for key in RUN if not set(key) & set("<*")}
    unused = (
        "diff.guitool",
        "diff.tool",
        "help.",
        "imap.",
        "instaweb.",
        "man.",
        "merge.",
        "sendemail.",
        "web.",
    )
    verbs = ("fsmonitor.socketDir", "init.templateDir")  # of the daemon of git, and of `git init`
    assert {key for key in fixed if not key.startswith(unused)} - SWITCHED_OFF.keys() == set(verbs)
    assert ARM["protocol.allow"] != SWITCHED_OFF["protocol.allow"] == "never"


def call(*arguments: str, limit: int = 1 << 16) -> GitCall:
    return GitCall(arguments=arguments, output_limit=limit)


@pytest.fixture
def fake_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `git` first in the PATH, for what no real one does on demand: hang, flood, leave
    children.
    """
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def test_git_and_all_that_it_started_end_at_the_deadline(
    fake_git: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_command, "TIMEOUT_S", 2.0)  # the program begins within that
    fake_git.write_text(f"#!/bin/sh\nsleep 60 & echo $! > {tmp_path}/child\nwait\n")
    began = time.monotonic()
    with pytest.raises(GitUnresponsive, match="has not answered"):
        run_git(call("ls-files"))
    assert time.monotonic() - began < 20
    child = int((tmp_path / "child").read_text())
    end = time.monotonic() + 60
    while alive(child):
        assert time.monotonic() < end, "a process that git started goes on"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_an_answer_without_end_is_cut(fake_git: Path, stream: str) -> None:
    fake_git.write_text(f"#!/bin/sh\nexec cat /dev/zero {stream}\n")
    with pytest.raises(GitRefused, match="answers with more than"):
        run_git(call("ls-files"))


def test_git_sees_nothing_of_the_environment_but_what_it_needs(
    fake_git: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_EXTERNAL_DIFF",
        "GIT_SSH",
        "GIT_TRACE",
        "PAGER",
        "SECRET_TOKEN",
    ):
        monkeypatch.setenv(name, "/hostile")
    fake_git.write_text("#!/bin/sh\nenv\n")
    variables = dict(line.split("=", 1) for line in run_git(call("ls-files")).decode().splitlines())
    assert "/hostile" not in variables.values()
    assert variables["GIT_TERMINAL_PROMPT"] == variables["GIT_OPTIONAL_LOCKS"] == "0"
    assert variables["GIT_NO_LAZY_FETCH"] == "1"


def test_a_program_of_the_working_directory_is_not_run(
    tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(canary, tmp_path / "git")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
    assert run_git(call("version")).startswith(b"git version")
    assert runs(canary) == ""
