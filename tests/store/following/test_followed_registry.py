"""Another daemon's schema, read through this daemon's pool: the same answers, and no writes."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from cocosearchd.errors import CocoSearchError, NotFound, Refused
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import IndexRecord
from cocosearchd.store import index_records
from cocosearchd.store.chunks.file_writer import delete_file, replace_file
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.migrate import fetch_schema
from cocosearchd.store.connection.statements import (
    is_write,
    migrations,
    named_statements,
    statement,
)
from cocosearchd.store.file_facts import file_code, searched_generations
from cocosearchd.store.following.followed_registry import (
    FollowedRegistry,
    changed_files,
    count_path_lengths,
    paths_of_lengths,
    read_registry,
)
from cocosearchd.store.following.publications import (
    owner_channel,
    publish,
    read_moment,
    read_publication,
    read_publications,
    set_host,
)
from cocosearchd.store.index_roles import promote_index
from cocosearchd.store.precise_use_rows import count_precise_uses, delete_precise_uses
from cocosearchd.store.reads.chunk_reads import chunks_with_files, file_chunks, vector_search
from cocosearchd.store.reads.file_states import file_states
from cocosearchd.store.reads.index_texts import file_texts
from cocosearchd.store.words.words_table import fill_words
from tests.store.owner import open_schema
from tests.store.support import file_write, keyword_search, new_index, split_texts, vector_of

SCHEMA = 'Team "B"'
TEXTS = {"a.py": ("connect: opens a socket", "close: ends it"), "b.py": ("retry: tries again",)}


@pytest.fixture
async def owner(dsn: str, db: Database) -> AsyncIterator[Database]:
    """The database as the daemon of the other schema sees it."""
    async with open_schema(dsn, db, SCHEMA) as database:
        yield database


async def followed(db: Database) -> IndexRecord:
    registry = await read_registry(db, SCHEMA)
    (record,) = registry.records
    return record


async def fill(owner: Database) -> IndexRecord:
    record = await new_index(owner)
    for path, texts in TEXTS.items():
        await replace_file(owner, record, file_write(path, *texts))
    (record,) = await index_records.list_indexes(owner)
    return record


async def test_all_reads_give_the_same_for_a_followed_index(db: Database, owner: Database) -> None:
    owned = await fill(owner)
    await fill_words(owner, owned, split_texts)
    followed_record = await followed(db)
    assert (followed_record.name, followed_record.owner_name, followed_record.schema) == (
        f"code@{SCHEMA}",
        "code",
        SCHEMA,
    )
    assert replace(followed_record, name="code", schema="") == owned
    assert followed_record.key != owned.key

    async def read_all(database: Database, record: IndexRecord) -> list[object]:
        hits = await vector_search(database, record, vector_of("retry: tries again"), Filter(), 5)
        keys = [(hit.path, hit.start_byte, hit.end_byte) for hit in hits]
        return [
            hits,
            await keyword_search(database, record, "socket", Filter(), 5),
            await chunks_with_files(database, record, keys),
            await index_records.statistics(database, record),
            await index_records.file_records(database, record),
            await index_records.file_generations(database, record),
            await index_records.read_generation(database, record),
            await index_records.read_incarnation(database, record),
            await index_records.damaged_files(database, record),
            await index_records.table_digest(database, record),
            await file_states(database, record, list(TEXTS)),
            await file_code(database, record, list(TEXTS)),
            await searched_generations(database, record),
            await count_precise_uses(database, record),
            [file async for file in file_chunks(database, record, None)],
            [
                (file.path, file.chunks, file.vectors.tolist(), file.digest)
                async for file in file_texts(database, record, None)
            ],
        ]

    assert await read_all(db, followed_record) == await read_all(owner, owned)


async def test_an_index_of_the_same_number_is_another_index(db: Database, owner: Database) -> None:
    mine = await new_index(db)
    await replace_file(db, mine, file_write("mine.py", "mine: of this daemon"))
    await fill(owner)
    followed_record = await followed(db)
    assert (followed_record.number, followed_record.slug) == (mine.number, mine.slug)
    assert {file.path for file in await index_records.file_records(db, mine)} == {"mine.py"}
    assert {file.path for file in await index_records.file_records(db, followed_record)} == set(
        TEXTS
    )


async def test_no_write_reaches_the_schema_of_another_daemon(db: Database, owner: Database) -> None:
    mine = await new_index(db)
    owned = await fill(owner)
    digest = await index_records.table_digest(owner, owned)
    followed_record = await followed(db)
    writes = (
        replace_file(db, followed_record, file_write("c.py", "new: text")),
        delete_file(db, followed_record, "a.py"),
        index_records.drop_index(db, followed_record),
        index_records.set_topics(db, followed_record, ("stolen",)),
        promote_index(db, followed_record, followed_record),
        delete_precise_uses(db, followed_record),
        fill_words(db, followed_record, split_texts),
        publish(db, followed_record, await read_moment(db), None),
    )
    for write in writes:
        with pytest.raises(CocoSearchError):
            await write
    assert await index_records.table_digest(owner, owned) == digest
    assert await index_records.list_indexes(owner) == (owned,)
    assert await index_records.list_indexes(db) == (mine,)


def test_a_statement_that_writes_is_refused_by_its_text() -> None:
    record = IndexRecord(1, "a@b", "a", b"/a", (), 8, None, 0, schema="b")  # type: ignore[arg-type]
    verbs = re.compile(
        r"^\s*(insert|update|delete|copy|truncate|create|alter|drop|lock|reindex|vacuum|analyze)\b"
        r"|\bas \(\s*(insert|update|delete)\b|\bpg_(try_)?advisory",
        re.MULTILINE,
    )
    for name, text in named_statements().items():
        writes = verbs.search(re.sub(r"--.*", "", text)) is not None
        assert is_write(text) == writes, name
        if writes and not re.search(r"\{(filter|columns|index|written|symbol|relations)\}", text):
            with pytest.raises(Refused, match="schema b"):
                statement(name, record)


async def test_changes_are_found_by_their_generation(db: Database, owner: Database) -> None:
    owned = await fill(owner)
    followed_record = await followed(db)
    everything = await changed_files(db, followed_record, -1)
    assert (everything.file_count, set(everything.generations)) == (2, set(TEXTS))
    assert everything.generation == owned.generation
    await replace_file(owner, owned, file_write("b.py", "retry: tries once more"))
    await delete_file(owner, owned, "a.py")
    changes = await changed_files(db, followed_record, everything.generation)
    assert (changes.generation, changes.file_count) == (everything.generation + 2, 1)
    assert changes.generations == {"b.py": everything.generation + 1}
    assert await count_path_lengths(db, followed_record) == {len("b.py"): 1}
    assert await paths_of_lengths(db, followed_record, [len("b.py")]) == {"b.py"}
    assert await paths_of_lengths(db, followed_record, [1, 5]) == frozenset()
    assert (await changed_files(db, followed_record, changes.generation)).generations == {}
    await index_records.drop_index(owner, owned)
    with pytest.raises(NotFound):
        await changed_files(db, followed_record, 0)


async def test_a_publication_answers_earlier_questions_only(db: Database, owner: Database) -> None:
    owned = await fill(owner)
    followed_record = await followed(db)
    assert await read_publication(db, followed_record) is None
    channel = await owner_channel(db, SCHEMA)
    assert channel.name == (await owner_channel(owner)).name
    earlier = await channel.ask(db, followed_record)
    begun = await read_moment(owner)
    await publish(owner, owned, begun, None)
    later = await channel.ask(db, followed_record)
    publication = await read_publication(db, followed_record)
    assert publication is not None
    assert (publication.begun, publication.generation) == (begun, owned.generation)
    assert (publication.stale_code, publication.stale_reason) == (None, None)
    assert earlier.is_before(publication.begun)
    assert not later.is_before(publication.begun)
    await publish(owner, owned, await read_moment(owner), ("scanning", "the root is being scanned"))
    (publication,) = (await read_publications(db, SCHEMA)).values()
    assert later.is_before(publication.begun)
    assert publication.stale_code == "scanning"
    assert publication.clean_age_s is not None
    assert 0 <= publication.clean_age_s < 60
    await index_records.drop_index(owner, owned)
    assert await read_publications(db, SCHEMA) == {}


async def test_a_schema_that_cannot_be_followed_is_refused(db: Database, owner: Database) -> None:
    await fill(owner)
    await set_host(owner, "build-7")
    registry = await read_registry(db, SCHEMA)
    assert isinstance(registry, FollowedRegistry)
    assert registry.host == "build-7"
    with pytest.raises(NotFound, match="schema nowhere has no registry"):
        await read_registry(db, "nowhere")
    async with db.connection() as connection:
        own_schema = await fetch_schema(connection)
    with pytest.raises(Refused, match="is that of this daemon itself"):
        await read_registry(db, own_schema)
    for column, change, message in (
        ("cocosearch_registry", "version = version + 1", "newer"),
        ("cocosearch_registry", "version = version - 2", "older"),
        ("cocosearch_indexes", "version = version - 1", "older"),
        ("cocosearch_indexes", "version = version + 2", "newer"),
    ):
        if column == "cocosearch_indexes":
            await set_registry_version(owner)
        async with owner.connection() as connection:
            await connection.execute(f'update "Team ""B""".{column} set {change}')
        with pytest.raises(Refused, match=f"{message} cocosearchd"):
            await read_registry(db, SCHEMA)


async def set_registry_version(owner: Database) -> None:
    async with owner.connection() as connection:
        await connection.execute(
            'update "Team ""B""".cocosearch_registry set version = %s',
            (len(migrations("registry")),),
        )
