"""Directories nested as deep as the kernel allows, and deeper than a path can name: nothing
recurses over them.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.pipeline.file_reader import SourceFile, read_files
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.scans.scan import Scan, compare_paths
from tests.daemon import Daemon, git
from tests.hostile.neighbour import Neighbour

DEEP = 1_100  # deeper than Python recurses, and a path that is still stored
BEYOND = 2_100  # 4,200 bytes: no system call takes such a path (PATH_MAX is 4,096)


def nest(
    root: Path, depth: int, name: str = "f.py", text: str = "def at_the_bottom():\n    pass\n"
) -> str:
    """Make `depth` directories, each in the one before, and a file in the last; its path."""
    handle = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a", dir_fd=handle)
        above, handle = handle, os.open("a", os.O_RDONLY, dir_fd=handle)
        os.close(above)
    file = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=handle)
    os.write(file, text.encode())
    os.close(file)
    os.close(handle)
    return "a/" * depth + name


@pytest.fixture
def deep_root(hostile_root: Path) -> Iterator[Path]:
    yield hostile_root
    subprocess.run(["rm", "-rf", hostile_root], check=True)  # Python's own removal recurses


def test_a_deep_path_is_compared_looked_at_and_read(deep_root: Path) -> None:
    path, root = nest(deep_root, DEEP), os.fsencode(deep_root)
    scope = RootScope(root, IndexingSettings())
    assert Scan(scope, {}, lambda _: None).run([b""]).dirty == [path]
    assert compare_paths(scope, {path: os.fsencode(path)}).present == [path]
    (reading,) = read_files(root, [path], 1 << 20)
    assert isinstance(reading, SourceFile)


def test_a_deep_path_is_read_with_one_handle(deep_root: Path) -> None:
    """Else reading a few deep files at once uses up the handles that every index needs."""
    path = nest(deep_root, DEEP)
    program = (
        "import os, resource, sys; from cocosearchd.indexing.pipeline.file_reader import read_files;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64));"
        "print(type(*read_files(os.fsencode(sys.argv[1]), [sys.argv[2]], 1 << 20)).__name__)"
    )
    command = [sys.executable, "-c", program, str(deep_root), path]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout == "SourceFile\n"
    )


def test_deep_rules_of_git_are_followed(deep_root: Path) -> None:
    """A file that git begins to track deep below an ignored directory is in scope from then on."""
    git(deep_root, "init", "-q")
    (deep_root / ".gitignore").write_text("a/\n")
    path = nest(deep_root, DEEP)
    scope = RootScope(os.fsencode(deep_root), IndexingSettings())
    assert not scope.is_in_scope(os.fsencode(path))
    git(deep_root, "add", "-f", "--", path)
    assert scope.refresh_git() is None
    assert scope.renew().is_in_scope(os.fsencode(path))


def test_depth_in_one_root_stops_no_other(
    shared: Daemon, deep_root: Path, neighbour: Neighbour
) -> None:
    neighbour.watch(shared)
    path = nest(deep_root, DEEP)
    (deep_root / "cocosearch.yaml").write_text("[" * 100_000)
    shared.index(deep_root)
    neighbour.assert_fresh(shared)
    answer = shared.call("search", query="at_the_bottom", index=deep_root.name)
    assert [result["path"] for result in answer["results"]] == [path]
    assert "RecursionError" not in shared.log


def test_files_that_no_path_can_name_are_left_out_with_the_reason(
    shared: Daemon, deep_root: Path, neighbour: Neighbour
) -> None:
    neighbour.watch(shared)
    path = nest(deep_root, BEYOND)
    (deep_root / "top.py").write_text("def beside_the_depth():\n    pass\n")
    shared.index(deep_root)
    neighbour.assert_fresh(shared)
    answer = shared.call("search", query="beside_the_depth", index=deep_root.name)
    assert answer["fresh"]
    (status,) = [
        index for index in shared.call("status")["indexes"] if index["name"] == deep_root.name
    ]
    assert status["reason"].startswith(
        "left out for the length of their paths: 1, the first in a/a/"
    )
    assert "2,600 bytes" in status["reason"]
    # More than 2,600 bytes and less than PATH_MAX, which is what a question may name.
    output = shared.ctl("query", "x", "--why-not", path[-3_000:], "--index", deep_root.name).stdout
    assert "left out by its length: paths have at most 2,600 bytes" in output
