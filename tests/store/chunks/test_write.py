"""The write transaction: changed and unchanged rows, and generations."""

import asyncio
import sys
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import AsyncTransaction

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.errors import CocoSearchError, IdentityMismatch, NotFound
from cocosearchd.model import Chunk, IndexRecord, PackedCode, ParseReport
from cocosearchd.store.chunks.file_writer import (
    delete_file,
    refresh_fingerprints,
    replace_file,
    replace_files,
)
from cocosearchd.store.chunks.row_changes import PIPELINED_ROWS
from cocosearchd.store.chunks.rows import FileChunks
from cocosearchd.store.connection.database import Connection, Database
from cocosearchd.store.connection.statements import compose
from cocosearchd.store.index_records import (
    Counts,
    counts,
    damaged_files,
    drop_index,
    file_records,
    list_indexes,
    parse_failures,
    read_generation,
    statistics,
    table_digest,
)
from cocosearchd.store.invalidation import AffectedFiles, invalidate
from cocosearchd.store.reads.chunk_reads import file_chunks
from cocosearchd.store.words.words_table import fill_words
from tests.store.support import (
    IDENTITY,
    file_write,
    fingerprint,
    new_index,
    split_texts,
    stored_contents,
    stored_words,
    words_of,
)


async def stored(db: Database, record: IndexRecord, *paths: str) -> list[FileChunks]:
    return [file async for file in file_chunks(db, record, paths or None)]


async def row_versions(db: Database, record: IndexRecord) -> dict[str, str]:
    """Content -> the transaction that wrote its row; without retained rows."""
    rows = await stored_contents(db, record, "{live}")
    return {text: version for _, _, text, version in rows}


def count_round_trips(trace: Path) -> int:
    """Return how often a trace waits for the server; see PQtrace in the manual of libpq."""
    lines = trace.read_text("utf-8", "replace").splitlines()
    # time, sender, length and name of a message; the texts of statements have more lines
    messages = [fields for line in lines if len(fields := line.split("\t")) > 3]
    return sum(sender == "F" and name in ("Query", "Sync") for _, sender, _, name, *_ in messages)


async def trace_write(
    db: Database, record: IndexRecord, trace: Path, monkeypatch: pytest.MonkeyPatch, *texts: str
) -> None:
    """Replace a file, and write the messages of its transaction to a trace."""
    begin = Connection.transaction

    def begin_traced(connection: Connection) -> AbstractAsyncContextManager[AsyncTransaction]:
        connection.pgconn.trace(output.fileno())
        stack.callback(connection.pgconn.untrace)
        return begin(connection)

    with trace.open("w") as output, ExitStack() as stack, monkeypatch.context() as patch:
        patch.setattr(Connection, "transaction", begin_traced)
        await replace_file(db, record, file_write("a.py", *texts))


