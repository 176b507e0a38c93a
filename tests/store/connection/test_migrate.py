"""Migrations: the sum of them is the schema; they run once, under a lock, and never backwards."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.errors import StoreUnavailable
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import IndexRecord, Symbol
from cocosearchd.store import index_records
from cocosearchd.store.chunks.chunk_retention import drop_retained_chunks
from cocosearchd.store.chunks.file_writer import refresh_fingerprints, replace_file
from cocosearchd.store.chunks.vector_index import ensure_vector_index
from cocosearchd.store.connection import statements
from cocosearchd.store.connection.database import LOCK_TIMEOUT_MS, Database
from cocosearchd.store.connection.migrate import drop_tables, fetch_schema, migrate_registry
from cocosearchd.store.connection.statements import compose, split_statements, statement
from cocosearchd.store.following.stored_texts import stored_texts
from cocosearchd.store.index_roles import RETIRED, drop_retired_indexes, list_indexes_by_role
from cocosearchd.store.invalidation import AffectedFiles, invalidate
from cocosearchd.store.reads.chunk_reads import file_chunks, first_matches, vector_search
from cocosearchd.store.reads.file_states import count_matching_chunks
from cocosearchd.store.reads.index_texts import file_texts
from cocosearchd.store.reads.phrase_matches import phrase_matches_in_files
from cocosearchd.store.words.words_table import fill_words
from tests.cluster.refused import REFUSED, STORAGE
from tests.store.support import (
    file_write,
    fingerprint,
    keyword_search,
    new_index,
    split_texts,
    stored_contents,
    unpack_rows,
    vector_of,
)

# The versions of the schema that the first distributed schemas had.
FIRST_DISTRIBUTED = {"index": 9, "registry": 7}
CATALOGUE = """
select c.relname, c.relkind, c.reloptions,
    -- Numbered by order: a column that a migration drops leaves a gap.
    (select array_agg(row(attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated,
        attcollation, attstorage, replace(pg_get_expr(adbin, adrelid), 'other.', ''))::text order by attnum)
     from pg_attribute a left join pg_attrdef on adrelid = attrelid and adnum = attnum
     where attrelid = c.oid and attnum > 0 and not attisdropped),
    (select array_agg(replace(pg_get_constraintdef(k.oid), 'other.', '') order by pg_get_constraintdef(k.oid))
     from pg_constraint k where conrelid = c.oid),
    pg_get_indexdef(c.oid)
from pg_class c
where relnamespace = %s::regnamespace and relkind in ('r', 'i', 'S')
    and not exists (select from pg_depend where objid = c.oid and deptype = 'e')
