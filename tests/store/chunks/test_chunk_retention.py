"""Retained chunks: rows of earlier contents, invisible, used again, and dropped in time."""

import random
from dataclasses import replace

import numpy as np
import psutil
import pytest
from pgvector import HalfVector
from psycopg import sql

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.store.chunks.chunk_retention import drop_retained_chunks
from cocosearchd.store.chunks.file_writer import delete_file, replace_file, replace_files
from cocosearchd.store.chunks.manifest import OutdatedManifest
from cocosearchd.store.chunks.rows import FileWrite
from cocosearchd.store.chunks.vector_index import ensure_vector_index
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose, statement
from cocosearchd.store.index_records import (
    count_outdated_chunks,
    counts,
    damaged_files,
    statistics,
    table_digest,
)
from cocosearchd.store.reads.chunk_reads import first_matches, vector_search
from cocosearchd.store.words.words_table import fill_words
from tests.machine_speed import slowness
from tests.store.support import (
    differing,
    file_write,
    keyword_search,
    new_index,
    retained_texts,
    rows,
    split_texts,
    stored_contents,
    switch,
    vector_of,
)

pytestmark = pytest.mark.anyio

MOST_S = 2.0  # of CPU
MAIN, OTHER = ["head", "one: 1", "same: 0", "tail"], ["top", "head", "one: 2", "same: 0", "two: 2"]


async def test_content_that_comes_back_writes_no_rows(db: Database) -> None:
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", *MAIN))
    first = await table_digest(db, record)
    assert await switch(db, record, file_write("a.py", *OTHER)) == 3
    assert await retained_texts(db, record) == ["one: 1", "tail"]
    contents, second = await rows(db, record), await table_digest(db, record)
    for _ in range(3):
        assert await switch(db, record, file_write("a.py", *MAIN)) == 0
        assert await table_digest(db, record) == first
        assert await retained_texts(db, record) == ["one: 2", "top", "two: 2"]
        assert await switch(db, record, file_write("a.py", *OTHER)) == 0
        assert await table_digest(db, record) == second
        assert await rows(db, record) == contents, "no row was written"
    assert await damaged_files(db, record) == ()


@pytest.mark.parametrize("with_words", [True, False])
async def test_no_question_sees_them(db: Database, with_words: bool) -> None:
    """Whatever way a chunk is found by; how each read says where it is: test_places."""
    record = await new_index(db)
    if with_words:
        await fill_words(db, record, split_texts)
    await replace_file(db, record, file_write("a.py", *MAIN))
    await switch(db, record, file_write("a.py", *OTHER))
    everything = Filter()
    assert [
        hit.content for hit in await vector_search(db, record, vector_of("one: 1"), everything, 99)
    ].count("one: 1") == 0
    assert await keyword_search(db, record, "tail", everything, 9) == ()
    assert await keyword_search(db, record, "tail nowhere", everything, 9, any_term=True) == ()
    assert [
        hit.content for hit in await first_matches(db, record, Filter(symbol_name="one"), 9)
    ] == ["one: 2"]
    assert (await counts(db, record)).chunks == (await statistics(db, record)).chunks == len(OTHER)
    assert await count_outdated_chunks(db, record) == 0


async def test_the_vector_index_finds_beside_them_what_is_live(db: Database) -> None:
    """Twenty times as many retained rows as live ones lie nearer to the question."""
    record = await new_index(db)
    vector = vector_of("asked")
    writes = [file_write(f"f{n}.py", *[f"{n}: {m}" for m in range(20)]) for n in range(50)]
    near = [vector + 0.05 * np.stack([vector_of(f"{n} {m}") for m in range(20)]) for n in range(50)]
    near = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in near]
    await replace_files(
        db,
        record,
        [replace(write, vectors=vectors) for write, vectors in zip(writes, near, strict=True)],
    )
    live = [file_write(f"f{n}.py", f"live: {n}") for n in range(50)]
    await switch(db, record, *live)
    await ensure_vector_index(db, record, build_at=1)
    expected = sorted(
        (write.chunks[0].text for write in live), key=lambda text: -float(vector_of(text) @ vector)
    )
    for limit in (1, 10, 50):
        hits = await vector_search(db, record, vector, Filter(), limit, exact_matches=0)
        assert [hit.content for hit in hits] == expected[:limit]


