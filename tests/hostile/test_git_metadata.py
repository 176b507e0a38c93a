"""Metadata of a hostile repository: FIFOs, devices, links, endless and meaningless files."""

import hashlib
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.watching.git.repository import repository_at
from cocosearchd.watching.git.rule_cache import GitRuleCache
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.ignore_files import MAX_IGNORE_BYTES
from tests.daemon import Daemon
from tests.hostile.neighbour import Neighbour
from tests.watching.support import git

SOON_S = 25.0  # on a busy machine; what hangs takes `git_command.TIMEOUT_S` at least, 30 s


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        directory = Path.cwd()
        os.chdir(path.parent)  # the name of a socket is short
        try:
            server.bind(path.name)
        finally:
            os.chdir(directory)


def directory(path: Path) -> None:
    path.mkdir()


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def chain(path: Path) -> None:
    """A thousand and a half links, the last one to a directory."""
    links = path.parent / f"{path.name}.links"
    links.mkdir()
    for number in range(1500):
        (links / str(number)).symlink_to(links / str(number + 1) if number < 1499 else links)
    path.symlink_to(links / "0")


def nothing(path: Path) -> None:
    path.symlink_to("nowhere")


def nul(path: Path) -> None:
    path.write_bytes(b"gitdir: a\0b\n[core]\n\texcludesFile = a\0b\n")


def binary(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(5000))


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def odd_names(path: Path) -> None:
    path.write_bytes(
        b"gitdir: /\xff\xfe/"
        + b"../" * 2000
        + b"x\n[include]\n\tpath = /\xff\n[core]\n\texcludesFile = ~nobody/\xff\n"
    )


KINDS: dict[str, Callable[[Path], None]] = {
    kind.__name__: kind
    for kind in (
        fifo,
        endless,
        listening,
        directory,
        loop,
        chain,
        nothing,
        nul,
        binary,
        huge,
        odd_names,
    )
}
FILES = [
    ".git", ".git/HEAD", ".git/config", ".git/config.worktree", ".git/index", ".git/info/exclude", ".git/commondir",
    ".git/more", ".git/chosen", ".gitignore", ".cocosearchignore", "cocosearch.yaml", ".env", "sub/.git",
    "sub/.gitignore",
]  # fmt: skip


def repository(root: Path) -> Path:
    """A repository whose configuration includes and names files of its own, with a directory
    below.
    """
    (root / "sub").mkdir(parents=True)
    for name in ("shown.py", "sub/below.py", "hidden.py", "free.py"):
        (root / name).write_text(f"def of_{Path(name).stem}():\n    return 1\n")
    git(root, "init", "-q")
    git(root, "add", "shown.py", "sub/below.py")
    git(root, "config", "extensions.worktreeConfig", "true")
    git(root, "config", "include.path", "more")
    git(root, "config", "core.excludesFile", ".git/chosen")
    (root / ".git" / "chosen").write_text("hidden.py\n")
    return root


def attack(root: Path, file: str, kind: str) -> None:
    path = root / file
    if file == ".git":
        path.rename(root.parent / f"{root.name}.git")
    else:
        path.unlink(missing_ok=True)
    KINDS[kind](path)


def each_file_and_kind() -> Iterator[Any]:
    """All pairs; in the short form each file in four kinds, and so each kind in six files."""
    for row, file in enumerate(FILES):
        for column, kind in enumerate(KINDS):
            is_long = (column - row * 4) % len(KINDS) >= 4
            yield pytest.param(file, kind, marks=[pytest.mark.slow] if is_long else [])


@pytest.mark.parametrize(("file", "kind"), list(each_file_and_kind()))
def test_whatever_a_file_is_the_rules_are_read_soon(tmp_path: Path, file: str, kind: str) -> None:
    root = repository(tmp_path / "root")
    attack(root, file, kind)
    began = time.monotonic()
    scope = RootScope(os.fsencode(root), IndexingSettings())
    allowed = {path for path in (b"shown.py", b"sub/below.py") if scope.is_in_scope(path)}
    assert time.monotonic() - began < SOON_S
    expected_to_parse = {".git/config", ".git/config.worktree", ".git/more"} & {file}
    # git cannot parse these: rules are unknown
    if not (expected_to_parse and kind in ("binary", "nul", "odd_names")):
        silences = {".gitignore", ".cocosearchignore", "sub/.gitignore"} & {
            file
        } and kind == "binary"
        assert silences or allowed == {b"shown.py", b"sub/below.py"}
    assert all(len(remark) < 1000 for remark in scope.warnings())