order by relname
"""


async def first_schema(db: Database) -> str:
    async with db.connection() as connection:
        return await fetch_schema(connection)


async def catalogue(db: Database, schema: str = "") -> list[tuple[object, ...]]:
    schema = schema or await first_schema(db)
    async with db.connection() as connection:
        rows = await (await connection.execute(CATALOGUE, (schema,))).fetchall()
    return [
        (*columns, definition and definition.replace(f"{schema}.", ""))
        for *columns, definition in rows
    ]


def whole(text: str) -> tuple[str, ...]:
    return (text,)


@pytest.mark.parametrize("split", [whole, statements.split_statements])
async def test_schema_files_equal_the_sum_of_migrations(
    db: Database, split: Callable[[str], tuple[str, ...]]
) -> None:
    record = await new_index(db)
    async with db.connection() as connection, connection.transaction():
        await connection.execute("create schema other; set local search_path = other, public")
        for text in statements.migrations("registry"):
            for part in split(text):
                await connection.execute(compose(part))
        for text in statements.migrations("index"):
            for part in split(text):
                await connection.execute(compose(part, record))
    created = await catalogue(db)
    assert len(created) > 10
    assert await catalogue(db, "other") == created


def statements_for_distributed_schemas() -> list[str]:
    """Statements of the schema, and of migrations that may meet a distributed schema."""
    texts = [statements.newest_schema(family) for family in FIRST_DISTRIBUTED]
    for family, version in FIRST_DISTRIBUTED.items():
        texts += statements.migrations(family)[version:]
    return [part.lower() for text in texts for part in statements.split_statements(text)]


def test_no_statement_is_one_that_a_distributed_schema_refuses() -> None:
    parts = statements_for_distributed_schemas()
    assert len(parts) > 10
    for refused in REFUSED:
        assert re.search(refused.pattern, refused.example)
        assert not [part for part in parts if re.search(refused.pattern, part)]
    for part in parts:
        if re.search(STORAGE.pattern, part):  # left out there, so it may do nothing else
            actions = part.removesuffix(";").split("alter column")[1:]
            assert part.startswith("alter table")
            assert all(re.search(r"set storage \w+,?\s*$", action) for action in actions)


async def test_a_change_waits_for_one_that_takes_longer_than_a_search_may(db: Database) -> None:
    """Like the change of a killed daemon: the server ends the statement under way."""
    async with db.connection() as connection, connection.transaction():
        await connection.execute(statement("lock_schema"))
        migrating = asyncio.create_task(migrate_registry(db))
        assert not (await asyncio.wait({migrating}, timeout=LOCK_TIMEOUT_MS / 1000 + 0.5))[0]
    await migrating


async def test_racing_daemons_migrate_once(server: str, dsn: str) -> None:
    settings = DatabaseSettings(pool_min=4, pool_max=4)
    async with Database.open(dsn, settings) as db:
        async with db.connection() as connection:
            await connection.execute(
                "drop table cocosearch_precise_uses, cocosearch_publications,"
                " cocosearch_registry, cocosearch_indexes"
            )
        await asyncio.gather(*(migrate_registry(db) for _ in range(4)))
        async with db.connection() as connection:
            rows = await (
                await connection.execute("select version from cocosearch_registry")
            ).fetchall()
    assert rows == [(len(statements.migrations("registry")),)]


async def test_a_schema_has_a_registry_of_its_own_beside_another(db: Database, dsn: str) -> None:
    record = await new_index(db)
    async with db.connection() as connection:
        await connection.execute('create schema "Team b"')
    path = f'"Team\\ b",{await first_schema(db)},public'
    team_dsn = make_conninfo(dsn, options=f"-c search_path={path}")
    async with Database.open(team_dsn, DatabaseSettings()) as team:
        await migrate_registry(team)
        await migrate_registry(team)
        assert await index_records.list_indexes(team) == ()
        second = await new_index(team, record.name)
        assert len(await index_records.list_indexes(team)) == 1
        assert [index.name for index in await index_records.list_indexes(db)] == [record.name]
        assert await catalogue(team, '"Team b"')
        async with team.connection() as connection:
            await drop_tables(connection, second)  # those of the same names further behind stay
            await drop_tables(connection, second)
        await index_records.drop_index(team, second)
        assert await index_records.list_indexes(team) == ()
    assert [index.name for index in await index_records.list_indexes(db)] == [record.name]
    await replace_file(db, record, file_write("a.py", "def send(): ..."))


def test_statements_are_split_where_they_end() -> None:
    text = """-- one; with a 'quote;
create table a (
    -- of the column;
    b text default ';' not null
);

