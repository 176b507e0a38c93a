"""What an index in memory is made of, as it is read."""

from dataclasses import replace

import numpy as np
import pytest

from cocosearchd.settings import DatabaseSettings
from cocosearchd.store.pool import Database
from cocosearchd.store.queries import file_chunks, replace_file
from cocosearchd.store.rows import StoredChunk
from cocosearchd.store.texts import FileTexts, file_texts
from tests.store.support import DIMENSION, file_write, new_index

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("paths", "files"),
    [(None, 72), (["src/c.py", "src/empty.py", "gone.py"], 1), ([f"src/{n}.py" for n in range(100)], 70)],
)
async def test_texts_are_those_of_the_chunks(db: Database, paths: list[str] | None, files: int) -> None:
    record = await new_index(db)
    vague = file_write("src/b.py", "one: 1", "x\0", "ünï: é")
    vague.vectors[1] = 0
    await replace_file(db, record, vague)
    await replace_file(db, record, replace(file_write("src/c.py", "def: 1"), language="go"))
    await replace_file(db, record, file_write("src/empty.py"))
    for number in range(70):
        await replace_file(db, record, file_write(f"src/{number}.py", f"name: {number}", "rest"))
    found = [file async for file in file_texts(db, record, paths, batch=7)]
    wanted = [file async for file in file_chunks(db, record, paths) if file.chunks]
    assert [(f.path, f.generation, f.language) for f in found] == [(f.path, f.generation, f.language) for f in wanted]
    assert len(found) == files
    for file, chunks in zip(found, wanted, strict=True):
        rows = [
            (c.start_byte, c.end_byte, c.start_line, c.content, list(c.definitions), c.header, *symbols(c))
            for c in chunks.chunks
        ]
        assert list(file.chunks) == rows
        assert file.vectors.dtype == np.float32
        nothing = np.zeros(DIMENSION, np.float16)
        vectors = [nothing if c.vector is None else c.vector for c in chunks.chunks]
        assert np.array_equal(file.vectors, np.array(vectors).astype(np.float32))


def symbols(chunk: StoredChunk) -> tuple[list[str], list[str]]:
    return ([chunk.symbol_type], [chunk.symbol_name]) if chunk.symbol_type and chunk.symbol_name else ([], [])


async def test_few_files_need_no_connection_while_they_are_looked_at(dsn: str) -> None:
    async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=1), checkout_timeout_s=5) as db:
        record = await new_index(db)
        for path in ("a.py", "b.py"):
            await replace_file(db, record, file_write(path, "text"))
        seen = list[FileTexts]()
        async for file in file_texts(db, record, ["a.py", "b.py"]):
            seen.append(file)
            await replace_file(db, record, file_write("b.py", "other"))
        assert seen[1].chunks[0][3] == "text"
