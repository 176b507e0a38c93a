"""Contents of files from their chunks: the same bytes, or the same lines."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.pipeline.chunker import chunk_file
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.parse import parse
from cocosearchd.model import hash_content
from cocosearchd.search.answers.stored_contents import StoredContents, assemble_contents
from cocosearchd.store.following.stored_texts import PlacedText, StoredTexts

ROOT = Path(__file__).parents[3]


def stored_content(name: str, data: bytes) -> StoredContents:
    """The content of a file as the rows of its chunks give it."""
    chunks = chunk_file(parse(name, data), chunker_limits(IndexingSettings()))
    texts = (
        PlacedText(chunk.start_byte, chunk.end_byte, chunk.start_line, chunk.text)
        for chunk in chunks
    )
    return assemble_contents(StoredTexts(name, hash_content(data), tuple(texts)))


def test_files_of_this_project_are_stored_to_the_byte() -> None:
    files = [*(ROOT / "daemon").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    inexact = [
        path.name for path in files if not stored_content(path.name, path.read_bytes()).is_exact
    ]
    assert len(files) > 300
    assert not inexact


@pytest.mark.parametrize(
    "data",
    [
        b"def a():\r\n    return 1\r\n\r\n\r\ndef b():\r\n    return 2\r\n",
        b"def a():\n    return 1",
        b"def a():\n    return 1\n    \n\ndef b():\n    return 2\n",
        b"\n\n\nx = 1\n",
    ],
)
def test_usual_blanks_are_exact(data: bytes) -> None:
    content = stored_content("a.py", data)
    assert content.is_exact
    assert content.contents.data == data


def test_other_blanks_keep_every_byte_and_line_at_its_place() -> None:
    data = b"a = 1  \t \n\t\n \n" * 3 + b"def b():\n\t\n    return 2 \t\n" * 400
    content = stored_content("a.py", data)
    assert content.has_places
    assert content.contents.data.split() == data.split()
    for line in (1, 4, 500, 1200):
        assert (
            content.contents.lines(line, line)[0].split()
            == data.decode().split("\n")[line - 1].split()
        )


@given(st.lists(st.sampled_from(["x = 1", "", "  ", "\t", "def f():", "    y = 'é'"]), max_size=60))
def test_lines_are_at_their_places(lines: list[str]) -> None:
    data = "\n".join(lines).encode()
    contents = stored_content("a.py", data).contents
    for number, line in enumerate(lines, 1):
        if line.strip():
            assert contents.lines(number, number)[0].split() == line.split()


def test_a_file_that_is_not_utf_8_has_its_lines() -> None:
    data = b"first = 1\nname = '\xe9t\xe9'\n\n\nlast = 2\n"
    content = stored_content("a.py", data)
    assert not content.is_exact
    assert not content.has_places
    assert content.contents.lines(1, 5) == [
        "first = 1",
        "name = '\ufffdt\ufffd'",
        "",
        "",
        "last = 2",
    ]