# of the planner, not of the way to it
@pytest.mark.parametrize("server", ["embedded"], indirect=True)
async def test_the_best_rows_are_read_from_indexes_beside_retained_rows(db: Database) -> None:
    """Many files have as many retained rows as live ones: PostgreSQL knows that it soon has enough of
    these.
    """
    record = await new_index(db)
    for turn in ("a", "b"):
        for first in range(0, 400, 100):
            writes = [
                file_write(f"f{n}.py", *(f"{turn}{n}: {m}" for m in range(20)))
                for n in range(first, first + 100)
            ]
            await switch(db, record, *writes)
    await ensure_vector_index(db, record, build_at=1)  # a row written beside it takes 3 ms
    values = {"vector": HalfVector(vector_of("asked")), "limit": 20, "breadth": 100}
    async with db.connection() as connection:
        await connection.execute(compose("analyze {chunks}", record))
        everything = statement("filter_live", record, filter=sql.SQL("true"))
        for name, index in (("vector_nearest", "chunks_vector"), ("first_matches", "chunks_key")):
            query = sql.SQL("explain {}").format(
                statement(name, record, filter=sql.SQL("{}").format(everything))
            )
            plan = [row[0] for row in await (await connection.execute(query, values)).fetchall()]
            assert not [line for line in plan if "Seq Scan" in line and "_chunks" in line], plan
            assert [line for line in plan if "Index Scan" in line and index in line], plan


async def test_each_file_retains_the_rows_of_one_previous_content(db: Database) -> None:
    record = await new_index(db)
    for n in range(40):
        await switch(db, record, file_write("a.py", f"only {n}", "same: 0", f"and {n}"))
    assert await retained_texts(db, record) == ["and 38", "only 38"]


async def test_rows_of_a_deleted_file_are_retained(db: Database) -> None:
    """A branch without it is changed to and back; whoever deletes it twice, or makes another one,
    changes nothing.
    """
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", *MAIN))
    first = await table_digest(db, record)
    generation = await delete_file(db, record, "a.py")
    assert await delete_file(db, record, "a.py") == generation
    assert await damaged_files(db, record) == ()
    assert await retained_texts(db, record) == sorted(MAIN)
    assert await keyword_search(db, record, "tail", Filter(), 9) == ()
    assert await switch(db, record, file_write("a.py", *MAIN)) == 0
    assert await table_digest(db, record) == first
    assert await retained_texts(db, record) == []
    await switch(db, record, file_write("a.py", *OTHER))
    await delete_file(db, record, "a.py")
    assert await retained_texts(db, record) == sorted(OTHER), "of one content"
    await replace_file(db, record, file_write("a.py", "new"))
    assert await retained_texts(db, record) == sorted(OTHER)
    assert await switch(db, record, file_write("a.py", *OTHER)) == 0
    assert await retained_texts(db, record) == ["new"]
    await switch(db, record, file_write("a.py"))
    await delete_file(db, record, "a.py")
    assert await retained_texts(db, record) == sorted(OTHER), "an empty file has none"
    assert await damaged_files(db, record) == ()


async def test_rows_of_a_deleted_file_are_retained_when_other_content_replaces_it(
    db: Database,
) -> None:
    """Git removes a file before it writes it, and somebody may look in between; so may a branch
    without it be.
    """
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", *MAIN))
    await delete_file(db, record, "a.py")
    assert await switch(db, record, file_write("a.py", *OTHER)) == 3
    assert await retained_texts(db, record) == ["one: 1", "tail"]
    assert await switch(db, record, file_write("a.py", *MAIN)) == 0
    assert await retained_texts(db, record) == ["one: 2", "top", "two: 2"]
    assert await damaged_files(db, record) == ()


