"""What passes a filter, remembered: always what PostgreSQL would say of the files that are there."""

import random
from dataclasses import replace

from psycopg import sql

from cocosearchd.model import Chunk, Filter, IndexRecord, Symbol
from cocosearchd.store import matching
from cocosearchd.store.filters import filter_sql
from cocosearchd.store.matching import Matching, Starts
from cocosearchd.store.pool import Database
from cocosearchd.store.queries import delete_file, replace_file
from cocosearchd.store.records import file_records, generation
from cocosearchd.store.statements import compose
from tests.store.support import file_write, new_index

FILTERS = [
    Filter(symbol_types=("function",)),
    Filter(symbol_types=("class", "method")),
    Filter(symbol_name="find*"),
    Filter(symbol_types=("method",), symbol_name="find*"),
    Filter(symbol_types=("function",), phrases=("word",)),
]
KINDS = ("function", "class", "method")


async def now(db: Database, record: IndexRecord) -> IndexRecord:
    """The record as the daemon holds it: its generation follows the commits."""
    return replace(record, generation=await generation(db, record))


async def write(db: Database, record: IndexRecord, path: str, kinds: list[str], dice: random.Random) -> None:
    """A file whose chunks define one symbol each."""
    made = file_write(path, *(f"{n}-{dice.random()} {dice.choice(('word', 'other'))}" for n in range(len(kinds))))
    chunks = tuple(with_symbol(chunk, kind, dice) for chunk, kind in zip(made.chunks, kinds, strict=True))
    await replace_file(db, record, replace(made, chunks=chunks, content_hash=dice.randbytes(16)))


def with_symbol(chunk: Chunk, kind: str, dice: random.Random) -> Chunk:
    name = f"Owner.{dice.choice(('find', 'finder', 'other'))}"
    return replace(chunk, symbols=(Symbol(kind, name.rpartition(".")[2], name, "", None, 0, 1, 1, 1),))


async def check(db: Database, record: IndexRecord, found: Starts, where: Filter) -> None:
    there = {file.path for file in await file_records(db, record)}
    kept = sorted((path, start) for path, starts in found.items() if path in there for start in starts.tolist())
    condition, values = filter_sql(replace(where, phrases=()))  # they are another matter
    query = compose(
        "select filename, lower(location) from {chunks} where {filter} order by 1, 2", record, filter=condition
    )
    async with db.connection() as connection:
        assert kept == await (await connection.execute(query, values)).fetchall(), where


async def test_what_is_remembered_follows_every_commit(db: Database) -> None:
    record, memory, dice = await new_index(db), Matching(db), random.Random(7)
    for step in range(25):
        path = f"{dice.randrange(6)}.py"
        if dice.random() < 0.2:
            await delete_file(db, record, path)
        else:
            await write(db, record, path, [dice.choice(KINDS) for _ in range(dice.randrange(4))], dice)
        record = await now(db, record)
        for where in FILTERS[step % 2 :: 2]:  # so that some miss a step
            await check(db, record, await memory.chunks(record, where), where)


async def test_only_files_that_were_written_since_are_read(db: Database) -> None:
    record, memory, dice = await new_index(db), Matching(db), random.Random(7)
    for path in ("a.py", "b.py"):
        await write(db, record, path, ["function"], dice)
    record = await now(db, record)
    where = FILTERS[0]
    first = await memory.chunks(record, where)
    assert first.keys() == {"a.py", "b.py"}
    assert await memory.chunks(record, replace(where, paths=("a.py",), languages=("go",))) is first
    async with db.connection() as connection:  # behind the back of the store: only reading tells
        name = sql.Identifier(f"codeindex_{record.slug}__{record.slug}_chunks")
        await connection.execute(sql.SQL("update {} set symbol_kinds = '{{}}'").format(name))
    await write(db, record, "b.py", ["class"], dice)
    second = await memory.chunks(await now(db, record), where)
    assert second.keys() == {"a.py"}
    assert first.keys() == {"a.py", "b.py"}, "an answer under way keeps what it has"
    memory.forget(record)
    assert await memory.chunks(await now(db, record), where) == {}


async def test_few_filters_are_kept(db: Database) -> None:
    record, memory = await new_index(db), Matching(db)
    for number in range(2 * matching.KEPT_FILTERS):
        await memory.chunks(record, Filter(symbol_name=f"name{number}"))
        await memory.chunks(record, Filter(symbol_name="name", phrases=(str(number),)))
    assert len(memory._kept) == matching.KEPT_FILTERS  # what it holds is what it costs