@pytest.mark.skipif(sys.platform != "linux", reason="the driver traces on Linux alone")
async def test_a_save_of_few_chunks_waits_for_few_answers(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", "old: 1", "stays: 1"))
    few = tmp_path / "few"
    await trace_write(db, record, few, monkeypatch, "new: 1", "stays: 1")
    # it begins, locks and reads, writes, and commits
    assert count_round_trips(few) == 4
    many = tmp_path / "many"
    texts = [f"many{number}: 1" for number in range(PIPELINED_ROWS + 1)]
    await trace_write(db, record, many, monkeypatch, *texts)
    assert count_round_trips(many) > 4


@pytest.mark.parametrize("size", [1, PIPELINED_ROWS, PIPELINED_ROWS + 1])
async def test_new_chunks_take_the_place_of_others(db: Database, size: int) -> None:
    """However many they are, and also where the index keeps words."""
    record = await new_index(db)
    await fill_words(db, record, split_texts)
    await replace_file(db, record, file_write("a.py", *(f"old{n}: 1" for n in range(size))))
    texts = [f"new{n}: 1" for n in range(size)]
    assert await replace_file(db, record, file_write("a.py", *texts)) == 2
    (file,) = await stored(db, record)
    assert [chunk.content for chunk in file.chunks] == texts
    words = " ".join((await stored_words(db, record)).values())
    assert all(f"'new{n}'" in words for n in range(size))


async def test_a_file_is_stored_as_it_was_given(db: Database) -> None:
    record = await new_index(db)
    write = file_write("src/a.py", "one: first", "two: second", "plain third")
    assert await replace_file(db, record, write) == 1
    assert await read_generation(db, record) == 1
    (file,) = await stored(db, record)
    assert (file.path, file.generation, file.language) == ("src/a.py", 1, "python")
    assert [chunk.content for chunk in file.chunks] == ["one: first", "two: second", "plain third"]
    assert file.chunks[0].definitions == ("one",)
    assert [chunk.start_line for chunk in file.chunks] == [1, 2, 3]
    (file_record,) = await file_records(db, record)
    assert (file_record.path, file_record.content_hash, file_record.fingerprint) == (
        write.path,
        write.content_hash,
        fingerprint(),
    )
    assert (
        file_record.generation,
        file_record.chunk_count,
        file_record.language,
        file_record.skip_reason,
    ) == (
        1,
        3,
        "python",
        None,
    )


async def test_the_same_again_is_not_a_new_generation(db: Database) -> None:
    record = await new_index(db)
    write = file_write("a.py", "one: x", "two: y")
    await replace_file(db, record, write)
    previous = await row_versions(db, record)
    assert await replace_file(db, record, write) == 1
    assert await replace_file(db, record, replace(write, fingerprint=fingerprint(2))) == 1
    assert await row_versions(db, record) == previous
    assert (await file_records(db, record))[0].fingerprint == fingerprint(2)
    assert await replace_file(db, record, replace(write, fingerprint=None)) == 1
    assert (await file_records(db, record))[0].fingerprint is None


async def test_only_changed_chunks_are_written(db: Database) -> None:
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", "one: 1", "two: 2", "six: 3"))
    previous = await row_versions(db, record)
    assert await replace_file(db, record, file_write("a.py", "one: 1", "two: 9", "six: 3")) == 2
    after = await row_versions(db, record)
    assert after.keys() == {"one: 1", "two: 9", "six: 3"}
    assert {text for text in after if previous.get(text) == after[text]} == {"one: 1", "six: 3"}


async def test_statements_with_one_plan_only_are_planned_once_but_not_on_a_server_of_somebody_else(
    dsn: str, db: Database
) -> None:
    """None of them looks for chunks: a plan made for a small table would be kept while it grows."""
    record = await new_index(db)
    for url, expected in (("", 7), (dsn, 0)):
        async with Database.open(
            dsn, DatabaseSettings(url=url, pool_min=1, pool_max=1)
        ) as single_connection:
            for text in ("one: 1", "two: 2", "three: 3"):
                await replace_file(
                    single_connection, record, file_write(f"{expected}.py", text, "same: 0")
                )
            await delete_file(single_connection, record, f"{expected}.py")
            async with single_connection.connection() as connection:
                rows = await (
                    await connection.execute("select statement from pg_prepared_statements")
                ).fetchall()
        assert len(rows) == expected
        # an insert of one row looks for nothing
        chunk_statements = [text for (text,) in rows if '_chunks"' in text]
        assert all("\nvalues (" in text for text in chunk_statements)


async def test_chunks_that_only_moved_are_not_written(db: Database) -> None:
    """Neither its text nor its vector is sent again, its words are not looked for, and no index is
    entered again.
    """
    record = await new_index(db)
    await fill_words(db, record, split_texts)
    previous, after = (
        ["one: 1", "two: 22", "three: 333"],
        ["new: 0 0 0", "one: 1", "two: 22", "three: 333"],
    )
    await replace_file(db, record, file_write("a.py", *previous))
    versions = await row_versions(db, record)
    calls = list[str]()

    def words(chunk: Chunk) -> str:
        calls.append(chunk.text)
        return words_of(chunk)

    moved = replace(file_write("a.py", *after), keywords=words)
    moved.vectors[1:] = 9  # of what is stored already, so nobody looks
    assert await replace_file(db, record, moved) == 2
    assert calls == ["new: 0 0 0"]
    assert versions.items() <= (await row_versions(db, record)).items()
    (file,) = await stored(db, record)
    assert [(chunk.content, chunk.start_line, chunk.end_line) for chunk in file.chunks] == [
        (text, line, line) for line, text in enumerate(after, 1)
    ]
    fresh = await new_index(db, "fresh", b"/fresh")
    await replace_file(db, fresh, file_write("a.py", *after))
    assert await table_digest(db, record) == await table_digest(db, fresh)


async def test_one_spot_may_be_written_into_again_and_again(db: Database) -> None:
    """Until no chunk number is free between two: then the file is written again."""
    record, fresh = await new_index(db), await new_index(db, "fresh", b"/fresh")
    texts, written = ["first: 1", "last: 1"], 0
    for number in range(70):
        previous = await row_versions(db, record)
        await replace_file(db, record, file_write("a.py", *texts))
        written += not previous.items() <= (await row_versions(db, record)).items()
        texts.insert(1, f"one: {number}")
    assert written == 2
    await replace_file(db, fresh, file_write("a.py", *texts[:1], *texts[2:]))
    assert await table_digest(db, record) == await table_digest(db, fresh)
    assert await damaged_files(db, record) == ()


async def test_a_place_that_is_only_left_by_another_chunk(db: Database) -> None:
    """Chunks of one size: each one's new place is the old one of the next."""
    record, fresh = await new_index(db), await new_index(db, "fresh", b"/fresh")
    texts = [f"same: {number}" for number in range(5)]
    await replace_file(db, record, file_write("a.py", *texts))
    for changed in (
        [*texts[2:], *texts[:2]],
        ["same: 9", *texts],
        texts[1:],
        [texts[0]] * 4,
        texts,
    ):
        await replace_file(db, record, file_write("a.py", *changed))
        await replace_file(db, fresh, file_write("a.py", *changed))
        assert await table_digest(db, record) == await table_digest(db, fresh)
        await delete_file(db, fresh, "a.py")


async def test_the_same_bytes_in_other_lines(db: Database) -> None:
    record = await new_index(db)
    write = file_write("a.py", "one: 1", "two: 2")
    await replace_file(db, record, write)
    versions = await row_versions(db, record)
    lower = replace(write.chunks[1], start_line=7, end_line=7)
    assert await replace_file(db, record, replace(write, chunks=(write.chunks[0], lower))) == 2
    (file,) = await stored(db, record)
    assert [(chunk.start_byte, chunk.start_line) for chunk in file.chunks] == [(0, 1), (6, 7)]
    assert await row_versions(db, record) == versions


async def test_every_difference_is_a_new_generation(db: Database) -> None:
    record = await new_index(db)
    write = file_write("a.py", "one: 1")
    await replace_file(db, record, write)
    changes = [
        replace(write, content_hash=b"another hash 123"),
        replace(write, language="ruby"),
        replace(write, code=PackedCode(scopes=b"packed")),
        replace(write, code=PackedCode(facts=b"packed")),
        replace(write, code=PackedCode(name_hashes=b"packed")),
        replace(write, report=ParseReport("partial", 2, "unexpected )")),
        replace(write, chunks=(replace(write.chunks[0], header="class A"),)),
        replace(write, chunks=(replace(write.chunks[0], symbol_signature=None),)),
        replace(write, chunks=(), vectors=write.vectors[:0], skip_reason="binary"),
        write,
    ]
    for expected, change in enumerate(changes, 2):
        assert await replace_file(db, record, change) == expected
        assert await replace_file(db, record, change) == expected
    fresh = await new_index(db, "fresh", b"/fresh")
    await replace_file(db, fresh, write)
    assert await table_digest(db, record) == await table_digest(db, fresh)


async def test_deleting(db: Database) -> None:
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", "one: 1"))
    assert await delete_file(db, record, "b.py") == 1
    assert await delete_file(db, record, "a.py") == 2
    assert await delete_file(db, record, "a.py") == 2
    assert await counts(db, record) == Counts(0, 0)
    empty = await new_index(db, "empty", b"/empty")
    assert await table_digest(db, record) == await table_digest(db, empty)


async def test_fingerprints_are_refreshed_where_the_content_is_the_stored_one(db: Database) -> None:
    record = await new_index(db)
    a, b = file_write("a.py", "one: 1"), file_write("b.py", "two: 2")
    await replace_file(db, record, a)
    await replace_file(db, record, b)
    checked = [
        ("a.py", a.content_hash, fingerprint(7)),
        ("b.py", a.content_hash, fingerprint(8)),
        ("c.py", b"", fingerprint()),
    ]
    assert await refresh_fingerprints(db, record, checked, b"rules") == {"a.py"}
    assert [file_record.fingerprint for file_record in await file_records(db, record)] == [
        fingerprint(7),
        fingerprint(1),
    ]
    assert await refresh_fingerprints(db, record, checked[:1], b"rules") == {"a.py"}
    assert await refresh_fingerprints(db, record, [], b"rules") == frozenset()
    assert await read_generation(db, record) == 2


async def test_records_below_a_directory(db: Database) -> None:
    record = await new_index(db)
    paths = [
        "src/a.py",
        "src/sub/b.py",
        "src",
        "src-x/c.py",
        "src.py",
        "src0",
        "src!/d.py",
        "other/src/e.py",
    ]
    for path in paths:
        await replace_file(db, record, file_write(path))
    assert [file_record.path for file_record in await file_records(db, record)] == sorted(paths)
    assert [file_record.path for file_record in await file_records(db, record, "src")] == [
        "src",
        "src/a.py",
        "src/sub/b.py",
    ]
    assert [file_record.path for file_record in await file_records(db, record, "src/sub")] == [
        "src/sub/b.py"
    ]


async def test_odd_texts(db: Database) -> None:
    """NUL is left out; everything else comes back."""
    record = await new_index(db)
    texts = ["a\0b", "ünï \U0001f680 code", "\r\n\t\x01\x7f", 'it\'s "quoted" \\ %s {} --', " " * 5]
    await replace_file(db, record, file_write("we\\\\ird\n'\"{}%s/ü.py", *texts))
    (file,) = await stored(db, record)
    assert [chunk.content for chunk in file.chunks] == ["ab", *texts[1:]]
    assert file.path == "we\\\\ird\n'\"{}%s/ü.py"


async def test_zero_vectors_are_null_and_shapes_are_checked(db: Database) -> None:
    record = await new_index(db)
    write = file_write("a.py", "one: 1", "two: 2")
    vectors = write.vectors.copy()
    vectors[1] = 0
    await replace_file(db, record, replace(write, vectors=vectors))
    rows = await stored_contents(db, record, "embedding is null")
    assert [text for _, _, text, _ in rows] == ["two: 2"]
    with pytest.raises(ValueError, match=r"not \(2, 8\)"):
        await replace_file(db, record, replace(write, vectors=vectors[:, :4]))


async def test_empty_and_equal_ranges_are_left_out(db: Database) -> None:
    record = await new_index(db)
    write = file_write("a.py", "one: 1", "two: 2")
    first_chunk = write.chunks[0]
    odd = replace(
        write, chunks=(first_chunk, replace(first_chunk, text="again")), vectors=write.vectors
    )
    await replace_file(db, record, odd)
    await replace_file(
        db,
        record,
        replace(
            odd,
            path="b.py",
            chunks=(replace(first_chunk, start_byte=first_chunk.end_byte), first_chunk),
        ),
    )
    assert [[chunk.content for chunk in file.chunks] for file in await stored(db, record)] == [
        ["one: 1"],
        ["one: 1"],
    ]
    assert await damaged_files(db, record) == ()
    longer = replace(first_chunk, end_byte=first_chunk.end_byte + 2, text="longer")
    await replace_file(db, record, replace(odd, path="c.py", chunks=(first_chunk, longer)))
    assert [chunk.content for chunk in (await stored(db, record, "c.py"))[0].chunks] == ["longer"]


async def test_damage_is_noticed(db: Database) -> None:
    record = await new_index(db)
    for path in ("a.py", "b.py", "c.py", "d.py", "e.py"):
        await replace_file(db, record, file_write(path, "one: 1", "two: 2"))
    async with db.connection() as connection:
        damage = "delete from {chunks} where filename = 'a.py' and chunk_number = 0"
        await connection.execute(compose(damage, record))
        await connection.execute(compose("delete from {files} where filename = 'c.py'", record))
        await connection.execute(compose("delete from {chunks} where filename = 'd.py'", record))
        await connection.execute(
            compose(
                "update {chunks} set chunk_number = 7 where filename = 'e.py' and chunk_number = 0",
                record,
            )
        )
    assert await damaged_files(db, record) == ("a.py", "c.py", "d.py", "e.py")
    for path in ("a.py", "c.py", "d.py", "e.py"):
        await replace_file(db, record, file_write(path, "one: 1", "two: 2"))
    fresh = await new_index(db, "fresh", b"/fresh")
    for path in ("a.py", "b.py", "c.py", "d.py", "e.py"):
        await replace_file(db, fresh, file_write(path, "one: 1", "two: 2"))
    assert await damaged_files(db, record) == ()
    assert await table_digest(db, record) == await table_digest(db, fresh)


async def test_a_write_for_another_identity_leaves_nothing(db: Database) -> None:
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", "one: 1"))
    changed, _ = await invalidate(
        db, record, replace(IDENTITY, header_version=2), {}, AffectedFiles()
    )
    previous = await table_digest(db, changed)
    with pytest.raises(IdentityMismatch):
        await replace_file(db, record, file_write("a.py", "two: 2"))
    assert await table_digest(db, changed) == previous
    assert await replace_file(db, changed, file_write("a.py", "two: 2")) == 2
    await drop_index(db, changed)
    with pytest.raises(NotFound):
        await replace_file(db, changed, file_write("a.py", "one: 1"))


async def test_concurrent_writers(db: Database) -> None:
    """Each commit has a generation of its own, and a file's rows are always of one version."""
    record = await new_index(db)
    writes = [
        file_write(f"{n % 3}.py", *(f"name{k}: version {n}" for k in range(n % 5 + 1)))
        for n in range(30)
    ]
    numbers = await asyncio.gather(*(replace_file(db, record, write) for write in writes))
    assert sorted(numbers) == list(range(1, 31))
    for file in await stored(db, record):
        versions = {chunk.content.rpartition(" ")[2] for chunk in file.chunks}
        assert len(versions) == 1, f"{file.path} is a mixture of {versions}"
    assert await damaged_files(db, record) == ()
    newest = {
        file_record.path: file_record.generation for file_record in await file_records(db, record)
    }
    assert newest == {
        path: max(n for n, w in zip(numbers, writes, strict=True) if w.path == path)
        for path in newest
    }


async def test_a_cancelled_write_leaves_nothing_half(db: Database) -> None:
    record = await new_index(db)
    for n in range(30):
        write = file_write("a.py", *(f"name{k}: version {n}" for k in range(n % 5 + 1)))
        task = asyncio.create_task(replace_file(db, record, write))
        await asyncio.sleep(n / 5000)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await damaged_files(db, record) == ()
        for file in await stored(db, record):
            assert len({chunk.content.rpartition(" ")[2] for chunk in file.chunks}) == 1
    await replace_file(db, record, file_write("a.py", "done: 1"))
    assert (await stored(db, record))[0].chunks[0].content == "done: 1"


async def test_statistics_and_failures(db: Database) -> None:
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", "one: 1", "two: 2", "rest"))
    await replace_file(
        db, record, replace(file_write("b.py", "x"), report=ParseReport("error", 3, "line 1: oh\0"))
    )
    await replace_file(db, record, file_write("c.go", "f: 1", language="go"))
    await replace_file(db, record, replace(file_write("d.bin"), language="", skip_reason="binary"))
    figures = await statistics(db, record)
    assert (figures.files, figures.chunks, figures.symbols, figures.generation) == (3, 5, 3, 4)
    assert figures.languages == (("python", 2, 4), ("go", 1, 1))
    assert figures.parse_health == (("go", "ok", 1), ("python", "error", 1), ("python", "ok", 1))
    assert figures.skipped == (("binary", 1),)
    assert await counts(db, record) == Counts(figures.files, figures.chunks, figures.skipped)
    assert figures.last_change is not None
    failure, skipped = await parse_failures(db, record, 10)
    assert (skipped.path, skipped.status, skipped.error_message) == ("d.bin", "skipped", "binary")
    assert (failure.path, failure.language, failure.status) == ("b.py", "python", "error")
    assert (failure.error_count, failure.error_message) == (3, "line 1: oh")
    assert (await list_indexes(db))[0].generation == 4


async def test_file_chunks_streams_in_batches(db: Database) -> None:
    record = await new_index(db)
    for path in ("a", "b", "c", "d"):
        await replace_file(db, record, file_write(path, *("xyz"[: "acbd".index(path)])))
    everything = [file async for file in file_chunks(db, record, None, batch=2)]
    assert [(file.path, len(file.chunks)) for file in everything] == [
        ("a", 0),
        ("b", 2),
        ("c", 1),
        ("d", 3),
    ]
    assert await stored(db, record, "d", "gone", "a") == [everything[3 - 3], everything[3]]


HISTORIES = count(1)
FILES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.none() | st.lists(st.text("xy:\0é", max_size=4), max_size=4),
    ),
    max_size=8,
)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=FILES)
@example(steps=[("a", [""]), ("a", ["\0"])])  # equal as stored, but the vectors are not
def test_history_leaves_no_trace(dsn: str, steps: list[tuple[str, list[str] | None]]) -> None:
    """After any writes and deletions the tables equal those of a fresh index of the last state,
    byte for byte.
    """
    asyncio.run(check_history(dsn, steps))


