"""Lists of files, contents of one file, and related chunks."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.errors import InvalidInput, NotFound
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.search.answers.disk_files import VerifiedFiles
from cocosearchd.search.answers.file_content import (
    GAP,
    FileContent,
    assemble_lines,
    fit_content,
    get_file,
)
from cocosearchd.search.answers.file_listing import list_files
from cocosearchd.search.answers.related import find_related
from cocosearchd.store import index_records
from cocosearchd.store.chunks.rows import StoredChunk
from cocosearchd.store.connection.database import Database
from tests.search.corpus import Corpus, new_corpus

pytestmark = pytest.mark.anyio

FILES = {
    "src/a.py": "def read_file(path):\n    return open(path).read()\n",
    "src/b.py": "def read_lines(path):\n    return open(path).readlines()\n",
    "src/sub/c.go": "package sub\n\nfunc Add(a int, b int) int {\n\treturn a + b\n}\n",
    "docs/x.md": "# Title\n\nText.\n",
    "srcs.py": "x = 1\n",
}


@pytest.fixture(scope="module")
async def shared(module_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return await new_corpus(module_db, tmp_path_factory.mktemp("root"), FILES)


@pytest.fixture
async def corpus(db: Database, tmp_path: Path) -> Corpus:
    return await new_corpus(db, tmp_path / "root", FILES)


@pytest.mark.parametrize(
    ("under", "pattern", "paths"),
    [
        ("", None, ["docs/x.md", "src/a.py", "src/b.py", "src/sub/c.go", "srcs.py"]),
        ("src", None, ["src/a.py", "src/b.py", "src/sub/c.go"]),
        ("./src/", "*.py", ["src/a.py", "src/b.py"]),
        ("", "*.go", ["src/sub/c.go"]),
        ("", "src/*.py", ["src/a.py", "src/b.py"]),
        ("nothing", None, []),
        ("src/a.py", None, ["src/a.py"]),
    ],
)
async def test_files_are_listed(
    shared: Corpus, under: str, pattern: str | None, paths: list[str]
) -> None:
    page = await list_files(shared.db, [shared.record], under=under, pattern=pattern)
    assert [entry.path for entry in page.files] == paths
    assert page.cursor is None


async def test_a_list_goes_on_where_it_stopped(shared: Corpus, tmp_path: Path) -> None:
    records = [shared.record, replace(shared.record, name="again:1")]
    pages = []
    cursor = None
    while True:
        page = await list_files(shared.db, records, limit=3, cursor=cursor)
        pages += [(entry.index, entry.path) for entry in page.files]
        cursor = page.cursor
        if cursor is None:
            break
        assert len(page.files) == 3
    assert pages == sorted((record.name, path) for record in records for path in FILES)


async def test_a_page_of_a_list_fits_its_budget_and_the_list_goes_on(shared: Corpus) -> None:
    paths = list[str]()
    cursor: str | None = None
    pages = 0
    while True:
        page = await list_files(shared.db, [shared.record], cursor=cursor, budget_tokens=20)
        assert page.total == len(FILES)
        assert sum(estimate_tokens(f"{file.path} {file.language}") for file in page.files) <= 20
        paths += [file.path for file in page.files]
        pages += 1
        cursor = page.cursor
        if cursor is None:
            break
    assert paths == sorted(FILES)
    assert pages > 1
    least = await list_files(shared.db, [shared.record], budget_tokens=1)
    assert len(least.files) == 1
    with pytest.raises(InvalidInput, match="the budget is 0 tokens"):
        await list_files(shared.db, [shared.record], budget_tokens=0)


def file_content(text: str, first_line: int = 1) -> FileContent:
    last_line = first_line + text.removesuffix("\n").count("\n")
    return FileContent("it", "a.py", "python", text, first_line, last_line, last_line, "disk")


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("budget", [5, 60, 300])
def test_pages_of_a_file_fit_their_budget_and_make_the_whole(budget: int, end: str) -> None:
    lines = [f"{number} = {'x' * (number % 7)}" for number in range(100)]
    lines[40:45] = ["", "", "\t", "", ""]
    text = "\n".join(lines) + end
    rest = file_content(text)
    pages = list[str]()
    while True:
        page = fit_content(rest, budget)
        assert estimate_tokens(page.content) <= budget * 1.05  # each line is rounded
        pages.append(page.content)
        if page == rest:
            break
        assert page.last_line == page.first_line + page.content.count("\n") - 1
        rest = file_content(
            "".join(text.splitlines(keepends=True)[page.last_line :]), page.last_line + 1
        )
    assert "".join(pages) == text
    assert len(pages) > 1


@pytest.mark.parametrize("text", ["x y " * 100_000, " " * 400_000, "x y " * 100_000 + "\nlast\n"])
def test_a_line_longer_than_a_page_is_cut(text: str) -> None:
    page = fit_content(file_content(text), 100)
    assert (page.first_line, page.last_line) == (1, 1)
    assert page.content.endswith("...")
    assert estimate_tokens(page.content) <= 100
    assert len(page.content) > 100


@pytest.mark.parametrize(
    ("cursor", "paths"),
    [
        (["a", "zzz"], sorted(FILES)),  # an index before this one
        (["code", "src/a.py"], ["src/b.py", "src/sub/c.go", "srcs.py"]),
        (["code", "src/aa.py"], ["src/b.py", "src/sub/c.go", "srcs.py"]),  # a file that is gone
        (["code", "srcs.py"], []),
        (["zzz", ""], []),
    ],
)
async def test_a_page_begins_after_its_cursor_and_counts_all_files(
    shared: Corpus, cursor: list[str], paths: list[str]
) -> None:
    page = await list_files(shared.db, [shared.record], cursor=json.dumps(cursor))
    assert ([entry.path for entry in page.files], page.total) == (paths, len(FILES))


async def test_a_page_reads_no_more_rows_than_it_shows(shared: Corpus) -> None:
    """The rows of other files stay in PostgreSQL, which counts them."""
    files, count = await index_records.file_page(
        shared.db, shared.record, Filter(), under="", skipped=False, after="src/a.py", limit=2
    )
    assert ([file.path for file in files], count) == (["src/b.py", "src/sub/c.go"], len(FILES))


async def test_an_invalid_pattern_is_refused(shared: Corpus) -> None:
    with pytest.raises(InvalidInput):
        await list_files(shared.db, [shared.record], pattern="[z-a]")


async def test_skipped_files_are_listed_on_request(corpus: Corpus) -> None:
    await corpus.index("big.bin", b"\0", skip="binary")
    assert "big.bin" not in [
        entry.path for entry in (await list_files(corpus.db, [corpus.record])).files
    ]
    every = await list_files(corpus.db, [corpus.record], skipped=True)
    assert {entry.path: entry.skipped for entry in every.files}["big.bin"] == "binary"


async def test_wrong_cursors_and_limits_are_refused(shared: Corpus) -> None:
    for cursor in ("nonsense", "[1, 2]", "{}", '["a"]', "3"):
        with pytest.raises(InvalidInput):
            await list_files(shared.db, [shared.record], cursor=cursor)
    with pytest.raises(InvalidInput):
        await list_files(shared.db, [shared.record], limit=0)


async def test_a_file_is_given_as_it_is_on_disk(shared: Corpus) -> None:
    file = await get_file(shared.db, [shared.record], "./src/a.py", VerifiedFiles())
    assert file.content == FILES["src/a.py"]
    assert (file.source, file.language, file.first_line, file.last_line, file.lines) == (
        "disk",
        "python",
        1,
        2,
        2,
    )


@pytest.mark.parametrize(
    ("first", "last", "content", "line_range"),
    [(2, 3, "\nfunc Add(a int, b int) int {", (2, 3)), (5, 99, "}", (5, 5)), (9, None, "", (9, 8))],
)
async def test_lines_of_a_file(
    shared: Corpus, first: int, last: int | None, content: str, line_range: tuple[int, int]
) -> None:
    file = await get_file(
        shared.db,
        [shared.record],
        "src/sub/c.go",
        VerifiedFiles(),
        first_line=first,
        last_line=last,
    )
    assert file.content == content
    assert (file.first_line, file.last_line) == line_range


@pytest.mark.parametrize(("first", "last"), [(0, None), (3, 2)])
async def test_wrong_lines_are_refused(shared: Corpus, first: int, last: int | None) -> None:
    with pytest.raises(InvalidInput):
        await get_file(
            shared.db,
            [shared.record],
            "src/a.py",
            VerifiedFiles(),
            first_line=first,
            last_line=last,
        )


@pytest.mark.parametrize("change", ["edited", "deleted", "link"])
async def test_a_file_that_is_no_longer_as_indexed_comes_from_the_index(
    corpus: Corpus, change: str
) -> None:
    file_path = corpus.root / "src/sub/c.go"
    if change == "edited":
        file_path.write_text("other\n")
    else:
        file_path.unlink()
    if change == "link":
        outside = corpus.root.parent / "secret"
        outside.write_text("secret\n")
        file_path.symlink_to(outside)
    file = await get_file(corpus.db, [corpus.record], "src/sub/c.go", VerifiedFiles())
    assert file.source == "index"
    assert file.content == FILES["src/sub/c.go"].removesuffix("\n")
    assert file.lines == 5


async def test_blank_lines_that_no_chunk_has_keep_their_place(corpus: Corpus) -> None:
    body = "\n".join(f"    value_{n} = {n}  # {'x' * 60}" for n in range(30))
    text = "".join(f"def f{n}():\n{body}\n\n\n" for n in range(3))
    await corpus.save("gaps.py", text)
    corpus.root.joinpath("gaps.py").unlink()
    file = await get_file(corpus.db, [corpus.record], "gaps.py", VerifiedFiles())
    lines = file.content.split("\n")
    expected = text.rstrip("\n").split("\n")
    assert len(lines) == len(expected)
    assert all(
        line == line_of_file or not line_of_file
        for line, line_of_file in zip(lines, expected, strict=True)
    )


@given(st.text("ab \n", max_size=60), st.integers(1, 20), st.integers(0, 10))
def test_overlaps_of_chunks_are_taken_once(text: str, size: int, overlap: int) -> None:
    data = text.encode()
    chunks = []
    for start in range(0, len(data), size):
        begin = max(0, start - overlap)
        end = min(len(data), start + size)
        content = data[begin:end].decode()
        first = data.count(b"\n", 0, begin) + 1
        last = first + content.count("\n")
        chunks.append(StoredChunk(begin, end, first, last, content, "", (), None, None))
    assert assemble_lines(chunks) == (text.removesuffix("\n").split("\n") if text else [])


@pytest.mark.parametrize(
    "text",
    [
        "let all = [" + ", ".join(f"'word{n}'" for n in range(2000)) + "]",
        "# Titel\r\n\r\nZwei Sätze. "
        + " ".join(["Eine lange Zeile, die höher hinaus will."] * 400)
        + "\r\nEnde.",
    ],
    ids=["a line of many chunks", "ends of Windows"],
)
async def test_a_line_that_is_cut_is_put_together_again(corpus: Corpus, text: str) -> None:
    await corpus.save("long.md", text)
    corpus.root.joinpath("long.md").unlink()
    file = await get_file(corpus.db, [corpus.record], "long.md", VerifiedFiles())
    assert file.content.split("\n") == [line.replace("\r", "") or GAP for line in text.split("\n")]


async def test_only_indexed_files_are_given(corpus: Corpus) -> None:
    (corpus.root / "new.py").write_text("x")
    for path in ("new.py", "../root/src/a.py", "/etc/passwd", ""):
        with pytest.raises(NotFound):
            await get_file(corpus.db, [corpus.record], path, VerifiedFiles())


async def test_a_path_in_several_indexes_is_told(corpus: Corpus, tmp_path: Path) -> None:
    second_corpus = await new_corpus(
        corpus.db, tmp_path / "other", {"src/a.py": "x = 1\n"}, name="other"
    )
    with pytest.raises(InvalidInput, match="code, other"):
        await get_file(
            corpus.db, [corpus.record, second_corpus.record], "src/a.py", VerifiedFiles()
        )
    file = await get_file(
        corpus.db, [corpus.record, second_corpus.record], "src/b.py", VerifiedFiles()
    )
    assert file.index == "code"


async def test_what_is_like_a_place(shared: Corpus) -> None:
    hits = await find_related(shared.db, shared.record, "src/a.py", 2)
    assert hits[0].path == "src/b.py"
    assert "src/a.py" not in [hit.path for hit in hits]
    assert len({hit.path for hit in hits}) == len(hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len(await find_related(shared.db, shared.record, "src/a.py", 2, limit=1)) == 1


async def test_nothing_is_like_what_is_not_indexed(shared: Corpus) -> None:
    with pytest.raises(NotFound):
        await find_related(shared.db, shared.record, "nothing.py", 1)


async def test_a_line_below_the_file_has_nothing_like_it(corpus: Corpus) -> None:
    await corpus.save(
        "lines.py",
        "import os\n\n\ndef first():\n    return 1\n\n\ndef last():\n    return os.sep\n",
    )
    with pytest.raises(InvalidInput, match=r"lines.py has no text at line 99, only up to line 9"):
        await find_related(corpus.db, corpus.record, "lines.py", 99)
    for line in (3, 9):  # a blank one belongs to what is above it
        assert await find_related(corpus.db, corpus.record, "lines.py", line)


async def test_a_whole_file_keeps_its_ends_of_lines(corpus: Corpus) -> None:
    data = b"def a():\r\n    pass\r\n\r\n\r\ndef b():\r\n    pass"
    (corpus.root / "crlf.py").write_bytes(data)
    await corpus.index("crlf.py", data)
    assert (
        await get_file(corpus.db, [corpus.record], "crlf.py", VerifiedFiles())
    ).content == data.decode()
    part = await get_file(
        corpus.db, [corpus.record], "crlf.py", VerifiedFiles(), first_line=1, last_line=2
    )
    assert part.content == "def a():\n    pass"


async def test_a_skipped_file_is_no_empty_file(corpus: Corpus) -> None:
    await corpus.index("photo.py", b"\0\1", skip="binary")
    with pytest.raises(NotFound, match="it is no text"):
        await get_file(corpus.db, [corpus.record], "photo.py", VerifiedFiles())
