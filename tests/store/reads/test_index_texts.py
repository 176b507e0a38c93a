"""Reads of the contents of an index in memory."""

from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.chunks.rows import StoredChunk
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose
from cocosearchd.store.reads.chunk_reads import file_chunks
from cocosearchd.store.reads.index_texts import (
    FileDigest,
    FileTexts,
    file_digests,
    file_texts,
    file_vectors,
)
from tests.store.support import DIMENSION, file_write, new_index

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("paths", "files"),
    [
        (None, 72),
        (["src/c.py", "src/empty.py", "gone.py"], 1),
        ([f"src/{n}.py" for n in range(100)], 70),
    ],
)
async def test_texts_are_those_of_the_chunks(
    db: Database, paths: list[str] | None, files: int
) -> None:
    record = await new_index(db)
    vague = file_write("src/b.py", "one: 1", "x\0", "ünï: é")
    vague.vectors[1] = 0
    await replace_file(db, record, vague)
    await replace_file(db, record, replace(file_write("src/c.py", "def: 1"), language="go"))
    await replace_file(db, record, file_write("src/empty.py"))
    for number in range(70):
        await replace_file(db, record, file_write(f"src/{number}.py", f"name: {number}", "rest"))
    file_list = [file async for file in file_texts(db, record, paths, batch=7)]
    expected = [file async for file in file_chunks(db, record, paths) if file.chunks]
    assert [(f.path, f.generation, f.language) for f in file_list] == [
        (f.path, f.generation, f.language) for f in expected
    ]
    assert len(file_list) == files
    for file, chunks in zip(file_list, expected, strict=True):
        rows = [
            (
                c.start_byte,
                c.end_byte,
                c.content,
                list(c.definitions),
                c.header,
                *symbols(c),
            )
            for c in chunks.chunks
        ]
        assert list(file.chunks) == rows
        assert file.vectors.dtype == np.float32
        nothing = np.zeros(DIMENSION, np.float16)
        vectors = [nothing if c.vector is None else c.vector for c in chunks.chunks]
        assert np.array_equal(file.vectors, np.array(vectors).astype(np.float32))


def symbols(chunk: StoredChunk) -> tuple[list[str], list[str]]:
    return (
        ([chunk.symbol_type], [chunk.symbol_name])
        if chunk.symbol_type and chunk.symbol_name
        else ([], [])
    )


async def test_vectors_are_those_of_the_texts(db: Database) -> None:
    record = await new_index(db)
    vague = file_write("src/b.py", "one: 1", "two: 2", "three: 3")
    vague.vectors[1] = 0
    await replace_file(db, record, vague)
    await replace_file(db, record, file_write("src/a.py", "four: 4", "five: 5"))
    await replace_file(db, record, file_write("src/empty.py"))
    changed = file_write("src/a.py", "four: 4")
    await replace_file(db, record, changed)
    paths = ["src/b.py", "src/a.py", "src/empty.py", "gone.py"]
    files = sorted(await file_vectors(db, record, paths), key=attrgetter("path"))
    expected = [file async for file in file_texts(db, record, None)]
    assert [(f.path, f.generation) for f in files] == [(f.path, f.generation) for f in expected]
    for file, texts in zip(files, expected, strict=True):
        assert np.array_equal(file.vectors, texts.vectors)
    assert not files[1].vectors[1].any()


async def test_a_file_that_has_lost_its_rows_has_no_vectors(db: Database) -> None:
    record = await new_index(db)
    for path in ("a.py", "b.py"):
        await replace_file(db, record, file_write(path, "text"))
    async with db.connection() as connection:
        await connection.execute(compose("delete from {chunks} where filename = 'a.py'", record))
    assert [file.path for file in await file_vectors(db, record, ["a.py", "b.py"])] == ["b.py"]


async def test_few_files_need_no_connection_while_they_are_looked_at(dsn: str) -> None:
    async with Database.open(
        dsn, DatabaseSettings(pool_min=1, pool_max=1), checkout_timeout_s=5
    ) as db:
        record = await new_index(db)
        for path in ("a.py", "b.py"):
            await replace_file(db, record, file_write(path, "text"))
        paths_read = list[FileTexts]()
        async for file in file_texts(db, record, ["a.py", "b.py"]):
            paths_read.append(file)
            await replace_file(db, record, file_write("b.py", "other"))
        assert paths_read[1].chunks[0][2] == "text"


async def test_a_digest_tells_files_apart_that_are_not_the_same(db: Database) -> None:
    record = await new_index(db)
    same = file_write("a.py", "one: 1", "two: 2")
    first, second = same.chunks
    blank = replace(same, vectors=np.array([same.vectors[0], np.zeros(DIMENSION)], np.float32))
    shifted = replace(second, start_byte=second.start_byte + 1, end_byte=second.end_byte + 1)
    lower = replace(second, start_line=second.start_line + 1, end_line=second.end_line + 1)
    digests = list[int]()
    for chunks in (
        same.chunks,
        (first, shifted),
        (first, lower),
        (first, replace(second, header="another")),
        (first, replace(second, text="two: 3")),
        (first, replace(second, definitions=())),
        (first,),
        (replace(first, text=second.text), replace(second, text=first.text)),
        same.chunks,
    ):
        await replace_file(
            db, record, replace(same, chunks=chunks, vectors=same.vectors[: len(chunks)])
        )
        digests.append(await digest_of(db, record, "a.py"))
    assert digests[0] == digests[-1]
    assert len(set(digests)) == len(digests) - 1
    await replace_file(db, record, replace(blank, path="b.py", chunks=same.chunks))
    await replace_file(db, record, replace(same, path="c.py"))
    assert await digest_of(db, record, "b.py") != digests[0] == await digest_of(db, record, "c.py")


async def digest_of(db: Database, record: IndexRecord, path: str) -> int:
    """A digest is the same by itself and with the texts."""
    (file,) = [file async for file in file_texts(db, record, [path])]
    (digest,) = [digest async for digest in file_texts(db, record, None) if digest.path == path]
    file_list = await file_digests(db, record, [path, "gone.py"])
    assert file_list == [FileDigest(path, file.generation, file.language, file.digest)]
    assert digest.digest == file.digest
    return file.digest