async def check_history(dsn: str, steps: list[tuple[str, list[str] | None]]) -> None:
    async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=1)) as db:
        number = next(HISTORIES)
        record = await new_index(db, f"lived {number}", b"/lived %d" % number)
        for path, texts in steps:
            if texts is None:
                await delete_file(db, record, path)
            else:
                await replace_file(db, record, file_write(path, *texts))
        fresh = await new_index(db, f"fresh {number}", b"/fresh %d" % number)
        for path, texts in dict(steps).items():
            if texts is not None:
                await replace_file(db, fresh, file_write(path, *texts))
        assert await table_digest(db, record) == await table_digest(db, fresh)


def test_vectors_of_the_support_are_unit_vectors() -> None:
    assert np.allclose(np.linalg.norm(file_write("a", "x", "y").vectors, axis=1), 1)


async def test_several_files_are_one_change(db: Database) -> None:
    record = await new_index(db)
    unchanged, changed = (
        file_write("kept.py", "same: 1"),
        file_write("changed.py", "before: 1", "same: 2"),
    )
    await replace_file(db, record, unchanged)
    await replace_file(db, record, changed)
    await replace_file(db, record, file_write("gone.py", "old: 1"))
    again = file_write("changed.py", "after: 1", "same: 2")
    assert (
        await replace_files(
            db, record, (again, unchanged, file_write("new.py", "new: 1")), ("gone.py", "never.py")
        )
        == 4
    )
    states = {file.path: file.generation for file in await file_records(db, record)}
    assert states == {"changed.py": 4, "kept.py": 1, "new.py": 4}
    assert await replace_files(db, record, (unchanged, again), ("gone.py",)) == 4


async def test_several_files_are_written_together_or_not_at_all(db: Database) -> None:
    record = await new_index(db)
    broken = replace(file_write("broken.py", "one: 1"), language="nul \0 is no text")
    with pytest.raises(CocoSearchError):
        await replace_files(db, record, (file_write("good.py", "two: 2"), broken))
    assert await file_records(db, record) == ()