@pytest.mark.parametrize(
    ("file", "kind", "words"),
    [
        (".git/config", "fifo", "config is not read: it is not a file"),
        (".git/config", "huge", "config is not read: it is larger than 1,024 kB"),
        (".git/info/exclude", "endless", "exclude is not used: it is outside of the repository"),
        (".git/info/exclude", "fifo", "exclude is not used: it is not a file"),
        (".git/chosen", "listening", "chosen is not used: it is not a file"),
        (".git/more", "chain", "more is not read: it is behind too many symbolic links"),
        (".git/more", "endless", "more is not read: it is outside of the repository"),
        (".gitignore", "fifo", ".gitignore is not used: it is not a file"),
        (".gitignore", "endless", ".gitignore is not used: it is a symbolic link"),
        (".gitignore", "huge", f"larger than {MAX_IGNORE_BYTES // 1024:,} kB"),
        (".git", "fifo", ".git is not used: it is not a file"),
        (".git", "nul", ".git is not used: it has a NUL"),
        (".git", "endless", ".git is not used: it is not a file"),
    ],
)
def test_unused_rules_are_reported(tmp_path: Path, file: str, kind: str, words: str) -> None:
    root = repository(tmp_path / "root")
    attack(root, file, kind)
    scope = RootScope(os.fsencode(root), IndexingSettings())
    assert scope.is_in_scope(b"shown.py")
    assert any(words in remark for remark in scope.warnings()), scope.warnings()


@pytest.mark.parametrize("how", ["absolute", "relative", "home", "link"])
def test_a_repository_names_no_file_outside_of_it(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, outside = repository(tmp_path / "root"), tmp_path / "outside"
    outside.write_text("free.py\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    names = {
        "absolute": str(outside),
        "relative": "../outside",
        "home": "~/outside",
        "link": ".git/link",
    }
    (root / ".git" / "link").symlink_to(outside)
    git(root, "config", "core.excludesFile", names[how])
    scope = RootScope(os.fsencode(root), IndexingSettings())
    assert scope.is_in_scope(b"free.py")
    assert any("outside of the repository" in remark for remark in scope.warnings())


@pytest.mark.parametrize("name", ["outside", "~/outside"])
def test_the_user_names_files_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    root, outside = repository(tmp_path / "root"), tmp_path / "outside"
    git(root, "config", "--unset", "core.excludesFile")
    outside.write_text("free.py\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    chosen = str(outside) if name == "outside" else name
    (tmp_path / ".gitconfig").write_text(f"[core]\n\texcludesFile = {chosen}\n")
    scope = RootScope(os.fsencode(root), IndexingSettings())
    assert not scope.is_in_scope(b"free.py")
    assert scope.warnings() == ()


def test_a_file_that_the_user_names_in_every_work_tree_is_the_repositorys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "root")
    git(root, "config", "--unset", "core.excludesFile")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".gitconfig").write_text("[core]\n\texcludesFile = .ignored\n")
    (root / ".ignored").write_text("free.py\n")
    assert not RootScope(os.fsencode(root), IndexingSettings()).is_in_scope(b"free.py")
    (root / ".ignored").unlink()
    (root / ".ignored").symlink_to("/dev/zero")
    assert RootScope(os.fsencode(root), IndexingSettings()).is_in_scope(b"free.py")


def test_a_condition_of_the_user_reads_no_head_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "root")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".gitconfig").write_text('[includeIf "onbranch:main"]\n\tpath = more\n')
    (root / ".git" / "HEAD").unlink()
    os.mkfifo(root / ".git" / "HEAD")
    began = time.monotonic()
    assert RootScope(os.fsencode(root), IndexingSettings()).is_in_scope(b"shown.py")
    assert time.monotonic() - began < SOON_S