select 1;
"""
    create, select = statements.split_statements(text)
    assert create == "create table a (\n    b text default ';' not null\n);"
    assert select == "select 1;"


@pytest.mark.parametrize("folder", ["migrations", "schema"])
def test_files_of_the_store_are_written_as_they_are_split(folder: str) -> None:
    """Comments are lines, and nothing follows the semicolon of a statement."""
    for path in (statements.STORE / folder).glob("*.sql"):
        lines = [
            line for line in path.read_text().splitlines() if not line.lstrip().startswith("--")
        ]
        assert not [
            line for line in lines if "--" in line or ";" in line.rstrip().removesuffix(";")
        ]
        parts = statements.split_statements("\n".join(lines))
        assert all(part.count(";") == 1 for part in parts), path


async def test_a_newer_schema_is_refused(db: Database) -> None:
    async with db.connection() as connection:
        await connection.execute("update cocosearch_registry set version = 99")
    with pytest.raises(StoreUnavailable, match="made by a newer cocosearchd") as caught:
        await migrate_registry(db)
    assert "upgrade" in caught.value.hint


async def test_tables_of_an_index_catch_up(db: Database) -> None:
    """Like after an upgrade: the registry says that an index lacks its migrations."""
    record = await new_index(db)
    previous = await catalogue(db)
    async with db.connection() as connection:
        await connection.execute(
            compose("drop table {chunks}, {files}, {parses}, {retained_chunks}, {words}", record)
        )
        await connection.execute("update cocosearch_indexes set version = 0")
    await migrate_registry(db)
    assert await catalogue(db) == previous


# Rows of version 1 of the schema, made by the code of then: three files of code and a
# note.
OLD = Path(__file__).parents[1] / "fixtures" / "schema_1.sql"


async def old_index(db: Database) -> IndexRecord:
    """The index of the fixture, brought to the schema of now."""
    async with db.connection() as connection, connection.transaction():
        await connection.execute(
            "drop table cocosearch_precise_uses, cocosearch_publications,"
            " cocosearch_registry, cocosearch_indexes"
        )
        await connection.execute(OLD.read_bytes())
    await migrate_registry(db)
    (record,) = await index_records.list_indexes(db)
    return record


async def test_an_old_database_becomes_what_a_new_one_is(db: Database) -> None:
    fresh = await new_index(db)
    expected = await catalogue(db)
    await index_records.drop_index(db, fresh)
    await old_index(db)
    assert await catalogue(db) == expected


async def test_an_old_index_answers_and_says_what_it_lacks(db: Database) -> None:
    record = await old_index(db)
    assert (record.name, record.topics, record.generation) == ("code", ("work",), 4)
    text = "def connect(url):\n    return open(url)"
    assert (await vector_search(db, record, vector_of(text), Filter(), 1))[0].content == text
    assert {hit.path for hit in await keyword_search(db, record, "users", Filter(), 9)} >= {
        "app/users.py",
        "notes.md",
    }
    assert await index_records.count_outdated_chunks(db, record) == await counted(db, record) == 7
    # One symbol of a chunk is known, and the last names of the others.
    assert await found(db, record, Filter(symbol_types=("method",))) == {"app/users.py"}
    assert await found(db, record, Filter(symbol_types=("class",))) == {"app/users.py"}, (
        "Fake is not known to be one"
    )
    assert await found(db, record, Filter(symbol_name="fake")) == {"tests/test_users.py"}
    assert await found(db, record, Filter(symbol_types=("function",), symbol_name="open")) == {
        "app/store.go"
    }


async def test_files_written_since_are_exact(db: Database) -> None:
    record = await old_index(db)
    write = file_write("tests/test_users.py", "test_find_is_called: as it was, but written now")
    symbols = tuple(
        Symbol(kind, name.rpartition(".")[2], name, "", None, 0, 9, 1, 1)
        for kind, name in [
            ("function", "test_find_is_called"),
            ("class", "Fake"),
            ("method", "Fake.find"),
        ]
    )
    chunk = replace(write.chunks[0], symbols=symbols)
    await replace_file(db, record, replace(write, chunks=(chunk,)))
    assert (
        await index_records.count_outdated_chunks(db, record) == await counted(db, record) - 1 == 6
    )
    new = {"tests/test_users.py"}
    assert await found(db, record, Filter(symbol_types=("class",))) == {"app/users.py"} | new
    assert await found(db, record, Filter(symbol_types=("class",), symbol_name="fake")) == new
    assert await found(db, record, Filter(symbol_types=("class",), symbol_name="find")) == set(), (
        "find is no class"
    )
    assert await found(db, record, Filter(symbol_types=("method",), symbol_name="fake.*")) == new
    await replace_file(db, record, write)
    assert await index_records.count_outdated_chunks(db, record) == 6, (
        "without symbols is not the same as not known"
    )


async def test_rows_of_before_are_written_anew_with_their_file(db: Database) -> None:
    """Though nothing of the file has changed: `reindex` is the remedy that the warning names."""
    record = await old_index(db)
    previous = await index_records.table_digest(db, record)
    async with db.connection() as connection:
        query = compose(
            "select chunk_hash from {chunks} where filename = 'app/store.go' and {live}", record
        )
        (old,) = await (await connection.execute(query)).fetchall()
    text = "package store\n\nfunc Open(path string) error {\n\treturn nil\n}"
    await replace_file(db, record, file_write("app/store.go", text, language="go"))
    async with db.connection() as connection:
        (new,) = await (await connection.execute(query)).fetchall()
    assert new != old
    assert await index_records.table_digest(db, record) != previous


async def test_rows_of_before_are_packed_with_their_file(db: Database) -> None:
    """The upgrade writes no row, and older rows answer as they did."""
    record = await new_index(db)
    expected = await catalogue(db)
    texts = {"a.py": ["one: é", "two", 'quo"te\\n'], "b.py": ["one: 1", "phrase of two"]}
    for path, contents in texts.items():
        await replace_file(db, record, file_write(path, *contents))
    packed_digest = await index_records.table_digest(db, record)
    answers = await answers_of(db, record)
    await unpack_rows(db, record)
    written = await writers(db, record)
    async with db.connection() as connection, connection.transaction():
        for part in split_statements(TEXTS_IN_COLUMNS):  # a distributed schema takes no more
            await connection.execute(compose(part, record))
        await connection.execute("update cocosearch_indexes set version = 9")
    await migrate_registry(db)
    assert await catalogue(db) == expected
    assert await writers(db, record) == written
    assert await answers_of(db, record) == answers
    assert await index_records.table_digest(db, record) != packed_digest
    async with db.connection() as connection:  # as the rows of version 9 have another digest
        await connection.execute(compose("update {chunks} set chunk_hash = 'old'", record))
    for path, contents in texts.items():
        await replace_file(db, record, file_write(path, *contents))
    assert await index_records.table_digest(db, record) == packed_digest
    assert await answers_of(db, record) == answers


async def test_an_upgrade_reads_only_files_again_that_were_to_be_read(db: Database) -> None:
    record = await new_index(db)
    for write in (file_write("a.py", "a: 1"), file_write("b.go", "b: 1", language="go")):
        await replace_file(db, record, write)
    await invalidate(db, record, record.identity, {}, AffectedFiles(languages=("go",)))
    async with db.connection() as connection, connection.transaction():
        await connection.execute(compose(WITHOUT_RULES, record))
        # Version 10 kept no device of such files.
        await connection.execute(compose(CLEAR_GO, record))
        await connection.execute("update cocosearch_indexes set version = 10")
    await migrate_registry(db)
    a, b = await index_records.file_records(db, record)
    assert (a.fingerprint, b.fingerprint) == (fingerprint(), None)
    checked = [(file.path, file.content_hash, fingerprint()) for file in (a, b)]
    assert await refresh_fingerprints(db, record, checked, b"rules") == {"a.py"}


async def answers_of(db: Database, record: IndexRecord) -> list[object]:
    """Read the texts of an index in each way."""
    paths = ["a.py", "b.py"]
    return [
        [await keyword_search(db, record, word, Filter(), 9) for word in ("one", "two", "é")],
        await first_matches(db, record, Filter(phrases=("Phrase of",)), 9),
        await first_matches(db, record, Filter(phrases=('quo"te',)), 9),
        [file.chunks async for file in file_chunks(db, record, None)],
        [file.chunks async for file in file_texts(db, record, None)],
        await stored_texts(db, record, paths),
        (await phrase_matches_in_files(db, record, Filter(phrases=("one",)), paths)).starts,
        await count_matching_chunks(db, record, "b.py", Filter(phrases=("one",))),
    ]


# The reverse of migration 11.
WITHOUT_RULES = "alter table {files} drop column rules_digest;"
CLEAR_GO = "update {files} set fingerprint = null where language_id = 'go'"
# The reverse of migrations 11 and 10, after `unpack_rows`.
TEXTS_IN_COLUMNS = (
    WITHOUT_RULES
    + """
