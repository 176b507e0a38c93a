"""Special and unstable files: pipes, sockets, devices, links, sparse and growing files, odd names."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cocosearch_ipc.client import CallFailed
from cocosearchd.indexing.pipeline.file_reader import (
    MissingFile,
    SourceFile,
    UnreadFile,
    read_files,
)
from tests.daemon import Daemon
from tests.hostile.neighbour import Neighbour

LIMIT = 1 << 20
TERABYTE = 1 << 40
SWAP_FOR_PIPE = """
import os, sys
path, aside = sys.argv[1], sys.argv[1] + ".aside"
os.mkfifo(aside)
print(flush=True)
while os.path.exists(sys.argv[2]):
    os.rename(path, path + ".tmp")
    os.rename(aside, path)
    os.rename(path + ".tmp", aside)
"""
GROW = """
import os, sys
print(flush=True)
with open(sys.argv[1], "a") as file:
    while os.path.exists(sys.argv[2]):
        file.write("grown = 1\\n")
        file.flush()
        if file.tell() > 900_000:
            file.truncate(0)
"""


@contextlib.contextmanager
def running(program: str, path: Path) -> Iterator[None]:
    """A program of Python that gets the path, and another one that is there until it is to end."""
    flag = path.with_name(f"{path.name}.flag")
    flag.touch()
    with subprocess.Popen(
        [sys.executable, "-c", program, path, flag], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            flag.unlink()


def fill(root: Path) -> None:
    """Whatever a directory can hold that is no plain file, under names of source files."""
    (root / "plain.py").write_text("def plain_function():\n    return 1\n")
    os.mkfifo(root / "pipe.py")
    with socket.socket(socket.AF_UNIX) as listener:
        descriptor = os.open(root, os.O_RDONLY)
        # the whole path is too long for an address
        listener.bind(f"/proc/self/fd/{descriptor}/socket.py")
        os.close(descriptor)
    for name, target in {
        "zero.py": "/dev/zero",
        "process": "/proc/self",
        "memory.py": "/proc/self/mem",
        "up": "..",
        "self": ".",
        "loop.py": "loop.py",
        "dangling.py": "nowhere.py",
        ".gitignore": "/dev/zero",
        "cocosearch.yaml": "/dev/zero",
    }.items():
        (root / name).symlink_to(target)
    with (root / "sparse.py").open("wb") as file:
        file.truncate(TERABYTE)


def test_special_files_are_left_out(
    shared: Daemon, hostile_root: Path, neighbour: Neighbour
) -> None:
    neighbour.watch(shared)
    fill(hostile_root)
    shared.ctl("up", str(hostile_root), "--wait")
    answer = shared.call("search", query="plain_function", index="hostile")
    assert (answer["fresh"], [result["path"] for result in answer["results"]]) == (
        True,
        ["plain.py"],
    )
    listed = shared.call("list_files", index="hostile")
    assert [file["path"] for file in listed["files"]] == ["plain.py"]
    for path in (
        "pipe.py",
        "socket.py",
        "zero.py",
        "process/status",
        "up/neighbour/main.py",
        "sparse.py",
    ):
        with pytest.raises(CallFailed):
            shared.call("get_file", path=path, index="hostile")
    neighbour.assert_fresh(shared)


@pytest.fixture(params=["proc", "bind"])
def kernel_inside(request: pytest.FixtureRequest, hostile_root: Path) -> Iterator[Path]:
    """A root with a system inside, as a container's or a chroot's: `/proc` is mounted in it, by
    itself or bound.
    """
    directory = hostile_root / "system" / "proc"
    directory.mkdir(parents=True)
    options = ["-t", "proc", "proc"] if request.param == "proc" else ["--bind", "/proc"]
    if subprocess.run(["mount", *options, directory], capture_output=True, check=False).returncode:
        pytest.skip("mounts take rights that are not there")
    yield hostile_root
    subprocess.run(["umount", "--lazy", directory], check=True)


def test_kernel_file_systems_inside_a_root_are_left_out(
    shared: Daemon, kernel_inside: Path, neighbour: Neighbour
) -> None:
    """Thousands of directories that come and go, and files without end, some of which act when they
    are read.
    """
    neighbour.watch(shared)
    (kernel_inside / "system" / "plain.py").write_text("def plain_function(): pass\n")
    # every file, whatever its type
    (kernel_inside / "cocosearch.yaml").write_text("indexing:\n  include: ['*']\n")
    shared.ctl("up", str(kernel_inside), "--wait")
    listed = shared.call("list_files", index="hostile", limit=1000)
    assert {file["path"] for file in listed["files"]} == {"system/plain.py", "cocosearch.yaml"}
    status = next(index for index in shared.call("status")["indexes"] if index["name"] == "hostile")
    assert "system/proc/" in status["reason"]
    neighbour.assert_fresh(shared)


@pytest.mark.parametrize(
    "name", ["line\nbreak", "esc\x1b]0;owned\x07\x1b[31m", "caf\udce9", "a b\t'\"$(id)"]
)
def test_a_root_of_any_name_is_a_root(shared: Daemon, tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    root.mkdir()
    (root / "a.py").write_text("def oddly_named_root(): pass\n")
    shared.ctl("up", str(root), "--wait")
    (index,) = shared.call("list_indexes")["indexes"]
    answer = shared.call("search", query="oddly_named_root", cwd=str(root))
    assert (answer["fresh"], [result["path"] for result in answer["results"]]) == (True, ["a.py"])
    assert index["name"].isprintable()
    for verb in (["status"], ["list"], ["query", "oddly_named_root"], ["files"]):
        output = shared.ctl(*verb, cwd=root).stdout
        assert not {"\x1b", "\x07"} & set(output), output


def test_a_file_that_is_swapped_for_a_pipe_is_never_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    kinds = set[type]()
    with running(SWAP_FOR_PIPE, path):
        end = time.monotonic() + 60
        while not kinds >= {SourceFile, MissingFile} and time.monotonic() < end:
            kinds |= {
                type(reading)
                for reading in read_files(os.fsencode(tmp_path), ["a.py"] * 100, LIMIT)
            }
    # a file that is renamed while it is read has another time of change: it is read later
    assert kinds - {UnreadFile} == {SourceFile, MissingFile}


def test_a_file_that_grows_is_read_in_one_piece_or_later(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    with running(GROW, path):
        for reading in read_files(os.fsencode(tmp_path), ["a.py"] * 500, LIMIT):
            assert isinstance(reading, SourceFile | UnreadFile)
            if isinstance(reading, SourceFile):
                assert len(reading.data) == reading.fingerprint.size <= LIMIT


def test_a_hole_of_a_terabyte_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.py").open("wb") as file:
        file.truncate(TERABYTE)
    began = time.monotonic()
    (reading,) = read_files(os.fsencode(tmp_path), ["a.py"], LIMIT)
    assert isinstance(reading, SourceFile)
    assert (reading.skip, reading.data) == ("too_large", b"")
    assert time.monotonic() - began < 20, "to read it would take minutes"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to somebody else")
def test_another_name_of_a_file_that_may_not_be_read_gives_nothing_away() -> None:
    """A hard link is the file itself: its permissions are what keeps it, wherever the link lies."""
    with tempfile.TemporaryDirectory() as directory:  # those of pytest are closed to other users
        Path(directory).chmod(0o755)
        assert_unreadable_through_link(Path(directory))


def assert_unreadable_through_link(path: Path) -> None:
    secret, root = path / "secret.py", path / "root"
    root.mkdir(mode=0o755)
    secret.write_text("password = 1\n")
    secret.chmod(0o600)
    os.link(secret, root / "a.py")
    code = (
        "import os, sys; from cocosearchd.indexing.pipeline.file_reader import read_files;"
        "os.setgid(65534); os.setuid(65534);"
        "(reading,) = read_files(os.fsencode(sys.argv[1]), ['a.py'], 1 << 20); print(reading.skip, reading.data)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, root], capture_output=True, text=True, check=True
    )
    assert done.stdout == "unreadable b''\n"
