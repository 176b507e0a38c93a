"""Indexes, files and vectors for the tests of the store."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import Chunk, Fingerprint, IndexIdentity, IndexRecord, ParseReport
from cocosearchd.store.chunks.file_writer import replace_files, stored_files
from cocosearchd.store.chunks.manifest import build_manifest, compare_manifest, stored_chunk_order
from cocosearchd.store.chunks.packed_texts import unpack_content, unpack_texts
from cocosearchd.store.chunks.rows import Candidate, FileWrite
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose
from cocosearchd.store.index_records import create_index
from cocosearchd.store.words import keyword_search as keyword_search_

DIMENSION = 8
IDENTITY = IndexIdentity((("dimension", str(DIMENSION)), ("model", "test")), "definitions-1", 1)


async def new_index(
    db: Database, name: str = "code", root: bytes = b"/code", dimension: int = DIMENSION
) -> IndexRecord:
    return await create_index(db, name, root, ("work",), dimension, IDENTITY)


def vector_of(text: str, dimension: int = DIMENSION) -> NDArray[np.float32]:
    """A unit vector that depends on the text alone."""
    seed = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def fingerprint(number: int = 1) -> Fingerprint:
    return Fingerprint(
        1, number, 100 + number, 1_700_000_000_000_000_000, 1_700_000_000_000_000_001, 0o100644
    )


def chunks_of(
    path: str, *texts: str, language: str = "python", symbol_type: str | None = None
) -> tuple[Chunk, ...]:
    """One chunk per text, one after another, one line each; a text `name: rest` is the definition
    of `name`.
    """
    chunks, start = list[Chunk](), 0
    for line, text in enumerate(texts, 1):
        end = start + max(1, len(text.encode("utf-8", "surrogatepass")))
        name, is_symbol, _ = text.partition(":")
        chunk = Chunk(start, end, line, line, text, path, language)
        if is_symbol:
            kind = symbol_type or "function"
            chunk = replace(
                chunk,
                symbol_type=kind,
                symbol_name=name,
                symbol_signature=text,
                definitions=(name,),
            )
        chunks.append(chunk)
        start = end
    return tuple(chunks)


def words_of(chunk: Chunk) -> str:
    return split_words(f"{chunk.header} {chunk.text}")


def split_words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text))


async def split_texts(texts: Sequence[str]) -> list[str]:
    """Split texts of chunks as `words_of` does."""
    return [split_words(text) for text in texts]


async def keyword_search(
    db: Database,
    record: IndexRecord,
    text: str,
    where: Filter,
    limit: int,
    *,
    any_term: bool = False,
) -> tuple[Candidate, ...]:
    return await keyword_search_.keyword_search(
        db, record, text, where, limit, split_texts, any_term=any_term
    )


async def stored_words(db: Database, record: IndexRecord) -> dict[tuple[str, int], str]:
    """Return the stored words of an index, by path and chunk number."""
    query = compose("select filename, chunk_number, words::text from {words}", record)
    async with db.connection() as connection:
        fetched = await (await connection.execute(query)).fetchall()
    return {(path, number): words for path, number, words in fetched}


def file_write(
    path: str, *texts: str, language: str = "python", dimension: int = DIMENSION
) -> FileWrite:
    chunks = chunks_of(path, *texts, language=language)
    vectors = np.array([vector_of(text, dimension) for text in texts], np.float32).reshape(
        len(texts), dimension
    )
    content_hash = hashlib.blake2b(
        "".join(texts).encode("utf-8", "surrogatepass"), digest_size=16
    ).digest()
    return FileWrite(
        path,
        content_hash,
        fingerprint(),
        language,
        chunks,
        vectors,
        ParseReport("ok"),
        keywords=words_of,
    )


async def differing(
    db: Database, record: IndexRecord, writes: Sequence[FileWrite]
) -> list[FileWrite]:
    """Reduce writes, as bulk work does, to the chunks that are not stored."""
    result = list[FileWrite]()
    for write, stored in zip(
        writes, await stored_files(db, record, [item.path for item in writes]), strict=True
    ):
        order = stored_chunk_order(write.chunks)
        diff = compare_manifest(
            build_manifest(write.chunks, order), stored, write.content_hash, retain=True
        )
        numbers = [order[position] for position in diff.new]
        chunks, vectors = (
            tuple(write.chunks[number] for number in numbers),
            write.vectors[np.array(numbers, int)],
        )
        result.append(replace(write, chunks=chunks, vectors=vectors, diff=diff))
    return result


async def switch(db: Database, record: IndexRecord, *writes: FileWrite) -> int:
    """Write many files together; return the number of chunks that were built."""
    result = await differing(db, record, writes)
    await replace_files(db, record, result)
    return sum(len(write.chunks) for write in result)


async def rows(db: Database, record: IndexRecord) -> dict[tuple[str, str, bool], str]:
    """The transaction that wrote each row, by path, text, and whether the row is retained."""
    # A join, since a comparison of each row with an array of all would be quadratic.
    query = """
    select c.filename, {texts}, s.is_retained is not null, c.xmin::text
    from {chunks} c left join (
        select filename, unnest(chunk_numbers) as chunk_number, true as is_retained from {retained_chunks}
    ) s using (filename, chunk_number)
    """
    async with db.connection() as connection:
        fetched = await (await connection.execute(compose(query, record))).fetchall()
    return {
        (path, unpack_content(path, packed), retained): version
        for path, packed, retained, version in fetched
    }


async def stored_contents(
    db: Database, record: IndexRecord, condition: str
) -> list[tuple[str, int, str, str]]:
    """List path, chunk number, text and writing transaction of the rows that pass a condition."""
    text = f"select filename, chunk_number, {{texts}}, xmin::text from {{chunks}} where {condition}"
    async with db.connection() as connection:
        query = compose(f"{text} order by filename, chunk_number", record)
        fetched = await (await connection.execute(query)).fetchall()
    return [
        (path, number, unpack_content(path, packed), version)
        for path, number, packed, version in fetched
    ]


async def unpack_rows(db: Database, record: IndexRecord) -> None:
    """Rewrite all rows of chunks as versions before the packed texts wrote them."""
    read = compose("select filename, chunk_number, packed_texts from {chunks}", record)
    write = compose(
        """
        update {chunks} set packed_texts = null, header = %s, block_type = %s, hierarchy = %s,
            symbol_type = %s, symbol_name = %s, symbol_signature = %s, definitions = %s, content_text = %s
        where filename = %s and chunk_number = %s
        """,
        record,
    )
    async with db.connection() as connection, connection.transaction():
        for path, number, packed in await (await connection.execute(read)).fetchall():
            texts = unpack_texts(path, packed)
            await connection.execute(write, (*texts, path, number))


async def retained_texts(db: Database, record: IndexRecord) -> list[str]:
    return sorted(text for _, text, retained in await rows(db, record) if retained)
