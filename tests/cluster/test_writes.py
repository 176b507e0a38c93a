"""A write into a distributed schema is one transaction of its node: one BEGIN, one COMMIT.

The look at the owner of the registry, at its end, is a part of it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.model import Fingerprint, IndexRecord
from cocosearchd.store.chunks.chunk_retention import drop_retained_chunks
from cocosearchd.store.chunks.file_writer import delete_file, refresh_fingerprints, replace_file
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import statement
from cocosearchd.store.following.publications import publish, read_moment, set_host
from cocosearchd.store.index_records import raise_generation, set_topics
from cocosearchd.store.precise_use_rows import (
    PreciseUseRow,
    delete_precise_uses,
    replace_precise_uses,
)
from cocosearchd.store.words.words_table import fill_words
from tests.store.support import file_write, new_index, rows, split_texts, switch

Write = Callable[[Database, IndexRecord], Awaitable[object]]
A = file_write("a.py", "def send(): ...", "def close(): ...")
OWNER = "cocosearchd-here"


async def save(db: Database, record: IndexRecord) -> None:
    await replace_file(db, record, file_write("a.py", "def send(): pass", "def close(): ..."))


async def add_several(db: Database, record: IndexRecord) -> None:
    await switch(
        db, record, file_write("a.py", "x = 1"), *(file_write(f"{n}.py", f"{n}") for n in range(40))
    )


async def delete(db: Database, record: IndexRecord) -> None:
    await delete_file(db, record, "a.py")


async def touch(db: Database, record: IndexRecord) -> None:
    fingerprint = Fingerprint(1, 2, 3, 4, 5, 6)
    assert await refresh_fingerprints(db, record, [(A.path, A.content_hash, fingerprint)], b"")


async def import_uses(db: Database, record: IndexRecord) -> None:
    await replace_precise_uses(db, record, [PreciseUseRow(A.path, A.content_hash, b"uses")])


async def expire(db: Database, record: IndexRecord) -> None:
    await drop_retained_chunks(db, record, age_s=-1)


async def publish_state(db: Database, record: IndexRecord) -> None:
    await publish(db, record, await read_moment(db), None)


async def name_topics(db: Database, record: IndexRecord) -> None:
    await set_topics(db, record, ("late",))


async def skip_generations(db: Database, record: IndexRecord) -> None:
    await raise_generation(db, record, 99)


async def name_host(db: Database, record: IndexRecord) -> None:
    assert record.schema == ""
    await set_host(db, "elsewhere")


class NodeCommands:
    """The commands that the coordinator sends to nodes on the connections of a database."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.sent = list[str]()

    async def record(self) -> None:
        async with self.db.connection() as connection:
            connection.add_notice_handler(lambda notice: self._note(notice.message_primary or ""))

    def _note(self, message: str) -> None:
        if message.startswith("issuing "):
            self.sent.append(message.removeprefix("issuing "))

    def count(self, beginning: str) -> int:
        return sum(command.startswith(beginning) for command in self.sent)


@pytest.fixture
async def commands(dsn: str) -> AsyncIterator[NodeCommands]:
    """One connection of the owner of the registry, which tells which commands go to nodes."""
    options = conninfo_to_dict(dsn)["options"]
    notice_options = f"{options} -c citus.log_remote_commands=on -c client_min_messages=notice"
    settings = DatabaseSettings(url=dsn, pool_min=1, pool_max=1)
    conninfo = make_conninfo(dsn, options=notice_options)
    async with Database.open(conninfo, settings, owner=OWNER) as db:
        async with db.connection() as connection:
            await connection.execute(statement("claim_registry"), {"owner": OWNER})
        commands = NodeCommands(db)
        await commands.record()
        yield commands


@pytest.mark.parametrize("with_words", [False, True])
@pytest.mark.parametrize(
    "write",
    [
        save,
        add_several,
        delete,
        touch,
        import_uses,
        delete_precise_uses,
        expire,
        publish_state,
        name_topics,
        skip_generations,
        name_host,
    ],
)
async def test_a_write_is_committed_once(
    commands: NodeCommands, write: Write, *, with_words: bool
) -> None:
    db = commands.db
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", "first = 1"))
    await replace_file(db, record, A)
    if with_words:
        await fill_words(db, record, split_texts)
    earlier_rows = await rows(db, record)
    commands.sent.clear()
    await write(db, record)
    sent = list(commands.sent)
    assert commands.count("PREPARE TRANSACTION") == commands.count("COMMIT PREPARED") == 0, sent
    assert commands.count("BEGIN") == commands.count("COMMIT") == 1, sent
    if write in (save, add_several, delete, expire):
        assert write is delete or await rows(db, record) != earlier_rows
