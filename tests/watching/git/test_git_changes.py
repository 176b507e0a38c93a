"""Changed lines of repositories, with a real git."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cocosearchd.watching.git import git_changes, git_command
from cocosearchd.watching.git.git_changes import (
    GitFileChange,
    LineHunk,
    parse_patch,
    read_changes,
    read_texts,
)
from cocosearchd.watching.git.git_command import GitRefused, GitUnresponsive
from cocosearchd.watching.git.object_reader import NoRepository, UnknownRevision
from tests.watching.support import git

STRANGE = 'a "b"\tc\nd\\é -- +++ b.py'


def changes(root: Path, revisions: str = "HEAD") -> dict[str, GitFileChange]:
    """Return changes by path."""
    return {file.path: file for file in read_changes(os.fsencode(root), revisions).files}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Make a repository with two commits: the second changes `src/a.py` and adds `b.py`."""
    root = tmp_path / "repository"
    (root / "src").mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / "src" / "a.py").write_text("1\n2\n3\n4\n")
    (root / STRANGE).write_text("x\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    (root / "src" / "a.py").write_text("1\n2\nthree\n4\n")
    (root / "b.py").write_text("b\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "second")
    return root


def test_files_on_disk_are_compared_with_a_commit(repository: Path) -> None:
    assert changes(repository) == {}
    (repository / "src" / "a.py").write_text("0\n1\nthree\n4\n")
    (repository / "b.py").unlink()
    (repository / "staged.py").write_text("s\n")
    (repository / "new.py").write_text("n\n")
    git(repository, "add", "staged.py")
    result = read_changes(os.fsencode(repository), "HEAD")
    assert result.files == (
        GitFileChange("b.py", "deleted"),
        GitFileChange("src/a.py", "modified", (LineHunk(0, 0, 1, 1), LineHunk(2, 1, 2, 0))),
        GitFileChange("staged.py", "added"),
    )
    assert result.head is None
    assert {"src/a.py", "staged.py"} <= result.tracked
    assert "new.py" not in result.tracked
    assert changes(repository, "HEAD~1").keys() == {"src/a.py", "staged.py"}


def test_commits_are_compared_with_each_other_and_lines_with_the_files(repository: Path) -> None:
    (repository / "src" / "a.py").write_text("0\n1\n2\nthree\n4\n")
    result = changes(repository, "HEAD~1..HEAD")
    assert result == {
        "b.py": GitFileChange("b.py", "added"),
        "src/a.py": GitFileChange(
            "src/a.py", "modified", (LineHunk(3, 1, 3, 1),), (LineHunk(0, 0, 1, 1),)
        ),
    }
    assert changes(repository, "HEAD~1..") == changes(repository, "HEAD~1..main") == result


def test_three_dots_begin_at_the_common_ancestor(repository: Path) -> None:
    git(repository, "checkout", "-qb", "topic", "HEAD~1")
    (repository / "topic.py").write_text("t\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "topic")
    assert changes(repository, "main...topic").keys() == {"topic.py"}
    assert changes(repository, "main..topic").keys() == {"topic.py", "src/a.py", "b.py"}


def test_a_root_below_the_top_sees_its_own_files(repository: Path) -> None:
    (repository / "b.py").write_text("changed\n")
    (repository / "src" / "a.py").write_text("1\n")
    result = read_changes(os.fsencode(repository / "src"), "HEAD")
    assert [file.path for file in result.files] == ["a.py"]
    assert result.tracked == {"a.py"}


def test_a_work_tree_of_its_own_is_compared_with_its_own_head(
    repository: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    git(repository, "worktree", "add", "-q", str(tree), "HEAD~1")
    (tree / "src" / "a.py").write_text("1\n")
    assert changes(tree) == {
        "src/a.py": GitFileChange("src/a.py", "modified", (LineHunk(2, 3, 1, 0),))
    }


@pytest.mark.parametrize("index", ["plain", "split", "sparse", "sha256"])
def test_each_form_of_a_repository_is_read(tmp_path: Path, index: str) -> None:
    root = tmp_path / "repository"
    (root / "d").mkdir(parents=True)
    (root / "e").mkdir()
    git(root, "init", "-q", *(["--object-format=sha256"] if index == "sha256" else []))
    (root / "d" / "a.py").write_text("1\n")
    (root / "e" / "b.py").write_text("1\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    if index == "split":
        git(root, "update-index", "--split-index")
    elif index == "sparse":
        git(root, "sparse-checkout", "set", "--cone", "--sparse-index", "d")
    (root / "d" / "a.py").write_text("1\n2\n")
    assert changes(root) == {"d/a.py": GitFileChange("d/a.py", "modified", (LineHunk(1, 0, 2, 1),))}


def test_strange_names_and_contents_like_headers_are_told_apart(repository: Path) -> None:
    (repository / STRANGE).write_text("-- a/x\n++ b/y\n@@ -1 +1 @@\nno line end")
    [change] = changes(repository).values()
    assert change.hunks == (LineHunk(1, 1, 1, 4),)
    assert change.path == STRANGE.replace("\\", "\\\\")
    (repository / STRANGE).write_text("x\r\n")
    assert changes(repository)[change.path].hunks == (), "line ends are no change"


def test_a_mode_is_no_changed_line(repository: Path) -> None:
    (repository / "b.py").chmod(0o755)
    assert changes(repository) == {"b.py": GitFileChange("b.py", "modified", ())}


def test_earlier_texts_are_those_of_a_commit(repository: Path) -> None:
    root, first = os.fsencode(repository), read_changes(os.fsencode(repository), "HEAD~1").base
    strange = STRANGE.replace("\\", "\\\\")
    (repository / "src" / "a.py").unlink()
    (repository / "link").symlink_to("b.py")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "third")
    paths = ["src/a.py", "b.py", strange, "missing.py"]
    assert read_texts(root, first, paths) == {"src/a.py": b"1\n2\n3\n4\n", strange: b"x\n"}
    third = read_changes(root, "HEAD").base
    assert read_texts(root, third, ["link", "src/a.py", "b.py"]) == {"b.py": b"b\n"}
    assert read_texts(root + b"/src", first, ["a.py"]) == {"a.py": b"1\n2\n3\n4\n"}
    assert read_texts(root, first, []) == {}


def test_earlier_texts_are_bounded(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = os.fsencode(repository)
    head = read_changes(root, "HEAD").base
    monkeypatch.setattr(git_changes, "MAX_TEXT_BYTES", 5)
    assert read_texts(root, head, ["b.py", "src/a.py"]) == {"b.py": b"b\n"}
    monkeypatch.setattr(git_changes, "MAX_TEXTS_BYTES", 1)
    assert read_texts(root, head, ["b.py"]) == {}


def test_many_files_are_named_and_the_first_are_compared(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_changes, "MAX_COMPARED", 1)
    (repository / "b.py").write_text("changed\n")
    (repository / "src" / "a.py").write_text("changed\n")
    assert [file.hunks is None for file in changes(repository).values()] == [False, True]


@pytest.mark.parametrize(
    "revision",
    [
        "missing",
        "--all",
        "-p",
        "main..missing",
        "HEAD:b.py",
        "HEAD^{tree}",
        "a\nb",
        "x" * 300,
        ":/",
    ],
)
def test_a_name_that_is_no_commit_is_named(repository: Path, revision: str) -> None:
    with pytest.raises(UnknownRevision):
        read_changes(os.fsencode(repository), revision)


def test_a_directory_without_repository_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoRepository):
        read_changes(os.fsencode(tmp_path), "HEAD")


def test_a_repository_without_commits_has_no_head(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(UnknownRevision):
        read_changes(os.fsencode(tmp_path), "HEAD")


def test_a_repository_of_another_user_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cocosearchd.watching.git.repository.trusted_owners", frozenset)
    with pytest.raises(GitRefused, match="dubious ownership"):
        read_changes(os.fsencode(repository), "HEAD")


def test_a_pipe_in_place_of_a_reference_does_not_hang(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_command, "TIMEOUT_S", 1.0)
    packed = repository / ".git" / "packed-refs"
    packed.unlink(missing_ok=True)
    os.mkfifo(packed)
    assert changes(repository) == {}
    os.mkfifo(repository / ".git" / "refs" / "heads" / "pipe")
    with pytest.raises(GitUnresponsive):
        read_changes(os.fsencode(repository), "pipe")


@pytest.fixture
def running_git() -> Iterator[None]:
    """Check that no git of this process is left."""
    yield
    children = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "comm="], capture_output=True, text=True
    ).stdout.split()
    assert "git" not in children


@pytest.mark.usefixtures("running_git")
def test_a_large_difference_is_refused(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_changes, "MAX_DIFF_BYTES", 1000)
    (repository / "b.py").write_text("line\n" * 1000)
    with pytest.raises(GitRefused, match="more than"):
        changes(repository)


def test_a_patch_is_read_by_its_counts() -> None:
    patch = (
        b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1 @@ head\n--- a/y\n-+++ b/y\n+@@ -9 +9 @@\n"
        b"\\ No newline at end of file\n@@ -5 +4,0 @@\n-gone\n"
        b'diff --git "a/\\303\\251\\t" b/z\n--- /dev/null\n+++ "b/\\303\\251\\t"\n@@ -0,0 +1 @@\n+n\n'
    )
    assert dict(parse_patch(patch)) == {
        b"x": (LineHunk(1, 2, 1, 1), LineHunk(5, 1, 4, 0)),
        "é\t".encode(): (LineHunk(0, 0, 1, 1),),
    }


def test_paths_that_exceed_the_arguments_of_one_call_are_compared(tmp_path: Path) -> None:
    folders = [tmp_path / "/".join([str(n), *(["d" * 240] * 14)]) for n in range(6)]
    names = [f"{folder.relative_to(tmp_path)}/{n}.py" for folder in folders for n in range(110)]
    assert sum(map(len, names)) > os.sysconf("SC_ARG_MAX")
    git(tmp_path, "init", "-q", "-b", "main")
    for folder in folders:
        folder.mkdir(parents=True)
    for name in names:
        (tmp_path / name).write_text("1\n2\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    for name in names:
        (tmp_path / name).write_text("1\ntwo\n")
    expected = {name: GitFileChange(name, "modified", (LineHunk(2, 1, 2, 1),)) for name in names}
    assert changes(tmp_path) == expected
    texts = read_texts(os.fsencode(tmp_path), "HEAD", names)
    assert texts == dict.fromkeys(names, b"1\n2\n")
