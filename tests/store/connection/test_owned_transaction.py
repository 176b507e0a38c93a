"""A daemon that no longer owns the registry writes nothing."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

import anyio
import pytest
from psycopg import sql

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.model import IndexRecord
from cocosearchd.store import index_records, index_roles, precise_use_rows
from cocosearchd.store.chunks.chunk_retention import drop_retained_chunks
from cocosearchd.store.chunks.file_writer import refresh_fingerprints, replace_files
from cocosearchd.store.chunks.vector_index import drop_vector_index, ensure_vector_index
from cocosearchd.store.connection import owned_transaction, statements
from cocosearchd.store.connection.database import Connection, Database
from cocosearchd.store.connection.migrate import migrate_registry
from cocosearchd.store.connection.owned_transaction import LockHeld, check_owner
from cocosearchd.store.connection.statements import (
    compose,
    is_write,
    named_statements,
    statement,
)
from cocosearchd.store.following.publications import publish, read_moment, set_host
from cocosearchd.store.invalidation import AffectedFiles, invalidate
from cocosearchd.store.lineage import note_timeline
from cocosearchd.store.words.words_table import drop_words, fill_words
from tests.store.support import IDENTITY, file_write, fingerprint, new_index, split_texts

pytestmark = pytest.mark.anyio
Write = Callable[[Database, IndexRecord], Coroutine[Any, Any, object]]

OTHER_IDENTITY = replace(IDENTITY, embedder=(("dimension", "8"), ("model", "other")))
# Statements that no transaction of a daemon without the registry can run, or need not.
EXCEPTIONS = {
    # of the embedded server, which has one daemon
    "make_daemon_role",
    # it makes the owner
    "claim_registry",
    # outside of transactions, after `check_owner`: answers do not depend on them
    "analyze",
    "analyze_words",
    "build_vector_index",
    "build_words_index",
    "drop_index",
    "drop_vector_index",
    "drop_words_index",
    "rebuild_vector_index",
    "truncate_words",
    "vacuum",
    # other steps of `replace_files`
    "copy_chunks",
    "delete_chunks",
    "delete_parses",
    "delete_retained_chunks",
    "insert_chunk",
    "insert_chunks",
    "set_fingerprints",
}


async def write_files(db: Database, record: IndexRecord) -> None:
    await replace_files(db, record, (file_write("a.py", "changed: 1"),), ("b.py",))


async def refresh(db: Database, record: IndexRecord) -> None:
    write = file_write("a.py", "one: 1")
    checked = [("a.py", write.content_hash, fingerprint(7))]
    await refresh_fingerprints(db, record, checked, b"")


async def change_settings(db: Database, record: IndexRecord) -> None:
    identity = replace(IDENTITY, chunker="definitions-2")
    await invalidate(db, record, identity, {"a": "b"}, AffectedFiles(everything=True))


async def promote(db: Database, record: IndexRecord) -> None:
    (replacement,) = await index_roles.list_indexes_by_role(db, index_roles.NEXT)
    await index_roles.promote_index(db, record, replacement)


async def drop_next(db: Database, record: IndexRecord) -> None:
    (replacement,) = await index_roles.list_indexes_by_role(db, index_roles.NEXT)
    assert replacement.root == record.root
    await index_records.drop_index(db, replacement)


async def import_uses(db: Database, record: IndexRecord, uses: bytes = b"new") -> None:
    content_hash = file_write("a.py", "one: 1").content_hash
    row = precise_use_rows.PreciseUseRow("a.py", content_hash, uses)
    await precise_use_rows.replace_precise_uses(db, record, (row,))


async def publish_now(db: Database, record: IndexRecord) -> None:
    await publish(db, record, await read_moment(db), None)


async def note_another_timeline(db: Database, _: IndexRecord) -> None:
    async with owned_transaction.write_transaction(db) as connection:
        await note_timeline(connection, "0000000A")
        await note_timeline(connection, "0000000B")


WRITES: Mapping[str, Write] = {
    "migrate": lambda db, _: migrate_registry(db),
    "create": lambda db, _: new_index(db, "other", b"/other"),
    "topics": lambda db, record: index_records.set_topics(db, record, ("late",)),
    "generation": lambda db, record: index_records.raise_generation(db, record, 99),
    "timeline": note_another_timeline,
    "import": import_uses,
    "forget import": precise_use_rows.delete_precise_uses,
    "fingerprints": refresh,
    "files": write_files,
    "retained": lambda db, record: drop_retained_chunks(db, record, age_s=-1.0),
    "publish": publish_now,
    "host": lambda db, _: set_host(db, "elsewhere"),
    "fill words": lambda db, record: fill_words(db, record, split_texts),
    "drop words": lambda db, record: drop_words(db, record, grace_s=0.0),
    "build": lambda db, record: ensure_vector_index(db, record, build_at=0, drop_below=0),
    "drop vectors": drop_vector_index,
    "settings": change_settings,
    "drop": drop_next,
    "next": lambda db, record: index_roles.ensure_next_index(db, record, 8, IDENTITY),
    "promote": promote,
}


@pytest.fixture
async def record(db: Database) -> IndexRecord:
    """An index with all kinds of rows, and with a next one."""
    record = await new_index(db)
    await replace_files(db, record, (file_write("a.py", "one: 1"),))
    await set_words_state(db, record, "filling")
    await replace_files(db, record, (file_write("b.py", "two: 2"), file_write("c.py", "c: 3")))
    await import_uses(db, record, b"old")
    await replace_files(db, record, (), ("c.py",))
    await index_roles.ensure_next_index(db, record, 8, OTHER_IDENTITY)
    return record


@pytest.fixture
async def stale_db(db: Database, dsn: str) -> AsyncIterator[Database]:
    """The database of a daemon that was the owner."""
    settings = DatabaseSettings(pool_min=1, pool_max=2)
    async with Database.open(dsn, settings, owner="cocosearchd-gone") as database:
        yield database


async def read_all(db: Database) -> dict[str, object]:
    """Read all rows of the daemon's tables, by table, and the names of its indexes."""
    relations = """
    select relname, relkind = 'r' from pg_class
    where relnamespace = to_regnamespace(quote_ident(current_schema())) and relkind in ('r', 'i')
    """
    state = dict[str, object]()
    async with db.connection() as connection:
        for name, is_table in await (await connection.execute(relations)).fetchall():
            state[name] = None
            if is_table:
                query = sql.SQL("select t::text from {} t order by 1").format(sql.Identifier(name))
                state[name] = await (await connection.execute(query)).fetchall()
    return state


