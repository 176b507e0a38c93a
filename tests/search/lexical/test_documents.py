"""Term counts of files equal those of the plain count; threads share one table of words"""

import gc
import random
import threading
import weakref
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.languages.patterns.comments import extract_comments
from cocosearchd.search.lexical.analysis import term_table
from cocosearchd.search.lexical.analysis.chunk_terms import ChunkTermCache, TermChunk, _size
from cocosearchd.search.lexical.analysis.documents import (
    ChunkText,
    FileText,
    make_document,
    make_documents,
)
from cocosearchd.search.lexical.analysis.term_table import LINE_END, TEXT_START, WordTable
from cocosearchd.search.lexical.analysis.terms import TermCache, term_hash
from cocosearchd.search.lexical.segments.segment import Segment, build_segment
from tests.search.lexical.plain_document import plain_document

PIECES = (
    "def ", "class ", "struct", "const", "macro_rules! ", "#define ", "type\t", "data", "pub(crate) ", "@app.get('/') ",
    "func (m *Mux) ", "HTTPServer2", "snake_case", "_x1", "café", "ſpdx", "ﬁle", "日本語", "7", "42", "a1b", "½",
    "\u0301", "route", "Router", "x", " ", " ", "  ", "    ", "\t", "\n", "\n", "\n", "\r\n", "\f", "\0", "(", ")",
    "<T>", "*", "{", "}", "=", "::", ".", "#", "// ", "# ", '"""', "'''", "/* ", " */", "--", "--[[", "]]", "{-", "-}",
    "\n=begin ", "\n=end ", "Copyright 2020 ", "LICENCE ", "=>",
)  # fmt: skip
LANGUAGES = (
    "python",
    "ruby",
    "c",
    "java",
    "typescript",
    "lua",
    "haskell",
    "bash",
    "php",
    "zig",
    "markdown",
    "elixir",
)
PATHS = (
    "src/HTTPServer/route_group.py",
    "a.b/café.test.ts",
    "src/main.",
    "x/y/z/w/deep_file.c",
    "a/.hidden",
)
NAMES = st.lists(st.sampled_from(("Router", "a::b", "Router.route", "x")), max_size=2).map(tuple)

SYMBOLS = st.lists(
    st.sampled_from((("class", "Router"), ("method", "Router.route"))), max_size=2
).map(tuple)
CALLED = ("", "Router", "HTTPServer2 a::b  get")


@st.composite
def file_texts(draw: st.DrawFn) -> FileText:
    chunks = list[ChunkText]()
    start = 0
    for _ in range(draw(st.integers(1, 4))):
        text = "".join(draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=60)))
        size = len(text.encode())
        chunks.append(
            ChunkText(
                start,
                start + size,
                text,
                draw(NAMES),
                draw(st.sampled_from(CALLED)),
                draw(SYMBOLS),
            )
        )
        start += size - draw(st.integers(0, min(3, size - 1)))
    vectors = np.random.default_rng(start).standard_normal((len(chunks), 8)).astype(np.float32)
    vectors[draw(st.integers(0, len(chunks))) :] = 0
    return FileText(
        draw(st.sampled_from(PATHS)), 3, draw(st.sampled_from(LANGUAGES)), tuple(chunks), vectors
    )


def assert_same(actual: Segment, expected: Segment) -> None:
    for column in fields(Segment):
        array = getattr(actual, column.name)
        expected_array = getattr(expected, column.name)
        assert array.dtype == expected_array.dtype, column.name
        assert np.array_equal(array, expected_array), column.name


@settings(max_examples=60, deadline=None)
@given(st.lists(file_texts(), min_size=1, max_size=3))
def test_files_are_counted_as_one_would_count_them(files: list[FileText]) -> None:
    terms = TermCache()
    plainly = TermCache()
    expected = build_segment([plain_document(file, plainly) for file in files], 8)
    assert_same(build_segment(list(make_documents(files, terms)), 8), expected)
    # neither do the others matter
    assert_same(build_segment([make_document(file, terms) for file in files], 8), expected)


@settings(max_examples=40, deadline=None)
@given(st.lists(file_texts(), min_size=2, max_size=3), st.integers(0, 10**6))
def test_chunks_that_are_known_are_counted_as_ever(files: list[FileText], seed: int) -> None:
    """Cached chunks count the same in another order, under other paths and in another language."""
    random_ = random.Random(seed)
    terms = TermCache()
    list(make_documents(files, terms))
    pool = [chunk for file in files for chunk in file.chunks]
    mixed = []
    for file in files:
        chunks = list[ChunkText]()
        start = 0
        for chunk in random_.choices(pool, k=3):
            size = chunk.end_byte - chunk.start_byte
            chunks.append(replace(chunk, start_byte=start, end_byte=start + size))
            start += size - random_.choice((0, 0, 1))
        language = random_.choice((file.language, random_.choice(LANGUAGES)))
        vectors = np.zeros((len(chunks), 8), np.float32)
        mixed.append(FileText(f"moved/{file.path}", 4, language, tuple(chunks), vectors))
    expected = build_segment([plain_document(file, TermCache()) for file in mixed], 8)
    assert_same(build_segment(list(make_documents(mixed, terms)), 8), expected)