# work of the server, not of the way to it
@pytest.mark.parametrize("server", ["embedded"], indirect=True)
async def test_a_large_file_is_forgotten_in_time(db: Database, dsn: str) -> None:
    """With as many retained rows: looking for each row among all others takes longer than a statement
    may.
    """
    record = await new_index(db)
    many = file_write("a.py", *map(str, range(12_000)))
    await replace_file(db, record, many)
    await switch(db, record, file_write("a.py", *(f"other {n}" for n in range(12_000))))
    settings = DatabaseSettings(pool_min=1, pool_max=1, statement_timeout_ms=50_000)
    async with Database.open(dsn, settings) as single:
        async with single.connection() as connection:
            backend = psutil.Process(connection.info.backend_pid)
        previous_s = cpu_s(backend)
        await delete_file(single, record, "a.py")
        used_s = cpu_s(backend) - previous_s
    assert used_s < MOST_S * slowness()
    assert len(await retained_texts(db, record)) == 12_000
    assert await damaged_files(db, record) == ()


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


async def test_there_are_no_more_of_them_than_others(db: Database) -> None:
    """Directories of ever other names come and go."""
    record = await new_index(db)
    await replace_files(db, record, [file_write(f"stays{n}.py", *MAIN) for n in range(5)])
    for turn in range(8):
        paths = [f"turn{turn}/{n}.py" for n in range(2)]
        await replace_files(db, record, [file_write(path, *MAIN) for path in paths])
        await replace_files(db, record, (), paths)
    digest_before = await table_digest(db, record)
    assert await drop_retained_chunks(db, record) == 0, "few in any case"
    assert await drop_retained_chunks(db, record, minimum=1) == 64 - 20
    paths_left = {path for path, _, retained in await rows(db, record) if retained}
    assert paths_left == {f"turn{turn}/{n}.py" for turn in (6, 7) for n in range(2)} | {
        "turn5/1.py"
    }
    assert await table_digest(db, record) == digest_before
    assert await damaged_files(db, record) == ()


async def test_a_save_keeps_retained_rows_and_adds_none(db: Database) -> None:
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", *MAIN))
    await switch(db, record, file_write("a.py", *OTHER))
    for n in range(40):
        await replace_file(
            db, record, file_write("a.py", "top", f"saved: {n}", f"twice: {n}", *OTHER[1:])
        )
    assert await retained_texts(db, record) == ["one: 1", "tail"]
    assert await switch(db, record, file_write("a.py", *MAIN)) == 0
    assert await damaged_files(db, record) == ()


async def test_rows_from_before_a_series_of_saves_are_retained(db: Database) -> None:
    """Rows are retained as well if they replace retained rows that are taken up by a save: a branch of few
    files is changed to.
    """
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", *MAIN))
    for n in range(40):
        await replace_file(db, record, file_write("a.py", *MAIN[:3], f"saved: {n}"))
    assert await retained_texts(db, record) == ["tail"]
    await replace_file(db, record, file_write("a.py", *MAIN))
    assert await retained_texts(db, record) == ["saved: 39"]
    written = await rows(db, record)
    for _ in range(3):
        await replace_file(db, record, file_write("a.py", *MAIN[:3], "saved: 39"))
        await replace_file(db, record, file_write("a.py", *MAIN))
    assert await rows(db, record) == written
    assert await damaged_files(db, record) == ()


async def test_rows_of_other_rules_are_not_retained(db: Database) -> None:
    """The same content, cut in another way: nobody comes back to that."""
    record = await new_index(db)
    first, second = file_write("a.py", "one", "two"), file_write("a.py", "onetwo")
    assert first.content_hash == second.content_hash
    await replace_file(db, record, file_write("a.py", *MAIN))
    await switch(db, record, first)
    await switch(db, record, second)
    assert await retained_texts(db, record) == sorted(MAIN)