async def test_no_write_of_another_daemon_is_committed(
    db: Database, stale_db: Database, record: IndexRecord
) -> None:
    for words in ("none", "filling"):
        await set_words_state(db, record, words)
        previous_state = await read_all(db)
        for name, write in WRITES.items():
            with pytest.raises(LockHeld):
                await write(stale_db, record)
            assert (name, await read_all(db)) == (name, previous_state)


async def test_the_same_writes_of_the_owner_are_committed(
    db: Database, record: IndexRecord
) -> None:
    for name, write in WRITES.items():
        previous_state = await read_all(db)
        await write(db, record)
        if name != "migrate":  # the tables are those of this version
            assert (name, await read_all(db)) != (name, previous_state)


@pytest.mark.parametrize("write", ["publish", "import"])
async def test_the_removal_of_an_index_comes_after_a_write_that_is_under_way(
    db: Database, dsn: str, record: IndexRecord, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """Both lock the row of the owner last. Else each may wait for the other."""
    name = "cocosearchd-here"
    async with db.connection() as connection:
        await connection.execute(statement("claim_registry"), {"owner": name})
    await publish_now(db, record)
    written = anyio.Event()

    async def check_late(connection: Connection, owner: str) -> None:
        if not written.is_set():
            written.set()
            await anyio.sleep(0.5)  # the removal comes to the rows that are written
        await check_owner(connection, owner)

    monkeypatch.setattr(owned_transaction, "check_owner", check_late)
    settings = DatabaseSettings(pool_min=2, pool_max=2)
    async with (
        Database.open(dsn, settings, owner=name) as owned_db,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(WRITES[write], owned_db, record)
        await written.wait()
        await index_records.drop_index(owned_db, record)
    assert record.number not in await index_records.index_numbers(db)


async def set_words_state(db: Database, record: IndexRecord, state: str) -> None:
    query = compose("update {indexes} set words = %s where number = {number}", record)
    async with db.connection() as connection:
        await connection.execute(query, (state,))


async def test_every_statement_that_writes_is_fenced(
    db: Database, stale_db: Database, record: IndexRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of writes above has all of them: a new statement needs a line there."""
    used = set[str]()

    class Recording(dict[str, str]):
        def __getitem__(self, name: str) -> str:
            used.add(name)
            return super().__getitem__(name)

    monkeypatch.setattr(statements, "named_statements", lambda: Recording(named_statements()))
    for words in ("none", "filling"):
        await set_words_state(db, record, words)
        statements._compose_cached.cache_clear()
        for write in WRITES.values():
            with pytest.raises(LockHeld):
                await write(stale_db, record)
    locks = {name for name in named_statements() if "lock" in name}
    writes = {name for name, text in named_statements().items() if is_write(text)}
    assert writes - used - locks <= EXCEPTIONS