def test_comments_of_a_whole_file_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[str]()

    def counted(text: str, language: str) -> str:
        read.append(text)
        return extract_comments(text, language)

    monkeypatch.setattr("cocosearchd.search.lexical.analysis.chunk_terms.extract_comments", counted)
    memory = ChunkTermCache(table())
    parts = ['"""begins here\n', 'and ends """ # wombat']
    first = memory.comment_words("python", parts)
    assert memory.comment_words("python", list(parts)).tolist() == first.tolist()
    assert read == ["\n".join(parts)]
    assert first.tolist() != memory.comment_words("python", parts[::-1]).tolist()
    assert first.tolist() != memory.comment_words("lua", parts).tolist()


def test_no_more_chunks_are_kept_than_there_is_room_for() -> None:
    memory = ChunkTermCache(table(), limit_bytes=3000)
    chunks = [
        TermChunk(f"name_{number} = 1", f"name_{number} = 1", "python", ()) for number in range(20)
    ]
    first = memory.read(chunks[:4])
    assert all(
        terms_of_chunk is second
        for terms_of_chunk, second in zip(memory.read(chunks[:4]), first, strict=True)
    )
    assert len(memory.read(chunks)) == 20
    assert memory._bytes == sum(map(_size, memory._entries.values())) <= 3000
    again = [memory.read([chunk])[0] for chunk in chunks[:4]]
    assert again == first
    for number in range(20, 400):
        memory.read([TermChunk(f"name_{number} = 1", f"name_{number} = 1", "python", ())])
        assert memory._bytes <= 3000
    assert all(
        terms_of_chunk is not second
        for terms_of_chunk, second in zip(memory.read(chunks[:4]), first, strict=True)
    )


def test_coming_by_a_few_too_many_chunks_finds_most_of_them() -> None:
    """Chunks are read repeatedly in one order, as after switches between branches.

    If the oldest went first, the cache would have none of them.
    """
    chunks = [
        TermChunk(f"name_{number} = 1", f"name_{number} = 1", "python", ())
        for number in range(1100)
    ]
    memory = ChunkTermCache(table(), limit_bytes=1 << 30)
    memory.read(chunks[:1000])
    memory = ChunkTermCache(table(), limit_bytes=memory._bytes)
    result = 0
    for turn in range(6):
        for chunk in chunks:
            earlier = memory._entries.get(hash(chunk))
            result += turn > 0 and earlier is not None
            memory.read([chunk])
    assert result > 0.5 * 5 * len(chunks)


def test_a_word_that_occurs_too_often_for_its_column_is_clipped() -> None:
    chunk = ChunkText(0, 1, "# " + "word " * 70_000)
    file = FileText("a.py", 1, "python", (chunk,), np.zeros((1, 0), np.float32))
    assert_same(
        build_segment([make_document(file, TermCache())]),
        build_segment([plain_document(file, TermCache())]),
    )


def test_no_files_are_no_documents() -> None:
    assert list(make_documents([], TermCache())) == []


def words_of(table: WordTable, *texts: str) -> list[int]:
    return list(map(int, table.numbers(texts)))


def table() -> WordTable:
    return WordTable(TermCache().split_texts, term_hash, ("class",))


def test_lines_and_texts_are_told_apart() -> None:
    words = table()
    first = words.number("first")
    second = words.number("second")
    assert words_of(words, "first\nclass", "", "second\n") == [
        *(TEXT_START, first, LINE_END, words.number("class")),
        *(TEXT_START, TEXT_START, second, LINE_END),
    ]
    assert words.number("class") < words.marks <= first


def test_a_word_has_the_terms_of_its_text() -> None:
    words = table()
    numbers, sizes = words.terms(words.numbers(["HTTPServer ½ 7 route\n"]))
    expected = ["httpserver", "http", "server", "rout"]
    assert words.hashes(numbers).tolist() == [term_hash(term) for term in expected]
    assert sizes.tolist() == [0, 3, 0, 0, 1, 0]


def test_threads_meet_words_at_the_same_time() -> None:
    words = table()
    result = dict[int, list[int]]()
    texts = [
        " ".join(random.Random(n).choices([f"word{i}Part" for i in range(3000)], k=2000))
        for n in range(4)
    ]
    begin = threading.Barrier(len(texts))

    def count(number: int) -> None:
        begin.wait()
        first = [words.number(word) for word in texts[number].split()]
        terms, _ = words.terms(np.array(first))
        result[number] = words.hashes(terms).tolist()

    threads = [threading.Thread(target=count, args=(number,)) for number in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    terms = TermCache()
    assert all(
        result[n] == [term_hash(term) for term in terms.split_text(text)]
        for n, text in enumerate(texts)
    )


def test_a_table_that_gave_way_is_gone_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table, the largest object of an index, is freed when it is replaced or cleared."""
    terms = TermCache()
    first = weakref.ref(terms.chunk_cache().table)
    assert words_of(terms.chunk_cache().table, "some words")
    monkeypatch.setattr(term_table, "LIMIT_WORDS", 0)
    gc.disable()
    try:
        second = weakref.ref(terms.chunk_cache().table)
        assert (first(), second() is None) == (None, False)
        del terms
        assert second() is None
    finally:
        gc.enable()


def test_a_table_that_is_full_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = TermCache()
    memory = terms.chunk_cache()
    first = memory.table
    assert terms.chunk_cache() is memory
    monkeypatch.setattr(term_table, "LIMIT_WORDS", len(first) + 2)  # as many as a test can have
    first.number("one more")
    assert terms.chunk_cache() is memory
    first.number("and the last")
    assert (
        terms.chunk_cache().table is not first
    )  # nor are chunks kept by numbers that mean others now
    assert terms.chunk_cache() is not memory
    long = WordTable(lambda texts: [()] * len(texts), term_hash, ())
    long.number("x" * (33 << 20))  # data without blanks
    assert long.full