alter table {chunks} drop column packed_texts;
alter table {chunks}
    alter column content_text set not null, alter column block_type set not null, alter column hierarchy set not null,
    alter column definitions set not null, alter column header set not null;
"""
)
# The reverse of migration 9, and of migrations 8 to 6 of the registry: the words of each row are in it.
WORDS_IN_ROWS = """
drop table {words};
alter table {chunks} add column content_tsv_input text not null default '';
alter table {chunks}
    add column content_tsv tsvector not null generated always as (to_tsvector('simple', content_tsv_input)) stored;
create index {chunks_text} on {chunks} using gin (content_tsv) with (fastupdate = off);
"""
VERSION_8 = (
    TEXTS_IN_COLUMNS
    + WORDS_IN_ROWS
    + """
update cocosearch_indexes set version = 8;
drop table cocosearch_publications;
alter table cocosearch_registry drop column host, drop column owner,
    drop column timeline;
alter table cocosearch_indexes drop column words;
update cocosearch_registry set version = 5;
"""
)


async def test_words_leave_the_rows_and_no_row_is_written(db: Database) -> None:
    """The upgrade takes no time, nothing is read again, and `classic` answers as before."""
    record = await new_index(db)
    expected = await catalogue(db)
    for n in range(20):
        await replace_file(db, record, file_write(f"{n}.py", f"one: {n}", "two words", "words"))
    await unpack_rows(db, record)
    digest = await index_records.table_digest(db, record)
    files = compose("select pg_relation_filenode({chunks_name})", record)
    async with db.connection() as connection:
        async with connection.transaction():
            await connection.execute(compose(VERSION_8, record))
        stored = await (await connection.execute(files)).fetchone()
        await migrate_registry(db)
        assert await (await connection.execute(files)).fetchone() == stored
    assert await catalogue(db) == expected
    assert await index_records.table_digest(db, record) == digest
    assert await index_records.damaged_files(db, record) == ()
    queries = ["two words", "words", "7", "absent"]
    answers = [await keyword_search(db, record, query, Filter(), 50) for query in queries]
    assert [len(answer) for answer in answers] == [20, 40, 3, 0]
    await fill_words(db, record, split_texts)
    assert [await keyword_search(db, record, query, Filter(), 50) for query in queries] == answers
    await replace_file(db, record, file_write("7.py", "one: more"))
    assert len(await keyword_search(db, record, "7 more", Filter(), 50)) == 1


# The reverse of migrations 4 to 11: tables as they were before them, with rows in them.
VERSION_3 = (
    TEXTS_IN_COLUMNS
    + WORDS_IN_ROWS
    + """
