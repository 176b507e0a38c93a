"""Directories that may be roots, and their names."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cocosearchd.errors import Conflict, InvalidInput, NotFound, Refused
from cocosearchd.watching.root_validation import MAX_NAME, check_root, propose_name
from tests.daemon import git


def check(path: Path | str, state: Path) -> bytes:
    return check_root(os.fsencode(path), state)


def test_a_root_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert check(tmp_path / "link" / ".." / "link", tmp_path / "state") == os.fsencode(
        tmp_path / "real"
    )


def test_a_path_that_has_become_a_link_is_refused(tmp_path: Path) -> None:
    real = tmp_path / "real" / "shop"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    state = tmp_path / "state"
    assert check_root(os.fsencode(real), state, follow_links=False) == os.fsencode(real)
    with pytest.raises(Refused, match="leads to another"):
        check_root(os.fsencode(tmp_path / "link" / "shop"), state, follow_links=False)


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotFound, match="there is no directory"):
        check(tmp_path / "none", tmp_path / "state")
    with pytest.raises(Refused) as refused:
        check(tmp_path / "file", tmp_path / "state")
    assert str(tmp_path) in refused.value.hint


@pytest.mark.parametrize("path", ["/", "~", "/.//"])
def test_roots_that_are_too_large(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Refused) as refused:
        check(path, tmp_path / "state")
    assert "directories of your projects" in refused.value.hint


def test_the_daemon_does_not_index_itself(tmp_path: Path) -> None:
    state = tmp_path / "outer" / "state"
    (state / "inner").mkdir(parents=True)
    for path in (state, state / "inner", tmp_path / "outer"):
        with pytest.raises(Refused, match="the daemon's own files"):
            check(path, state)
    (tmp_path / "outer" / "state2").mkdir()
    assert check(tmp_path / "outer" / "state2", state)


@pytest.mark.skipif(sys.platform != "linux", reason="where Linux shows itself")
@pytest.mark.parametrize(
    "path", ["/proc", "/proc/self", "/proc/self/task", "/sys", "/sys/kernel", "/dev", "/dev/pts"]
)
def test_a_kernel_file_system_is_no_root(tmp_path: Path, path: str) -> None:
    if not os.path.isdir(path):
        pytest.skip("there is no such directory here")
    with pytest.raises(Refused, match="of the kernel") as refused:
        check(path, tmp_path / "state")
    assert "directories of your projects" in refused.value.hint


def test_memory_is_a_disk_as_good_as_any(tmp_path: Path) -> None:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no tmpfs")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        assert check(directory, tmp_path / "state") == os.fsencode(directory)


@pytest.fixture
def bound(tmp_path: Path) -> Iterator[Path]:
    """Another name of `tmp_path/real`, which holds a state directory."""
    (tmp_path / "real" / "state").mkdir(parents=True)
    (tmp_path / "bound").mkdir()
    done = subprocess.run(
        ["mount", "--bind", tmp_path / "real", tmp_path / "bound"], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("mounts take rights that are not there")
    yield tmp_path / "bound"
    subprocess.run(["umount", "--lazy", tmp_path / "bound"], check=True)


def test_another_name_of_what_holds_the_state_is_refused_too(
    tmp_path: Path, bound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused, match="the daemon's own files"):
        check(bound, tmp_path / "real" / "state")
    monkeypatch.setenv("HOME", str(tmp_path / "real"))
    with pytest.raises(Refused, match="home directory"):
        check(bound, tmp_path / "elsewhere")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_closed_directory(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(Refused, match="cannot be read"):
        check(tmp_path / "closed", tmp_path / "state")


def test_names_are_the_directorys_and_longer_where_needed() -> None:
    taken_names = dict[str, bytes]()
    for root, name in (
        (b"/home/me/work/api", "api"),
        (b"/home/me/play/api", "play-api"),
        (b"/srv/play/api", "srv-play-api"),
        (b"/home/me/work/tree two", "tree_two"),
        (b"/odd/\xff\n", "_"),
        (b"/odd/a, b", "a_b"),
        (b"/odd/--all", "all"),
        (b"/odd/-", "odd-_"),
        ("/odd/a\x9b2J\u202eb".encode(), "a_2J_b"),
    ):
        assert propose_name(root, None, taken_names) == name
        taken_names[name] = root


def test_a_number_is_the_last_resort() -> None:
    taken_names = {"a-b": b"/x", "b": b"/y"}
    assert propose_name(b"/a/b", None, taken_names) == "b-2"


def test_very_long_paths_make_names_that_fit() -> None:
    root = b"/" + b"/".join([b"n" * 80] * 4)
    taken_names = dict[str, bytes]()
    for _ in range(5):
        name = propose_name(root, None, taken_names)
        assert len(name) <= MAX_NAME
        assert name not in taken_names
        taken_names[name] = b"/other"


def test_a_chosen_name_is_kept_or_refused_with_both_paths() -> None:
    assert propose_name(b"/a/b", "mine", {}) == "mine"
    assert propose_name(b"/a/b", "mine", {"mine": b"/a/b"}) == "mine"
    with pytest.raises(Conflict, match=r"/a/b is taken by /c/d"):
        propose_name(b"/a/b", "mine", {"mine": b"/c/d"})


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a/b",
        "a\nb",
        " a",
        "a ",
        "x" * 101,
        "back\\slash",
        ".",
        "..",
        "a,b",
        "--all",
        "a\x9b2J",
        "a\u202eb",
    ],
)
def test_names_that_cannot_be_used(name: str) -> None:
    with pytest.raises(InvalidInput):
        propose_name(b"/a", name, {})


def test_a_bare_repository_has_no_files(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    with pytest.raises(Refused, match="bare repository"):
        check_root(os.fsencode(tmp_path / "bare.git"), tmp_path / "state")
