"""CocoIndex's splitter has unbounded parsers: text that would exceed our bounds is given to it as
plain text.
"""

import subprocess
import sys

import pytest

CODE = """
import sys
from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.indexing.pipeline import recursive_chunker
from cocosearchd.languages.parse import parse
data = sys.stdin.buffer.read()
ranges = recursive_chunker.chunk_ranges(parse(sys.argv[1], data), chunker_limits(IndexingSettings("recursive")))
print(ranges[-1][1] == len(data))
"""


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.yaml", "- " * 400 + "word"),
        ("a.md", "> " * 4_000 + "word"),
        ("a.yaml", "".join(f"{' ' * level}a:\n" for level in range(400)) + "word"),
    ],
)
def test_a_file_that_nests_without_end_ends_no_process(path: str, text: str) -> None:
    # In a process of its own: what is to be seen is whether it is there afterwards.
    run = subprocess.run(
        [sys.executable, "-c", CODE, path], input=text.encode(), capture_output=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, b"True\n")