def users_config(tmp_path: Path, how: str, kind: str) -> Path:
    """Make one file of the user's configuration odd, itself or as it is included; return that
    file.
    """
    odd, config = tmp_path / "odd", tmp_path / ".gitconfig"
    KINDS[kind](config if how == "itself" else odd)
    if how == "included":
        config.write_text(f"[include]\n\tpath = {odd}\n")
    elif how == "included by condition":
        config.write_text(f'[includeIf "gitdir:{tmp_path}/"]\n\tpath = more\n')
        (tmp_path / "more").write_text("[include]\n\tpath = odd\n")
    elif how == "linked":
        config.symlink_to(odd)
    return config if how in ("itself", "linked") else odd


@pytest.mark.parametrize("how", ["itself", "linked", "included", "included by condition"])
@pytest.mark.parametrize("kind", ["fifo", "endless", "huge"])
def test_a_file_of_the_user_without_end_costs_little_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, kind: str
) -> None:
    root = repository(tmp_path / "root")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    odd = users_config(tmp_path, how, kind)
    began = time.monotonic()
    scope = RootScope(os.fsencode(root), IndexingSettings())
    assert scope.is_in_scope(b"shown.py")
    assert not scope.is_in_scope(b"hidden.py"), "the repository's own rules hold"
    assert time.monotonic() - began < SOON_S
    warnings = [*scope.warnings(), *(failure.reason for failure in scope.git_failures().values())]
    assert [str(odd) in sentence and "is not read: it is" in sentence for sentence in warnings] == [
        True
    ]


@pytest.mark.parametrize("how", ["variable", "link"])
def test_a_user_may_switch_configuration_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    root = repository(tmp_path / "root")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if how == "variable":
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    else:
        monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
        (tmp_path / ".gitconfig").symlink_to(os.devnull)
    scope = RootScope(os.fsencode(root), IndexingSettings())
    assert not scope.is_in_scope(b"hidden.py")
    assert scope.warnings() == ()


def entries_of_one_long_prefix(count: int, length: int) -> Iterator[bytes]:
    """Entries of index version 4, each of a few bytes, whose paths have `length` bytes:
    gitformat-index(5).
    """
    status = struct.pack(">10I20sH", *([0] * 6), 0o100644, 0, 0, 0, b"\1" * 20, 0xFFF)
    yield status + b"\0" + b"a" * length + b"000000\0"
    for number in range(1, count):
        yield status + b"\6" + b"%06d\0" % number


def test_an_index_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    entries = list(entries_of_one_long_prefix(40_000, 100_000))  # 4 GB of paths in 3 MB
    content = b"DIRC" + struct.pack(">II", 4, len(entries)) + b"".join(entries)
    (root / ".git" / "index").write_bytes(content + hashlib.sha1(content).digest())
    repository_here = repository_at(os.fsencode(root))
    assert repository_here is not None
    began = time.monotonic()
    rules = GitRuleCache().rules(repository_here)
    assert time.monotonic() - began < SOON_S
    assert rules.tracked == ()
    assert rules.failure is not None
    assert not rules.failure.transient, rules.failure.reason