async def test_old_retained_rows_are_dropped(db: Database) -> None:
    record = await new_index(db)
    for number in range(450):  # of several transactions
        await replace_file(db, record, file_write(f"f{number}.py", *MAIN))
    await switch(db, record, *(file_write(f"f{number}.py", *OTHER) for number in range(450)))
    digest_before = await table_digest(db, record)
    assert await drop_retained_chunks(db, record) == 0, "they are young"
    async with db.connection() as connection:
        await connection.execute(
            compose(
                "update {retained_chunks} set since = now() - interval '4 days' where filename <> 'f7.py'",
                record,
            )
        )
    # does not make them younger
    await replace_file(db, record, file_write("f9.py", "saved", *OTHER))
    await replace_file(db, record, file_write("f9.py", *OTHER))
    assert await drop_retained_chunks(db, record) == 2 * 449
    assert {path for path, _, retained in await rows(db, record) if retained} == {"f7.py"}
    assert await drop_retained_chunks(db, record, 0.0) == 2
    assert await table_digest(db, record) == digest_before
    assert await damaged_files(db, record) == ()
    assert await switch(db, record, file_write("f9.py", *MAIN)) == 2


async def test_a_write_compared_with_dropped_rows_is_refused(db: Database) -> None:
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", *MAIN))
    await switch(db, record, file_write("a.py", *OTHER))
    differing_writes = await differing(db, record, [file_write("a.py", *MAIN)])
    await drop_retained_chunks(db, record, 0.0)
    digest_before = await table_digest(db, record)
    with pytest.raises(OutdatedManifest):
        await replace_files(db, record, differing_writes)
    assert await table_digest(db, record) == digest_before


async def test_retained_rows_that_another_program_deleted_are_forgotten(db: Database) -> None:
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", *MAIN))
    await switch(db, record, file_write("a.py", *OTHER))
    digest_before = await table_digest(db, record)
    (number,) = [
        number for _, number, text, _ in await stored_contents(db, record, "true") if text == "tail"
    ]
    async with db.connection() as connection:
        query = compose("delete from {chunks} where chunk_number = %s", record)
        await connection.execute(query, (number,))
    assert await damaged_files(db, record) == ("a.py",)
    await replace_file(db, record, file_write("a.py", *OTHER))
    assert await damaged_files(db, record) == ()
    assert await table_digest(db, record) == digest_before
    assert await switch(db, record, file_write("a.py", *MAIN)) == 1


@pytest.mark.parametrize("seed", range(6))
async def test_histories_leave_what_a_fresh_index_has(db: Database, seed: int) -> None:
    """Switches, saves, deletions, other rules, dropped retained rows: what is stored is known, and
    answers as if new.
    """
    dice = random.Random(seed)
    record = await new_index(db)
    writes_by_path = dict[str, FileWrite]()
    for _ in range(60):
        paths = dice.sample(["a.py", "b.py", "c.py"], dice.randrange(1, 4))
        texts = [dice.choices(["x", "y", "z: 1", "v: 2", "w"], k=dice.randrange(6)) for _ in paths]
        writes = [
            file_write(path, *chunk_texts) for path, chunk_texts in zip(paths, texts, strict=True)
        ]
        match dice.randrange(8):
            case 0:
                await replace_files(db, record, (), paths)
                for path in paths:
                    writes_by_path.pop(path, None)
                continue
            case 1:
                await drop_retained_chunks(db, record, 0.0)
                continue
            case 2:
                # as if by other rules
                writes = [replace(write, content_hash=b"\0" * 16) for write in writes]
                await replace_files(db, record, writes)
            case 3 | 4:
                await replace_files(db, record, writes)
            case _:
                await switch(db, record, *writes)
        writes_by_path |= {write.path: write for write in writes}
        assert await damaged_files(db, record) == ()
    fresh = await new_index(db, "fresh", b"/fresh")
    await replace_files(db, fresh, list(writes_by_path.values()))
    assert await table_digest(db, record) == await table_digest(db, fresh)