alter table {chunks} drop constraint {chunks_key};
alter table {chunks} add column location int8range, add column start_line integer, add column end_line integer;
update {chunks} c
set location = int8range(p.start, p.start + c.byte_count), start_line = p.line, end_line = p.line + c.line_count - 1
from {files} f, unnest(f.chunk_numbers, f.starts, f.first_lines) as p(number, start, line)
where c.filename = f.filename and c.chunk_number = p.number;
alter table {chunks} drop column chunk_number, drop column byte_count, drop column line_count;
alter table {chunks}
    alter column location set not null, alter column start_line set not null, alter column end_line set not null,
    add constraint {chunks_key} primary key (filename, location);
alter table {files} reset (toast_tuple_target);
alter table {files} drop column chunk_numbers, drop column starts, drop column first_lines, drop column symbols,
    drop column facts, drop column name_hashes;
drop table {retained_chunks};
update cocosearch_indexes set version = 3;
"""
)


async def test_places_move_from_chunks_to_files(db: Database) -> None:
    """Answers stay as they are, and no row is written when its file comes again, whole or
    shifted.
    """
    record = await new_index(db)
    texts = {
        "a.py": ["one: 1", "two: 22", "same: 3", "same: 3"],
        "long.py": [f"f{n}: {n}" for n in range(600)],
        "e.py": [],
    }
    for path, contents in texts.items():
        await replace_file(db, record, file_write(path, "new: 0", *contents))
        await replace_file(db, record, file_write(path, *contents))
    await drop_retained_chunks(db, record, 0.0)
    await unpack_rows(db, record)
    await ensure_vector_index(db, record, build_at=1)
    previous, chunks = (
        await index_records.table_digest(db, record),
        [file async for file in file_chunks(db, record, None)],
    )
    async with db.connection() as connection, connection.transaction():
        await connection.execute(compose(VERSION_3, record))
    await migrate_registry(db)
    assert await index_records.table_digest(db, record) == previous
    assert [file async for file in file_chunks(db, record, None)] == chunks
    assert await index_records.damaged_files(db, record) == ()
    assert (await vector_search(db, record, vector_of("f7: 7"), Filter(), 1))[0].content == "f7: 7"
    assert [hit.start_byte for hit in await keyword_search(db, record, "same", Filter(), 9)] == [
        13,
        20,
    ]
    assert await ensure_vector_index(db, record, build_at=1) == "built"
    written = await writers(db, record)
    for path, contents in texts.items():
        generation = await index_records.read_generation(db, record)
        assert await replace_file(db, record, file_write(path, *contents)) == generation
        await replace_file(
            db, record, file_write(path, "new: 0", *contents[:300], "middle: 0", *contents[300:])
        )
        await replace_file(db, record, file_write(path, *contents))
    assert await writers(db, record) == written
    assert await index_records.table_digest(db, record) == previous


# The reverse of migrations 8 to 4 of the registry, with an index that waits for its tables to be
# dropped.
REGISTRY_3 = """
drop table cocosearch_publications;
alter table cocosearch_registry drop column host, drop column owner,
    drop column timeline;
