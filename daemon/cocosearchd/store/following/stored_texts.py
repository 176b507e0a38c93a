"""Reads the stored texts of files: their chunks by position, without anything else."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.packed_texts import unpack_content
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import statement


class PlacedText(NamedTuple):
    """The text of a chunk and its place: bytes half-open, lines from 1."""

    start_byte: int
    end_byte: int
    start_line: int
    text: str


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """The chunks of a file by position, and the hash of the content that they come from."""

    path: str
    content_hash: bytes
    chunks: tuple[PlacedText, ...]


async def stored_texts(
    db: Database, record: IndexRecord, paths: Sequence[str]
) -> list[StoredTexts]:
    """Read files that have chunks, by path, all as of one moment."""
    async with db.connection() as connection, connection.cursor(binary=True) as cursor:
        await cursor.execute(statement("stored_texts", record), {"filenames": list(paths)})
        rows = await cursor.fetchall()
    return [
        StoredTexts(
            path,
            content_hash,
            tuple(_placed_text(path, *row[2:]) for row in file_rows),
        )
        for (path, content_hash), file_rows in groupby(rows, itemgetter(0, 1))
    ]


def _placed_text(path: str, start: int, end: int, line: int, packed: bytes) -> PlacedText:
    return PlacedText(start, end, line, unpack_content(path, packed))
