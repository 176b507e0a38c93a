"""The history of repositories, with a real git: only ancestors, within bounds, of any author."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cocosearchd.model import Revision
from cocosearchd.watching.git import git_history
from cocosearchd.watching.git.git_command import GitCall, GitRefused, run_git
from cocosearchd.watching.git.git_history import head_stamp, parse_log, read_history
from cocosearchd.watching.git.object_reader import NoRepository
from tests.watching.support import git

STRANGE = ':100644 a\n"b"\\é'


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Make an empty repository."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    return root


def commit(root: Path, message: str, **texts: str) -> str:
    """Write files `name.py`, commit everything; return the id of the commit."""
    for name, text in texts.items():
        (root / f"{name}.py").write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "--cleanup=verbatim", "-m", message)
    return git(root, "rev-parse", "HEAD").strip()


def commit_raw(root: Path, message: bytes) -> None:
    """Commit everything that is on disk with these bytes after the headers of the commit."""
    git(root, "add", "-A")
    tree = git(root, "write-tree").strip()
    parent = git(root, "rev-parse", "HEAD").strip()
    headers = f"tree {tree}\nparent {parent}\nauthor A <a> 1700000000 +0000\ncommitter A <a> 1700000000 +0000\n\n"
    process = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--literally", "--stdin"],
        cwd=root,
        input=headers.encode() + message,
        capture_output=True,
        check=True,
    )
    git(root, "update-ref", "refs/heads/main", process.stdout.decode().strip())


def revisions(root: Path) -> tuple[Revision, ...]:
    """Return the commits that are read."""
    return read_history(os.fsencode(root)).new


def test_messages_and_changed_files_are_read_newest_first(repository: Path) -> None:
    first = commit(repository, "Parse headers", a="1", b="1")
    second = commit(repository, "Fold names\n\nof everything.", a="2")
    (repository / "b.py").unlink()
    third = commit(repository, "Drop b")
    history = read_history(os.fsencode(repository))
    assert history.ids == (third, second, first)
    assert [(revision.message.strip(), revision.paths) for revision in history.new] == [
        ("Drop b", ("b.py",)),
        ("Fold names\n\nof everything.", ("a.py",)),
        ("Parse headers", ("a.py", "b.py")),
    ]


def test_only_ancestors_of_head_are_read(repository: Path) -> None:
    base = commit(repository, "past", a="1")
    git(repository, "checkout", "-qb", "future")
    commit(repository, "future", a="2")
    git(repository, "tag", "later")
    git(repository, "checkout", "-q", "main")
    assert read_history(os.fsencode(repository)).ids == (base,)
    git(repository, "checkout", "-q", "--detach", "future")
    assert [revision.message.strip() for revision in revisions(repository)] == ["future", "past"]


def test_known_commits_are_not_read_again(repository: Path) -> None:
    first = commit(repository, "first", a="1")
    stamp = head_stamp(os.fsencode(repository))
    assert stamp == head_stamp(os.fsencode(repository))
    second = commit(repository, "second", a="2")
    assert head_stamp(os.fsencode(repository)) != stamp
    history = read_history(os.fsencode(repository), {first})
    assert history.ids == (second, first)
    assert [revision.id for revision in history.new] == [second]


def test_head_moves_by_every_way(repository: Path) -> None:
    root = os.fsencode(repository)
    commit(repository, "first", a="1")
    commit(repository, "second", a="2")
    stamps = {head_stamp(root)}
    for arguments in (
        ["pack-refs", "--all"],
        ["update-ref", "refs/heads/main", "HEAD~1"],
        ["checkout", "-qf", "--detach", "HEAD"],
        ["checkout", "-qf", "-b", "topic"],
    ):
        git(repository, *arguments)
        stamps.add(head_stamp(root))
    assert len(stamps) == 5


def test_a_root_below_the_top_has_its_own_files(repository: Path) -> None:
    below = repository / "below"
    below.mkdir()
    (below / "c.py").write_text("1")
    commit(repository, "both", a="1")
    commit(repository, "above", a="2")
    assert [revision.paths for revision in revisions(below)] == [("c.py",)]


def test_a_work_tree_has_the_history_of_its_own_head(repository: Path, tmp_path: Path) -> None:
    first = commit(repository, "first", a="1")
    commit(repository, "second", a="2")
    tree = tmp_path / "tree"
    git(repository, "worktree", "add", "-q", str(tree), first)
    assert read_history(os.fsencode(tree)).ids == (first,)


def test_a_shallow_clone_has_what_it_has_but_for_its_first_commit(
    repository: Path, tmp_path: Path
) -> None:
    """That one would change every file, as the clone has no parent of it."""
    first = commit(repository, "first", a="1", b="1")
    second = commit(repository, "second", a="2")
    third = commit(repository, "third", a="3")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{repository}", str(shallow))
    history = read_history(os.fsencode(shallow))
    assert (history.ids, [revision.id for revision in history.new]) == ((third,), [third])
    git(shallow, "fetch", "-q", "--unshallow")
    rest = read_history(os.fsencode(shallow), history.ids)
    assert rest.ids == (third, second, first)
    assert [revision.paths for revision in rest.new] == [("a.py",), ("a.py", "b.py")]


def test_no_repository_and_no_commit(tmp_path: Path, repository: Path) -> None:
    with pytest.raises(NoRepository):
        read_history(os.fsencode(tmp_path))
    assert head_stamp(os.fsencode(tmp_path)) is None
    assert read_history(os.fsencode(repository)) == git_history.GitHistory((), ())


def test_merges_and_submodules_are_left_out(repository: Path) -> None:
    base = commit(repository, "base", a="1")
    git(repository, "checkout", "-qb", "topic")
    topic = commit(repository, "topic", b="1")
    git(repository, "checkout", "-q", "main")
    main = commit(repository, "main", a="2")
    git(repository, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{base},module")
    git(repository, "commit", "-qm", "submodule")
    history = read_history(os.fsencode(repository))
    assert set(history.ids[1:]) == {base, topic, main}
    assert {revision.id for revision in history.new} == {base, topic, main}


def test_strange_names_and_messages_are_told_apart(repository: Path) -> None:
    (repository / "a.py").write_text("1")
    first = commit(repository, "first")
    (repository / STRANGE).write_text("1")
    (repository / first).write_text("a file that is named as a commit")
    second = commit(repository, f"\n:100644 100644 {first}\n{first}\n")
    newest, oldest = revisions(repository)
    assert set(newest.paths) == {STRANGE.replace("\\", "\\\\"), first}
    assert (newest.id, oldest.id) == (second, first)
    assert first in newest.message
    assert oldest.paths == ("a.py",)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"\xff\xfe caf\xe9", "\ufffd\ufffd caf\ufffd"),
        (b"before\0after", "before"),
        (b"", ""),
        (b"x" * 1_000_000, "x" * git_history.MAX_MESSAGE),
    ],
)
def test_hostile_messages_are_read_in_bounds(
    repository: Path, message: bytes, expected: str
) -> None:
    commit(repository, "first", a="1")
    (repository / "b.py").write_text("1")
    commit_raw(repository, message)
    newest, oldest = revisions(repository)
    assert newest.message.strip("\n") == expected
    assert newest.paths == ("b.py",)
    assert oldest.message.strip() == "first"


def test_a_commit_of_100_000_files_is_left_out_and_others_stay(repository: Path) -> None:
    commit(repository, "first", a="1")
    lines = ["commit refs/heads/main", "committer A <a> 1700000000 +0000", "data 4", "many"]
    lines += ["from refs/heads/main^0"]
    lines += [
        f"M 100644 inline directory{number % 300}/{number}.py\ndata 1\n1"
        for number in range(100_000)
    ]
    subprocess.run(
        ["git", "fast-import", "--quiet"],
        cwd=repository,
        input="\n".join([*lines, ""]).encode(),
        check=True,
    )
    git(repository, "read-tree", "HEAD")
    git(
        repository,
        "update-index",
        "--add",
        "--cacheinfo",
        f"100644,{git(repository, 'hash-object', '-w', 'a.py').strip()},z.py",
    )
    git(repository, "commit", "-qm", "last")
    history = read_history(os.fsencode(repository))
    assert len(history.ids) == 3
    assert [revision.message.strip() for revision in history.new] == ["last", "first"]


def test_the_limits_hold(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        commit(repository, f"commit {number}", a=str(number))
    monkeypatch.setattr(git_history, "CALL_COMMITS", 2)
    assert len(revisions(repository)) == 6
    monkeypatch.setattr(git_history, "CALL_BYTES", 300)
    assert len(revisions(repository)) == 6, "each call goes on after the last whole commit"
    monkeypatch.setattr(git_history, "CALL_BYTES", 100)
    assert revisions(repository) == (), "no commit fits"
    monkeypatch.setattr(git_history, "CALL_BYTES", 300)
    monkeypatch.setattr(git_history, "MAX_BYTES", 301)
    history = read_history(os.fsencode(repository))
    assert 0 < len(history.new) < 6
    assert len(history.new) + len(history.unread) == 6
    monkeypatch.setattr(git_history, "MAX_COMMITS", 3)
    assert len(read_history(os.fsencode(repository)).ids) == 3
    monkeypatch.setattr(git_history, "READ_S", 0.0)
    assert revisions(repository) == ()


def test_a_stop_ends_between_two_calls(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        commit(repository, f"commit {number}", a=str(number))
    monkeypatch.setattr(git_history, "CALL_COMMITS", 1)
    answers = iter([False, True])
    history = read_history(os.fsencode(repository), (), lambda: next(answers))
    assert [len(history.new), len(history.unread)] == [1, 2]


def test_nothing_that_a_repository_configures_runs(repository: Path, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 >> {witness}\nexit 1\n")
    program.chmod(0o755)
    commit(repository, "first", a="1")
    commit(repository, "second", a="2")
    for key in (
        "core.fsmonitor",
        "core.pager",
        "pager.log",
        "core.sshCommand",
        "diff.external",
        "diff.py.textconv",
        "diff.py.command",
        "filter.py.clean",
        "gpg.program",
        "core.alternateRefsCommand",
        "uploadpack.packObjectsHook",
        "interactive.diffFilter",
    ):
        git(repository, "config", key, str(program))
    git(repository, "config", "log.showSignature", "true")
    git(repository, "config", "mailmap.file", str(tmp_path / "mailmap"))
    git(repository, "config", "alias.log", f"!{program}")
    (repository / ".gitattributes").write_text("*.py diff=py filter=py\n")
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        (hooks / name).symlink_to(program)
    assert len(revisions(repository)) == 2
    assert not witness.exists()


def test_replacements_and_grafts_do_not_change_the_past(repository: Path) -> None:
    first = commit(repository, "first", a="1")
    second = commit(repository, "second", a="2")
    git(repository, "checkout", "-qb", "future")
    future = commit(repository, "future", a="3")
    git(repository, "checkout", "-q", "main")
    git(repository, "replace", first, future)
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "grafts").write_text(f"{second} {future}\n")
    history = read_history(os.fsencode(repository))
    assert history.ids == (second, first)
    assert [revision.message.strip() for revision in history.new] == ["second", "first"]


def test_objects_that_a_partial_clone_lacks_are_not_fetched(
    repository: Path, tmp_path: Path
) -> None:
    commit(repository, "first", a="1")
    git(repository, "config", "uploadpack.allowFilter", "true")
    url = f"file://{repository}"
    for name, count in (("blob:none", 1), ("tree:0", 0)):
        clone = tmp_path / name.replace(":", "-")
        git(tmp_path, "clone", "-q", "--bare", f"--filter={name}", url, str(clone / ".git"))
        objects = sorted((clone / ".git" / "objects").rglob("*"))
        if count:
            assert len(revisions(clone)) == count
        else:
            with pytest.raises(Exception, match="unable to read tree"):
                revisions(clone)
        assert sorted((clone / ".git" / "objects").rglob("*")) == objects


def test_a_repository_of_another_user_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, "first", a="1")
    monkeypatch.setattr("cocosearchd.watching.git.repository.trusted_owners", frozenset)
    with pytest.raises(GitRefused, match="dubious ownership"):
        revisions(repository)


def test_a_reference_that_leads_outside_is_not_followed(repository: Path) -> None:
    commit(repository, "first", a="1")
    (repository / ".git" / "HEAD").write_text("ref: refs/../../../../etc/passwd\n")
    assert head_stamp(os.fsencode(repository)) is not None
    assert revisions(repository) == ()


def test_a_pack_that_is_larger_than_the_memory_of_a_call_is_read(repository: Path) -> None:
    (repository / "large.bin").write_bytes(os.urandom(48 << 20))
    first = commit(repository, "first", a="1")
    git(repository, "repack", "-adq")
    call = GitCall(
        arguments=("rev-parse", "--verify", f"{first}^{{commit}}"),
        output_limit=256,
        memory=40 << 20,
        objects=os.fsencode(repository / ".git" / "objects"),
    )
    assert run_git(call).decode().strip() == first


def test_an_output_that_reaches_its_limit_is_cut_only_if_asked(repository: Path) -> None:
    first = commit(repository, "first", a="1")
    call = GitCall(
        arguments=("cat-file", "commit", first),
        output_limit=10,
        objects=os.fsencode(repository / ".git" / "objects"),
    )
    with pytest.raises(GitRefused, match="more than"):
        run_git(call)
    assert run_git(replace(call, cut=True)) == run_git(replace(call, output_limit=10_000))[:10]


def test_errors_do_not_cut_an_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller would take the output until then for all of it."""
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho begin; head -c 100000 /dev/zero >&2; echo end\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(GitRefused, match="more than"):
        run_git(GitCall(arguments=("log",), output_limit=1000, cut=True))


def test_a_log_that_is_cut_anywhere_is_read() -> None:
    entry = b":100644 100644 " + b"1" * 40 + b" " + b"2" * 40 + b" M"
    log = b"\0".join(
        [
            b"a" * 40,
            b"message",
            b"",
            b"\n" + entry,
            b"x.py",
            b"b" * 40,
            b"",
            b"",
            b"\n" + entry,
            b"y.py",
            b"",
        ]
    )
    complete = list(parse_log(log, b""))
    assert complete == [
        Revision("a" * 40, "message", ("x.py",)),
        Revision("b" * 40, "", ("y.py",)),
    ]
    for length in range(len(log)):
        parts = list(parse_log(log[:length], b""))
        assert parts[:-1] == complete[: max(0, len(parts) - 1)]
