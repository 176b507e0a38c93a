"""Symbol filters in memory select what PostgreSQL selects, after any order of changes"""

import gc
import random
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import IndexRecord, Symbol
from cocosearchd.search.lexical.analysis.documents import ChunkText, FileText, make_document
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.lexical.scoring.symbol_filter import SymbolMasks, match_symbols
from cocosearchd.search.lexical.segments.segment import SegmentView, build_segment
from cocosearchd.search.lexical.segments.segment_merge import QUIET, compact
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose
from cocosearchd.store.filter_sql import filter_sql
from tests.search.lexical.direct import DirectAnalyser
from tests.store.support import file_write, new_index, unpack_rows

KINDS = ("function", "class", "method", "type")
NAMES = (
    "find",
    "Users.find_one",
    "Users.Find",
    "a/b#find",
    "find_all.inner",
    "Über",
    "x+y",
    "größe",
)
GLOBS = (
    None,
    "find*",
    "FIND",
    "*find*",
    "*.f*",
    "über",
    "x+y",
    "?ind",
    "[fg]*",
    "*",
    "GRÖSSE",
    "gr?ße",
)


@pytest.mark.anyio
async def test_memory_says_what_the_store_says(db: Database, tmp_path: Path) -> None:
    record = await new_index(db)
    dice = random.Random(11)
    for number in range(40):
        await write(db, record, f"{number}.py", dice)
        if number == 20:
            await forget_symbols(db, record)
    await write(db, record, "3.py", dice)
    index = LexicalIndex(db, record, tmp_path, DirectAnalyser())
    await index.catch_up()
    state = index._snapshot
    assert state is not None
    kinds: tuple[str, ...]
    for kinds in ((), ("function",), ("class", "method"), ("nothing",)):
        for glob in GLOBS:
            if kinds or glob:
                where = Filter(symbol_types=kinds, symbol_name=glob)
                assert in_memory(state, where) == await in_store(db, record, where), where


async def write(db: Database, record: IndexRecord, path: str, dice: random.Random) -> None:
    merges = file_write(
        path,
        *(
            f"{dice.choice(('find: x', 'text'))} {dice.random()}"
            for _ in range(dice.randrange(1, 4))
        ),
    )
    chunks = tuple(
        replace(chunk, symbols=tuple(symbol(dice) for _ in range(dice.randrange(3))))
        for chunk in merges.chunks
    )
    await replace_file(db, record, replace(merges, chunks=chunks, content_hash=dice.randbytes(16)))


def symbol(dice: random.Random) -> Symbol:
    name = dice.choice(NAMES)
    return Symbol(dice.choice(KINDS), name.rpartition(".")[2], name, "", None, 0, 1, 1, 1)


async def forget_symbols(db: Database, record: IndexRecord) -> None:
    """Clear the columns of symbols, as in rows that were written before these existed."""
    await unpack_rows(db, record)  # those rows have their texts in columns
    name = sql.Identifier(f"codeindex_{record.slug}__{record.slug}_chunks")
    async with db.connection() as connection:
        await connection.execute(
            sql.SQL("update {} set symbol_kinds = null, symbol_names = null").format(name)
        )


def in_memory(state: IndexSnapshot, where: Filter) -> list[tuple[str, int]]:
    result = []
    for part in state.views:
        paths = part.segment.path_list()
        segment = part.segment
        alive = (
            np.ones(segment.chunk_count, np.bool_)
            if part.alive_chunks is None
            else part.alive_chunks
        )
        chunks = np.flatnonzero(
            match_symbols(segment, where.symbol_types, where.symbol_name) & alive
        )
        result += [
            (paths[segment.chunk_files[chunk]], int(segment.keys[chunk, 0])) for chunk in chunks
        ]
    return sorted(result)


async def in_store(db: Database, record: IndexRecord, where: Filter) -> list[tuple[str, int]]:
    condition, values = filter_sql(where)
    text = "select c.filename, p.start from (select * from {chunks} where {filter}) as c, {place}"
    query = compose(text, record, filter=condition)
    async with db.connection() as connection:
        return sorted(await (await connection.execute(query, values)).fetchall())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_symbols_of_merged_parts_are_those_of_their_files(seed: int) -> None:
    dice = random.Random(seed)
    terms = TermCache()
    files = [random_file(f"{number}.py", dice) for number in range(8)]
    merges = [
        SegmentView(
            build_segment([make_document(file, terms) for file in files[start : start + 2]])
        )
        for start in range(0, 8, 2)
    ]
    dead = [(part, file) for part in range(4) for file in range(2) if dice.random() < 0.3]
    parts = [
        part.with_deleted([file for second, file in dead if second == n])
        for n, part in enumerate(merges)
    ]
    living = [file for number, file in enumerate(files) if (number // 2, number % 2) not in dead]
    for kinds, name in (
        ((), "Users.*"),
        (("class",), None),
        (("class", "method"), "find"),
        (("nothing",), None),
    ):
        result = [
            (
                part.segment.path_list()[part.segment.chunk_files[chunk]],
                int(part.segment.keys[chunk, 0]),
            )
            for part in compact(parts, QUIET)
            for chunk in np.flatnonzero(match_symbols(part.segment, kinds, name))
            if part.alive is None or part.alive[part.segment.chunk_files[chunk]]
        ]
        assert sorted(result) == [
            (file.path, chunk.start_byte)
            for file in living
            for chunk in file.chunks
            if any(
                (not kinds or kind in kinds) and matches(local, name)
                for kind, local in chunk.symbols
            )
        ]


def matches(symbols: str, glob: str | None) -> bool:
    return {
        None: True,
        "Users.*": symbols.startswith("Users."),
        "find": symbols.lower().endswith("find"),
    }[glob]


def random_file(path: str, dice: random.Random) -> FileText:
    chunks = tuple(
        ChunkText(
            10 * n,
            10 * n + 9,
            "x",
            symbols=tuple((dice.choice(KINDS), dice.choice(NAMES[:3])) for _ in range(2)),
        )
        for n in range(3)
    )
    return FileText(path, 1, "python", chunks, np.zeros((3, 0), np.float32))


def test_masks_are_kept_as_long_as_their_segment() -> None:
    segment = build_segment([make_document(random_file("a.py", random.Random(1)), TermCache())])
    masks = SymbolMasks()
    first = masks.mask(segment, ("class",), None)
    assert masks.mask(segment, ("class",), None) is first
    for number in range(20):
        masks.mask(segment, (), f"name{number}")
    again = masks.mask(segment, ("class",), None)
    assert again is not first
    assert np.array_equal(again, first)
    gone = weakref.ref(segment)
    del segment
    gc.collect()
    assert gone() is None
