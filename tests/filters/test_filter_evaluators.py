"""A filter means the same in PostgreSQL, in masks, in overlays and in explanations."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.filters.filter_fields import FILTER_FIELDS, Filter, active_fields, select_fields
from cocosearchd.model import IndexRecord, Symbol
from cocosearchd.search.answers.disk_files import FileContents
from cocosearchd.search.answers.why_not import blocking_filters
from cocosearchd.search.code.file_masks import file_mask
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.lexical.scoring.symbol_filter import match_symbols
from cocosearchd.search.overlay import Overlay, OverlayFile
from cocosearchd.store.chunks.file_writer import replace_files
from cocosearchd.store.chunks.rows import FileWrite
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose
from cocosearchd.store.reads.text_scan import resolve_filter
from tests.search.lexical.direct import DirectAnalyser
from tests.store.support import file_write, new_index

Chunks = set[tuple[str, int]]  # path, first byte

INDEXES = count()
PATHS = ("a.py", "src/a.py", "src/b/[x].go", "src/B.ts", "vendor/src/c.py", "dö/é.md")
LANGUAGES = ("python", "go", "markdown")
GLOBS = ("*.py", "src/**", "/src/", "**/b/*", "[a-b].py", "SRC", "?.ts", r"\[x\].go", "é.md", "*")
KINDS = ("function", "class", "data")
NAMES = (
    *("find", "Users.find_one", "a/b#Find", "größe", "x+y"),
    *("_find", "Users.__find__", "_Users._x", "data.find.logs", "data.", "__"),
)
NAME_GLOBS = (
    *("find*", "FIND", "*.f*", "x+y", "gr?ße", "[fg]*", "*", "Users"),
    *("_find*", "Users.find*", "_*", "find.logs", "?ind*"),
)
WORDS = ("open", "File", "100%", "x_y", "\\", "cafe\u0301", "caf\u00e9", "'q'", " ", "\t")

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
symbols = st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(NAMES)), max_size=3)
chunks = st.lists(st.tuples(texts, symbols), min_size=1, max_size=3)
files = st.dictionaries(
    st.sampled_from(PATHS), st.tuples(st.sampled_from(LANGUAGES), chunks), min_size=1
)


def listed(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.just(()) | st.lists(st.sampled_from(values), min_size=1, max_size=2).map(tuple)


FIELD_VALUES: Mapping[str, st.SearchStrategy[object]] = {
    "languages": listed(LANGUAGES),
    "paths": listed(GLOBS),
    "not_paths": listed(GLOBS),
    "symbol_types": listed(KINDS),
    "symbol_name": st.none() | st.sampled_from(NAME_GLOBS),
    "phrases": st.just(()) | st.lists(texts, min_size=1, max_size=2).map(tuple),
}
filters = st.builds(Filter, **FIELD_VALUES)


def test_every_field_is_compared() -> None:
    assert set(FIELD_VALUES) == {field.name for field in FILTER_FIELDS}


@pytest.mark.timeout(300)
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(files=files, wheres=st.lists(filters, min_size=10, max_size=20))
def test_all_evaluators_agree(
    dsn: str,
    tmp_path: Path,
    files: dict[str, tuple[str, list[tuple[str, list[tuple[str, str]]]]]],
    wheres: list[Filter],
) -> None:
    writes = [write_of(path, language, texts) for path, (language, texts) in files.items()]
    asyncio.run(compare(dsn, tmp_path, writes, wheres))


def write_of(path: str, language: str, texts: list[tuple[str, list[tuple[str, str]]]]) -> FileWrite:
    write = file_write(path, *(text for text, _ in texts), language=language)
    chunks = tuple(
        replace(chunk, symbols=tuple(symbol(kind, name) for kind, name in pairs))
        for chunk, (_, pairs) in zip(write.chunks, texts, strict=True)
    )
    return replace(write, chunks=chunks)


def symbol(kind: str, name: str) -> Symbol:
    return Symbol(kind, name, name, "", None, 0, 1, 1, 1)


async def compare(dsn: str, tmp_path: Path, writes: list[FileWrite], wheres: list[Filter]) -> None:
    number = next(INDEXES)
    async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=2)) as db:
        record = await new_index(db, f"filtered {number}", b"/filtered/%d" % number)
        await replace_files(db, record, writes)
        lexical = LexicalIndex(db, record, tmp_path / str(number), DirectAnalyser())
        await lexical.catch_up()
        snapshot = await lexical.snapshot(None)
        assert snapshot is not None
        overlay = Overlay({write.path: overlay_file(write) for write in writes}, "")
        for where in wheres:
            passing = await in_store(db, record, where)
            event(f"passing: {min(len(passing), 3)}")
            assert in_overlay(overlay, where) == passing, where
            without_phrases = select_fields(
                where, (row for row in active_fields(where) if row.name != "phrases")
            )
            assert in_memory(snapshot, without_phrases) == await in_store(
                db, record, without_phrases
            ), where
            for write in writes:
                blocking = await blocking_filters(db, record, where, write.path)
                passes = any(path == write.path for path, _ in passing)
                assert (not blocking) is passes, (where, write.path)


def overlay_file(write: FileWrite) -> OverlayFile:
    contents = FileContents(write.content_hash, b"")
    vectors = write.vectors.astype(np.float32)
    return OverlayFile(write.path, contents, write.language, write.chunks, vectors)


async def in_store(db: Database, record: IndexRecord, where: Filter) -> Chunks:
    text = "select c.filename, p.start from (select * from {chunks} where {filter}) as c, {place}"
    async with db.connection() as connection:
        condition, values = await resolve_filter(connection, record, where)
        cursor = await connection.execute(compose(text, record, filter=condition), values)
        return set(await cursor.fetchall())


def in_overlay(overlay: Overlay, where: Filter) -> Chunks:
    return {(row.path, row.start_byte) for row, _ in overlay.matching_chunks(where)}


def in_memory(snapshot: IndexSnapshot, where: Filter) -> Chunks:
    living = snapshot.live_documents
    mask = file_mask(where, living)
    passing = {path for n, path in enumerate(living.paths) if mask is None or mask[n]}
    matching: Chunks = set()
    for view in snapshot.views:
        segment = view.segment
        paths = segment.path_list()
        marked = (
            match_symbols(segment, where.symbol_types, where.symbol_name)
            if where.has_symbols
            else np.ones(segment.chunk_count, np.bool_)
        )
        matching |= {
            (paths[segment.chunk_files[chunk]], int(segment.keys[chunk, 0]))
            for chunk in np.flatnonzero(marked)
        }
    return {(path, start) for path, start in matching if path in passing}
