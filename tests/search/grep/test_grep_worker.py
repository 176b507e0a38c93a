"""The worker of grep: limits that hold over the files of a task."""

from pathlib import Path

from cocosearchd.model import hash_content
from cocosearchd.search.grep.grep_messages import (
    FileTask,
    GrepTask,
    SearchedFile,
    unpack_response,
)
from cocosearchd.search.grep.grep_worker import open_handler
from cocosearchd.search.grep.line_pattern import LinePattern
from cocosearchd.search.grep.matching_lines import LineOptions

CONTENTS = {
    "a.py": b"x = 1\ny = 2\n",
    "b.py": b"nothing\n",
    "c.py": b"x = 3\n",
    "d.py": b"x = 4\nx = 5\n",
    "e.py": b"x = 6\n",
}


def search(root: Path, *, max_lines: int, max_files: int) -> dict[str, SearchedFile]:
    """Search the files of CONTENTS for `x`; the results by path."""
    for name, content in CONTENTS.items():
        (root / name).write_bytes(content)
    paths = list(CONTENTS)
    task = GrepTask(
        root=bytes(root),
        pattern=LinePattern("x"),
        options=LineOptions(max_lines),
        max_file_bytes=1000,
        max_files=max_files,
        files=tuple(FileTask(path, wants_bloom=path == "e.py") for path in paths),
    )
    error, results = unpack_response(open_handler()(task.to_bytes()), len(paths))
    assert not error
    return {paths[result.number]: result for result in results}


def test_all_files_are_counted_and_the_first_ones_are_hashed(tmp_path: Path) -> None:
    results = search(tmp_path, max_lines=0, max_files=2)
    assert {path: result.matches.count for path, result in results.items()} == {
        "a.py": 1,
        "c.py": 1,
        "d.py": 2,
        "e.py": 1,
    }
    hashes = {path: result.content_hash for path, result in results.items()}
    # a Bloom filter is stored with the hash of its content
    expected = {path: hash_content(CONTENTS[path]) for path in ("a.py", "c.py", "e.py")}
    assert hashes == expected | {"d.py": b""}


def test_the_limit_of_lines_is_that_of_all_files(tmp_path: Path) -> None:
    results = search(tmp_path, max_lines=3, max_files=10)
    line_counts = {path: len(result.matches.lines) for path, result in results.items()}
    assert line_counts == {"a.py": 1, "c.py": 1, "d.py": 1, "e.py": 0}
    assert results["d.py"].matches.count == 2
