"""Settings of an index that shape its rows, as they were when the rows were made: what differs is
made anew, by file.

Beside the identity (embedder, chunker, header), which shapes every row, there are settings that
shape the rows of some files only. They are kept with the index, so that a change is seen whenever
it was made. Files that are affected lose their fingerprint, in the transaction that takes down the
new settings: from then on they count as not read, a crash notwithstanding, and the old rows go on
answering until each is replaced.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg.types.json import Jsonb

from cocosearchd.model import IndexIdentity, IndexRecord
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.migrate import registered_indexes, schema_change
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.index_records import identity_values, require_index

NO_LIMIT = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class AffectedFiles:
    """Which files have to be read again: those for which any of this is true."""

    everything: bool = False
    languages: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()  # reasons
    larger_than: int = NO_LIMIT  # bytes
    containing: str = ""  # a text in one of their chunks


async def invalidate(
    db: Database,
    record: IndexRecord,
    identity: IndexIdentity,
    made_with: Mapping[str, str],
    affected: AffectedFiles,
) -> tuple[IndexRecord, int]:
    """Take down what rows are made with from now on; the index then, and how many files will be
    read again.

    The embedder of `identity` must be that of the index: its rows stay. Nobody may be writing files
    under the old settings meanwhile. Raises `NotFound`.
    """
    assert identity.embedder == record.identity.embedder, "vectors of two embedders never mix"
    number = {"number": record.number}
    values = {
        "everything": affected.everything or identity != record.identity,
        "languages": list(affected.languages),
        "skipped": list(affected.skipped),
        "larger_than": affected.larger_than,
        "holding": affected.containing,
    }
    async with schema_change(db) as connection:
        await require_index(connection, record)
        cursor = await connection.execute(statement("clear_fingerprints", record), values)
        if identity != record.identity:
            await connection.execute(
                statement("set_chunker"), identity_values(record.dimension, identity) | number
            )
        await connection.execute(
            statement("set_made_with"), {"made_with": Jsonb(dict(made_with))} | number
        )
        (changed,) = await registered_indexes(connection, record.name)
    return changed, cursor.rowcount
