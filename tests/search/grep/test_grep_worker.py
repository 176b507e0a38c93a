"""The worker of grep: limits over all files of a task."""

import os
from pathlib import Path
from typing import Any

import pytest

from cocosearchd.model import hash_content
from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.search.grep.grep_messages import (
    GrepResult,
    GrepTask,
    SearchedFile,
    pack_response,
    unpack_response,
)
from cocosearchd.search.grep.grep_worker import open_handler
from cocosearchd.search.grep.line_pattern import LinePattern
from cocosearchd.search.grep.matching_lines import LineMatches, LineOptions

CONTENTS = {
    "a.py": b"x = 1\ny = 2\n",
    "b.py": b"nothing\n",
    "c.py": b"x = 3\n",
    "d.py": b"x = 4\nx = 5\n",
    "e.py": b"x = 6\n",
}


def search(
    root: Path, *, max_lines: int, max_files: int
) -> tuple[dict[str, SearchedFile], GrepResult]:
    """Search the files of CONTENTS for `x`; the results by path, and all of the task's."""
    for name, content in CONTENTS.items():
        (root / name).write_bytes(content)
    paths = list(CONTENTS)
    task = GrepTask(
        root=bytes(root),
        pattern=LinePattern("x"),
        options=LineOptions(max_lines),
        max_file_bytes=1000,
        max_files=max_files,
        paths=tuple(paths),
        without_bloom=frozenset([paths.index("e.py")]),
    )
    error, result = unpack_response(open_handler()(task.to_bytes()), len(paths))
    assert not error
    return {paths[file.number]: file for file in result.files}, result


def test_the_first_files_are_returned_and_the_others_are_counted(tmp_path: Path) -> None:
    results, result = search(tmp_path, max_lines=0, max_files=2)
    # a Bloom filter is returned with the hash of its content
    paths = ("a.py", "c.py", "e.py")
    assert {path: file.matches.count for path, file in results.items()} == dict.fromkeys(paths, 1)
    hashes = {path: file.content_hash for path, file in results.items()}
    assert hashes == {path: hash_content(CONTENTS[path]) for path in paths}
    assert (result.more_files, result.more_lines) == (1, 2)


@pytest.mark.parametrize(
    ("more_files", "more_lines"), [(3, 3), (-1, 0), (2, 1), (1, "2"), ("1", 2)]
)
def test_counts_beyond_the_files_of_a_task_are_refused(more_files: Any, more_lines: Any) -> None:
    files = (SearchedFile(0, LineMatches(1, ())),)
    packed = pack_response(GrepResult(files, more_files, more_lines))
    with pytest.raises(InvalidFrame):
        unpack_response(packed, 3)


def test_the_limit_of_lines_is_that_of_all_files(tmp_path: Path) -> None:
    results, _ = search(tmp_path, max_lines=3, max_files=10)
    line_counts = {path: len(result.matches.lines) for path, result in results.items()}
    assert line_counts == {"a.py": 1, "c.py": 1, "d.py": 1, "e.py": 0}
    assert results["d.py"].matches.count == 2


def search_contents(
    root: Path, contents: dict[str, bytes], *, max_file_bytes: int
) -> dict[str, SearchedFile]:
    """Search files for `x`; return the results by path."""
    for name, content in contents.items():
        (root / name).write_bytes(content)
    paths = tuple(contents)
    task = GrepTask(bytes(root), LinePattern("x"), LineOptions(9), max_file_bytes, 9, paths)
    _, result = unpack_response(open_handler()(task.to_bytes()), len(paths))
    return {paths[file.number]: file for file in result.files}


def test_files_of_any_size_up_to_the_limit_are_read_to_their_end(tmp_path: Path) -> None:
    limit = 3 << 16
    sizes = (1, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, limit - 1, limit, limit + 1)
    contents = {str(size): b"\n" * (size - 1) + b"x" for size in sizes}
    results = search_contents(tmp_path, contents, max_file_bytes=limit)
    assert results.pop(str(limit + 1)).problem == f"it is larger than {limit:,} bytes"
    lines = {path: [line.number for line in file.matches.lines] for path, file in results.items()}
    assert lines == {str(size): [size] for size in sizes[:-1]}
    small = search_contents(tmp_path, {"9": b"x" * 9, "10": b"x" * 10}, max_file_bytes=9)
    assert [file.problem for file in small.values()] == ["", "it is larger than 9 bytes"]


def test_matches_in_a_file_that_is_no_longer_text_are_not_shown(tmp_path: Path) -> None:
    contents = {"a": b"x\0", "b": b"y\0", "c": b"x\n"}
    results = search_contents(tmp_path, contents, max_file_bytes=100)
    problems = {path: file.problem for path, file in results.items()}
    assert problems == {"a": "it is no longer text", "c": ""}


def test_what_is_no_regular_file_is_gone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/zero")
    paths = ("pipe", "folder", "device", "none")
    task = GrepTask(bytes(tmp_path), LinePattern("x"), LineOptions(9), 100, 9, paths)
    error, result = unpack_response(open_handler()(task.to_bytes()), len(paths))
    assert (error, result.files, result.more_files) == ("", (), 0)