alter table cocosearch_indexes drop column words;
drop table cocosearch_precise_uses;
drop index cocosearch_indexes_root;
alter table cocosearch_indexes drop constraint cocosearch_indexes_role_check;
alter table cocosearch_indexes rename column role to standing;
update cocosearch_indexes set standing = 'former';
alter table cocosearch_indexes add check (standing in ('current', 'next', 'former'));
alter table cocosearch_indexes rename column shaping_settings to made_with;
create unique index cocosearch_indexes_root
    on cocosearch_indexes (sha256(root), standing) where standing <> 'former';
update cocosearch_registry set version = 3;
"""


async def test_a_retired_index_is_still_retired_under_the_new_name(db: Database) -> None:
    record = await new_index(db)
    expected = await catalogue(db)
    async with db.connection() as connection, connection.transaction():
        await connection.execute(REGISTRY_3)
    await migrate_registry(db)
    assert await catalogue(db) == expected
    assert await list_indexes_by_role(db, RETIRED) == (record,)
    await drop_retired_indexes(db)
    assert await index_records.list_indexes(db) == ()


async def writers(db: Database, record: IndexRecord) -> list[tuple[str, ...]]:
    """The rows, and the transactions that wrote them; without retained ones."""
    rows = await stored_contents(db, record, "{live}")
    return [(path, text, version) for path, _, text, version in rows]


async def found(db: Database, record: IndexRecord, where: Filter) -> set[str]:
    return {hit.path for hit in await first_matches(db, record, where, 99)}


async def counted(db: Database, record: IndexRecord) -> int:
    return (await index_records.counts(db, record)).chunks
