"""Laws of chunks, on real and on random files, and the text of headers and labels."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.pipeline.chunker import (
    HARD_CAP,
    HEADER_NAMES,
    ChunkLimits,
    chunk_file,
    chunk_keywords,
    chunker_id,
    describe_chunks,
)
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.language_table import languages
from cocosearchd.languages.parse import parse
from cocosearchd.model import Chunk

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "tests" / "languages" / "cases" / "source"
FILES = {
    path.relative_to(SOURCE).as_posix(): path.read_bytes()
    for path in SOURCE.rglob("*")
    if path.is_file()
}
OURS = {
    path.relative_to(ROOT).as_posix(): path.read_bytes()
    for path in sorted((ROOT / "daemon").rglob("*.py"))[:25]
}
EXTENSIONS = [info.extensions[0] for info in languages()]


def checked(path: str, data: bytes, limits: ChunkLimits | None = None) -> tuple[Chunk, ...]:
    """The chunks of a file, after all that must hold of them."""
    limits = limits or chunker_limits(IndexingSettings())
    parsed = parse(path, data)
    chunks = chunk_file(parsed, limits)
    assert chunks == chunk_file(parse(path, data), limits)
    covered_end = 0
    for chunk in chunks:
        assert covered_end <= chunk.start_byte < chunk.end_byte <= len(data)
        assert not data[covered_end : chunk.start_byte].strip()
        covered_end = chunk.end_byte
        assert chunk.end_byte - chunk.start_byte <= HARD_CAP * limits.chunk_size
        assert chunk.text == data[chunk.start_byte : chunk.end_byte].decode("utf-8", "replace")
        assert chunk.text.strip()
        assert chunk.start_line == data.count(b"\n", 0, chunk.start_byte) + 1
        assert chunk.end_line == data.count(b"\n", 0, chunk.end_byte - 1) + 1
        assert chunk.header.startswith(path[:50])
        assert "\n" not in chunk.header
        assert chunk.language == parsed.language
        assert all(
            chunk.start_byte <= symbol.start_byte < chunk.end_byte for symbol in chunk.symbols
        )
        if chunk.symbol_name is not None:
            chunk_name = next(
                symbol for symbol in parsed.symbols if symbol.qualified_name == chunk.symbol_name
            )
            assert chunk_name.end_byte > chunk.start_byte or len(parsed.symbols) > 1
    assert not data[covered_end:].strip()
    starting = [symbol for chunk in chunks for symbol in chunk.symbols]
    assert starting == list(parsed.symbols)
    return chunks


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("size", [1000, 200, 40])
def test_cases_hold(path: str, size: int) -> None:
    checked(path, FILES[path], chunker_limits(IndexingSettings(chunk_size=size)))


@pytest.mark.parametrize("path", OURS)
def test_our_own_files_hold(path: str) -> None:
    chunks = checked(path, OURS[path])
    assert max(chunk.end_byte - chunk.start_byte for chunk in chunks) <= 1500


@given(st.sampled_from(EXTENSIONS), st.binary(max_size=600), st.integers(1, 200))
def test_random_bytes_hold(extension: str, data: bytes, size: int) -> None:
    parsed = parse(f"a{extension}", data)
    chunks = chunk_file(parsed, chunker_limits(IndexingSettings(chunk_size=size)))
    covered_end = 0
    for chunk in chunks:
        assert not data[covered_end : chunk.start_byte].strip()
        assert chunk.end_byte - chunk.start_byte <= max(8, HARD_CAP * size)
        covered_end = chunk.end_byte
    assert not data[covered_end:].strip()


LINES = st.lists(
    st.sampled_from(
        [
            "def f(x):",
            "    return x",
            "",
            "class A:",
            "    def m(self):",
            "        pass",
            "ä = 'ö€😀'",
            "\tx",
            "# note",
            "}",
            "a" * 90,
        ]
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(
    LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.booleans(), st.integers(40, 300)
)
def test_lines_of_any_kind_hold(
    lines: list[str], end: str, bom: bool, final: bool, size: int
) -> None:
    text = end.join(lines) + (end if final else "")
    data = b"\xef\xbb\xbf" * bom + text.encode()
    for chunk in checked("a.py", data, chunker_limits(IndexingSettings(chunk_size=size))):
        assert "\ufffd" not in chunk.text  # nothing was cut inside of a character
        assert not chunk.text.startswith("\n")
        assert not chunk.text.endswith(("\r", "\n"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n  \n\t\r\n",
        b"x",
        b"\xef\xbb\xbfx = 1",
        b"a\0b\n\0\n",
        b"\xff\xfe invalid \xc3\n" * 80,
        b"no final newline\n" * 100 + b"end",
        b"one\r\ntwo\r\n" * 300,
        "€".encode() * 3000,
        b"x" * 50_000,
        b"word " * 20_000,
        b"\n" * 100_000 + b"x",
    ],
)
@pytest.mark.parametrize("path", ["a.py", "a.txt", "a.md", "a.yaml", "Dockerfile"])
def test_odd_files_hold(path: str, data: bytes) -> None:
    checked(path, data)


def test_a_long_line_is_cut_between_words_and_characters() -> None:
    words = chunk_file(
        parse("a.txt", b"word " * 1000), chunker_limits(IndexingSettings(chunk_size=100))
    )
    assert all(set(chunk.text.split()) == {"word"} for chunk in words)
    euros = chunk_file(
        parse("a.txt", "€".encode() * 1000), chunker_limits(IndexingSettings(chunk_size=100))
    )
    assert all(set(chunk.text) == {"€"} for chunk in euros)


def test_definitions_have_chunks_of_their_own() -> None:
    chunks = {
        chunk.symbol_name: chunk
        for chunk in checked("app/user_service.py", FILES["app/user_service.py"])
    }
    method = chunks["UserService.get_user"]
    assert (method.symbol_type, method.definitions) == ("method", ("get_user",))
    assert method.symbol_signature == "def get_user(self, user_id: int) -> User | None"
    assert method.header == "app/user_service.py UserService get_user"
    assert method.text.lstrip().startswith(
        "# Looked up on every request.\n    @functools.lru_cache"
    )
    assert "get user by" not in chunk_keywords(method)
    assert "get user get_user" in chunk_keywords(method)
    assert chunks["UserService"].text.startswith("class UserService")
    assert chunks["UserService.parse"].definitions == ("parse", "pair")


def test_a_long_function_is_cut_between_statements_and_keeps_its_name() -> None:
    body = "".join(f"    if step == {n}:\n        run({n})\n        log({n})\n" for n in range(80))
    chunks = checked(
        "a.py", f"import os\n\n\nclass Big:\n    pass\n\n\ndef long(step):\n{body}".encode()
    )
    parts = [chunk for chunk in chunks if chunk.symbol_name == "long"]
    assert len(parts) > 3
    assert all(chunk.header == "a.py long" for chunk in parts)
    assert all(chunk.text.startswith(("def long", "    if step")) for chunk in parts)
    assert all(250 <= chunk.end_byte - chunk.start_byte <= 1500 for chunk in parts)


def test_statements_are_packed_up_to_the_aim() -> None:
    chunks = checked("a.py", b"".join(b"value_%d = compute(%d)\n" % (n, n) for n in range(400)))
    sizes = [chunk.end_byte - chunk.start_byte for chunk in chunks]
    assert all(700 <= size <= 1500 for size in sizes)


def test_headers_name_what_is_around_and_inside() -> None:
    data = (
        b"class Outer:\n    class Inner:\n        def run(self):\n" + b"            x = 1\n" * 150
    )
    last = checked("a/b.py", data)[-1]
    assert last.header == "a/b.py Inner run"
    many = b"interface Many {\n" + b"".join(b"  m%d(): void;\n" % n for n in range(20)) + b"}\n"
    assert checked("m.ts", many)[0].header.split() == [
        "m.ts",
        "Many",
        *(f"m{n}" for n in range(HEADER_NAMES - 1)),
    ]


def test_go_methods_name_their_receiver() -> None:
    headers = [chunk.header for chunk in checked("srv/server.go", FILES["srv/server.go"])]
    assert "srv/server.go Server Start" in headers


def test_blocks_label_chunks() -> None:
    chunks = {chunk.hierarchy: chunk for chunk in checked("ops/main.tf", FILES["ops/main.tf"])}
    bucket = chunks["resource.aws_s3_bucket.pictures"]
    assert (bucket.block_type, bucket.symbol_type, bucket.language) == (
        "resource",
        "resource",
        "hcl",
    )
    assert bucket.text.startswith("# Where the pictures are.\nresource")
    jobs = [
        chunk.hierarchy
        for chunk in checked(".github/workflows/ci.yml", FILES[".github/workflows/ci.yml"])
    ]
    assert jobs[-1] == "job:test"


def test_a_long_job_is_cut_at_its_steps() -> None:
    steps = "".join(
        f"      - name: Step {n}\n        run: |\n" + f"          echo {n}\n" * 20 for n in range(9)
    )
    data = f"jobs:\n  build:\n    runs-on: x\n    steps:\n{steps}".encode()
    chunks = checked(".github/workflows/ci.yml", data)
    assert len(chunks) > 2
    assert all(chunk.hierarchy.startswith("job:build") for chunk in chunks)
    assert chunks[-1].hierarchy.startswith("job:build/step:Step ")
    assert all(chunk.text.lstrip().startswith(("jobs:", "- name:")) for chunk in chunks)


def test_describe_takes_any_ranges() -> None:
    parsed = parse("a.py", b"def f():\n    return 1\n\n\ndef g():\n    return 2\n")
    first, second = describe_chunks(parsed, [(0, 30), (4, 45)])  # they may overlap
    assert (first.symbol_name, first.start_line, first.end_line) == ("f", 1, 5)
    assert (second.start_line, second.end_line, second.definitions) == (1, 6, ("g",))


def test_identities() -> None:
    """Indexes that exist have the first one, whatever the default of the size is now."""
    assert chunker_id(ChunkLimits("definitions", 1000, 300)) == "definitions-1"
    assert chunker_id(ChunkLimits("definitions", 500, 300)) == "definitions-1:500"
    assert chunker_id(ChunkLimits("recursive", 1000, 300)) == "recursive-1:1000/300"
    without_overlap = ChunkLimits("definitions", 1000, 0)
    assert chunker_id(without_overlap) == "definitions-1"


def test_deep_nesting_and_many_members_take_bounded_time() -> None:
    nested = b"".join(b" " * n + b"def f%d():\n" % n for n in range(300)) + b" " * 300 + b"pass\n"
    checked("deep.py", nested)
    wide = b"class Wide:\n" + b"".join(
        b"    def m%d(self):\n        return %d\n\n" % (n, n) for n in range(3000)
    )
    assert len(checked("wide.py", wide)) == 3001
    stairs = b"".join(b" " * (n % 120) + b"x\n" for n in range(5000))
    checked("stairs.txt", stairs)