@pytest.mark.parametrize("form", ["split", "sparse", "sha256", "version 4"])
def test_other_forms_of_an_index_are_read(tmp_path: Path, form: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "-q", *(["--object-format=sha256"] if form == "sha256" else []))
    for name in ("a/x.py", "b/y.py", "c.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).touch()
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    expected: tuple[bytes, ...] = (b"a/x.py", b"b/y.py", b"c.py", b"d.py")
    if form == "split":
        git(root, "update-index", "--split-index")
    if form == "version 4":
        git(root, "update-index", "--index-version", "4")
    if form == "sparse":
        git(root, "sparse-checkout", "init", "--cone", "--sparse-index")
        git(root, "sparse-checkout", "set", "a")
        expected = (b"a/x.py", b"b/", b"c.py", b"d.py")
    (root / "d.py").touch()
    git(root, "add", "d.py")
    repository = repository_at(os.fsencode(root))
    assert repository is not None
    rules = GitRuleCache().rules(repository)
    assert (rules.tracked, rules.failure) == (expected, None)


def mutants(content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Cut, changed, doubled and blown up; half of them with a right checksum, so that git goes on
    reading.
    """
    rng = random.Random(seed)
    for number in range(count):
        body = bytearray(content[:-20])
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(body))
            change = rng.randrange(4)
            if change == 0:
                body[at] = rng.randrange(256)
            elif change == 1:
                body[at : at + 4] = rng.choice(
                    [b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"link", b"sdir", b"EOIE"]
                )
            elif change == 2:
                del body[at : at + rng.randint(1, 40)]
            else:
                body[at:at] = body[at : at + rng.randint(1, 80)]
            if not body:
                body = bytearray(b"D")
        yield bytes(body) + (hashlib.sha1(body).digest() if number % 2 else content[-20:])


def survive(root: Path, count: int, seed: int) -> None:
    repository_here = repository_at(os.fsencode(root))
    assert repository_here is not None
    index = root / ".git" / "index"
    for mutant in mutants(index.read_bytes(), count, seed):
        index.write_bytes(mutant)
        began = time.monotonic()
        rules = GitRuleCache().rules(repository_here)
        assert time.monotonic() - began < SOON_S, (seed, mutant)
        assert rules.failure is None or rules.tracked == ()
        assert not any(path.startswith(b"/") and b"\0" in path for path in rules.tracked)


def test_a_broken_index_costs_its_own_repository_alone(tmp_path: Path) -> None:
    survive(repository(tmp_path / "root"), 12, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_broken_indexes_cost_their_own_repository_alone(tmp_path: Path, seed: int) -> None:
    survive(repository(tmp_path / "root"), 150, seed)


BYTES = [
    b"gitdir: ",
    b"gitdir:",
    b"..",
    b"/",
    b"\0",
    b"\n",
    b"\r",
    b"\xff",
    b"proc/self/fd/0",
    b".",
    b"HEAD",
]
POINTERS = st.one_of(
    st.binary(max_size=200), st.lists(st.sampled_from(BYTES), max_size=12).map(b"".join)
)


def point(root: Path, marker: bytes, common: bytes) -> None:
    """Any bytes in a `.git` file, and in `commondir` of a git directory: no repository, or one, and
    never an error.
    """
    (root / ".git").write_bytes(marker)
    (root / "elsewhere.git" / "commondir").write_bytes(common)
    repository_at(os.fsencode(root))
    (root / ".git").write_bytes(b"gitdir: elsewhere.git\n")
    repository_at(os.fsencode(root))
    RootScope(os.fsencode(root), IndexingSettings()).is_in_scope(b"a.py")


@pytest.fixture(scope="module")
def pointing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pointing")
    git(root, "init", "-q")
    (root / ".git").rename(root / "elsewhere.git")
    return root


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(POINTERS, POINTERS)
def test_any_bytes_in_a_git_file(pointing: Path, marker: bytes, common: bytes) -> None:
    point(pointing, marker, common)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(POINTERS, POINTERS)
def test_many_bytes_in_a_git_file(pointing: Path, marker: bytes, common: bytes) -> None:
    point(pointing, marker, common)


@pytest.mark.parametrize(
    ("file", "kind"),
    [(".git", "fifo"), (".git", "endless"), (".git", "nul"), (".git/chosen", "fifo"), (".git/index", "fifo"),
     (".git/config", "endless"), (".git/info/exclude", "fifo"), (".gitignore", "huge")],
)  # fmt: skip
def test_files_are_indexed_and_the_neighbour_is_fresh(
    shared: Daemon, hostile_root: Path, neighbour: Neighbour, file: str, kind: str
) -> None:
    hostile_root.rmdir()
    attack(repository(hostile_root), file, kind)
    neighbour.watch(shared)
    shared.index(hostile_root)
    neighbour.assert_fresh(shared)
    (hostile_root / "later.py").write_text("def written_later():\n    return 1\n")
    answer = shared.call("search", query="written_later", index="hostile")
    assert answer["fresh"], answer
    files = {entry["path"] for entry in shared.call("list_files", index="hostile")["files"]}
    assert {"shown.py", "sub/below.py", "later.py"} <= files
    (state,) = [index for index in shared.call("status")["indexes"] if index["name"] == "hostile"]
    assert file.rpartition("/")[2] in str(state), state
