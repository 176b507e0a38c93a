"""Invalidates files whose rows change under new settings.

The identity (embedder, chunker, header) shapes every row; other settings shape the rows of some
files only. The values of those settings are stored with the index, so that a change is noticed
whenever it was made. In the transaction that stores new values, the affected files lose their
fingerprint, except for the device, and the digest of the rules that made their rows: from then on
they count as not read, even after a crash, whatever CocoIndex remembers of them, and their old rows
answer until each is replaced. Writes by the old values are refused from then on.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg.types.json import Jsonb

from cocosearchd.model import IndexIdentity, IndexRecord
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.migrate import registered_indexes, schema_change
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.index_records import identity_values, require_index
from cocosearchd.store.reads.text_scan import files_containing

NO_LIMIT = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class AffectedFiles:
    """The files to be read again: those that match any of the fields."""

    everything: bool = False
    languages: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()  # skip reasons
    larger_than: int = NO_LIMIT  # bytes
    containing: str = ""  # a text that one of their chunks contains


async def invalidate(
    db: Database,
    record: IndexRecord,
    identity: IndexIdentity,
    shaping_settings: Mapping[str, str],
    affected: AffectedFiles,
) -> tuple[IndexRecord, int]:
    """Store new settings that shape rows; return the index and the number of files to read again.

    The embedder of `identity` must be that of the index: its rows stay. It waits for writes that
    are under way, so that none by the old settings comes after it. Raises `NotFound`.
    """
    assert identity.embedder == record.identity.embedder, "vectors of two embedders never mix"
    values = {
        "everything": affected.everything or identity != record.identity,
        "languages": list(affected.languages),
        "skipped": list(affected.skipped),
        "larger_than": affected.larger_than,
    }
    async with schema_change(db) as connection:
        await require_index(connection, record)
        await connection.execute(statement("lock_words", record))
        containing = affected.containing
        values["filenames"] = (
            await files_containing(connection, record, containing) if containing else []
        )
        cursor = await connection.execute(statement("clear_fingerprints", record), values)
        # Also if `record` has it: the registry may have another, of a change whose answer was lost.
        await connection.execute(
            statement("set_chunker", record), identity_values(record.dimension, identity)
        )
        await connection.execute(
            statement("set_shaping_settings", record),
            {"shaping_settings": Jsonb(dict(shaping_settings))},
        )
        (changed,) = await registered_indexes(connection, record.name)
    return changed, cursor.rowcount
