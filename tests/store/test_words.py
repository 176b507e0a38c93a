"""Stored words of an index: filled beside saves and after crashes, dropped, and searched in both
ways.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import psycopg
import pytest

from cocosearchd.errors import StoreUnavailable
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.indexing.pipeline.chunker import chunk_keywords
from cocosearchd.languages.identifiers import split_text
from cocosearchd.model import IndexRecord
from cocosearchd.search.classic.word_splitter import split_in_thread
from cocosearchd.store.chunks.chunk_retention import drop_retained_chunks
from cocosearchd.store.chunks.file_writer import delete_file, replace_file, replace_files
from cocosearchd.store.chunks.packed_texts import unpack_texts
from cocosearchd.store.chunks.rows import Candidate, FileWrite
from cocosearchd.store.connection.database import Database, fetch_row
from cocosearchd.store.connection.statements import compose, statement
from cocosearchd.store.index_records import damaged_files
from cocosearchd.store.words import words_table
from cocosearchd.store.words.keyword_search import has_words, keyword_search
from cocosearchd.store.words.words_table import drop_words, fill_words, is_filling
from tests.store.support import differing, file_write, new_index, stored_words

PIECES = [
    *("open", "openFile", "open_file", "__init__", "HTTPServer2", "foo-bar", "foo", "bar", "x2y"),
    *("b.c", "a/b", "7", "3.14", "1e5", "-5", "user@host.org", "self", "self", "self.cache[key]"),
    *("\u00e9tage", "E\u0301TAGE", "\u212aelvin", "\ufb01le", "\uff21scii", "na\u00efve"),
    *("\u6587\u5b57\u5217", "\u691c\u7d22", "it's", "\\", "<->"),
]
QUERIES = [
    *("open", "open file", "openfile", "init", "httpserver2", "foo bar", "foo-bar", "bar foo open"),
    *(
        "x2y",
        "7",
        "3.14",
        "1e5",
        "-5",
        "etage",
        "\u00c9tage",
        "kelvin",
        "file",
        "\uff41scii",
        "naive",
    ),
    *(
        "\u6587\u5b57",
        "\u691c\u7d22",
        "self cache key",
        "it's",
        "\\",
        "absent",
        "self absent",
        "",
        "' | &",
    ),
]
FILTERS = [
    Filter(),
    Filter(paths=("src/**",)),
    Filter(languages=("go",)),
    Filter(phrases=("open file",)),
    Filter(not_paths=("src/**",), phrases=("self",)),
]


def with_real_words(write: FileWrite) -> FileWrite:
    return replace(write, keywords=chunk_keywords)


def random_write(dice: random.Random, number: int) -> FileWrite:
    texts = [
        " ".join(dice.choices(PIECES, k=dice.randint(1, 9))) for _ in range(dice.randint(1, 5))
    ]
    folder, language = dice.choice([("src", "python"), ("lib", "go")])
    return with_real_words(file_write(f"{folder}/{number}.x", *texts, language=language))


async def random_corpus(db: Database, seed: int, files: int = 40) -> IndexRecord:
    """Files, some of which have changed or are gone, so that there are retained chunks."""
    dice = random.Random(seed)
    record = await new_index(db)
    for _ in range(2):
        writes = [random_write(dice, number) for number in range(files)]
        await replace_files(db, record, await differing(db, record, writes))
    await delete_file(db, record, "src/1.x")
    return record


async def search(
    db: Database, record: IndexRecord, queries: Sequence[str] = QUERIES
) -> list[tuple[Candidate, ...]]:
    return [
        await keyword_search(db, record, split_text(query), where, limit, split_in_thread)
        for query in queries
        for where in FILTERS
        for limit in (3, 100)
    ]


async def expected_words(db: Database, record: IndexRecord) -> dict[tuple[str, int], str]:
    """Return the words that all chunks must have."""
    query = compose("select filename, chunk_number, {texts} from {chunks}", record)
    words = "select to_tsvector('simple', %s)::text"
    expected = dict[tuple[str, int], str]()
    async with db.connection() as connection:
        for path, number, packed in await (await connection.execute(query)).fetchall():
            text = unpack_texts(path, packed).searched
            cursor = await connection.execute(words, (split_text(text),))
            row = await cursor.fetchone()
            assert row
            expected[path, number] = row[0]
    return expected


async def assert_complete(db: Database, record: IndexRecord) -> None:
    assert await has_words(db, record)
    assert await stored_words(db, record) == await expected_words(db, record)
    assert await damaged_files(db, record) == ()


async def fill_at_last(db: Database, record: IndexRecord) -> None:
    """Fill, as soon as PostgreSQL has noticed the end of an earlier session."""
    while (outcome := await fill_words(db, record, split_in_thread)) == "busy":  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert outcome == "filled"


class Interrupting:
    """Splits texts, and does something before it returns those of one page."""

    def __init__(self, page: int, action: Callable[[], Awaitable[object]]) -> None:
        self._page = page
        self._action = action
        self.pages = 0

    async def __call__(self, texts: Sequence[str]) -> list[str]:
        words = await split_in_thread(texts)
        self.pages += 1
        if self.pages == self._page:
            await self._action()
        return words


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_table, "PAGE_CHUNKS", 7)


async def test_both_ways_give_the_same_answers(db: Database) -> None:
    """Before words are filled, while they are, and with them; the documented order includes ties."""
    record = await random_corpus(db, 1)
    answers_by_reading = await search(db, record)
    assert sum(map(bool, answers_by_reading)) > len(answers_by_reading) / 3
    assert not await has_words(db, record)
    during = list[list[tuple[Candidate, ...]]]()

    async def look() -> None:
        assert await is_filling(db, record)
        during.append(await search(db, record, QUERIES[:6]))

    assert await fill_words(db, record, Interrupting(1, look)) == "filled"
    assert during == [answers_by_reading[: len(during[0])]]
    assert await search(db, record) == answers_by_reading
    await assert_complete(db, record)
    assert await fill_words(db, record, split_in_thread) == "kept"


@pytest.mark.usefixtures("small_pages")
async def test_a_cancelled_fill_goes_on_where_words_are_missing(db: Database) -> None:
    record = await random_corpus(db, 2)

    async def forever() -> None:
        await asyncio.sleep(3600)

    splitter = Interrupting(4, forever)
    task = asyncio.create_task(fill_words(db, record, splitter))
    while splitter.pages < 4:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await is_filling(db, record)
    stored = await stored_words(db, record)
    assert len(stored) == 3 * words_table.PAGE_CHUNKS
    # what is saved now, before and behind the place where the fill was
    await replace_file(db, record, with_real_words(file_write("a.py", "first: 1")))
    await replace_file(db, record, with_real_words(file_write("z.py", "last: 1", "last: 2")))
    again = Interrupting(0, forever)
    assert await fill_words(db, record, again) == "filled"
    total = len(await expected_words(db, record))
    assert again.pages <= (total - len(stored)) / words_table.PAGE_CHUNKS + 2, "none twice"
    await assert_complete(db, record)


@pytest.mark.usefixtures("small_pages")
async def test_a_fill_survives_the_end_of_its_connection(db: Database) -> None:
    record = await random_corpus(db, 3)

    async def end_others() -> None:
        async with db.connection() as connection:
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'"
                " and classid = 25446 and pid <> pg_backend_pid()"
            )

    with pytest.raises(StoreUnavailable):
        await fill_words(db, record, Interrupting(2, end_others))
    assert await is_filling(db, record)
    await fill_at_last(db, record)
    await assert_complete(db, record)


@pytest.mark.usefixtures("small_pages")
async def test_changes_between_the_read_and_the_write_of_a_page_are_kept(db: Database) -> None:
    """Chunks of the page are replaced under their numbers, retained, dropped and deleted."""
    record = await random_corpus(db, 4, files=8)
    paths = sorted({path for path, _ in await expected_words(db, record)})

    async def change() -> None:
        writes = [
            with_real_words(file_write(path, f"new{n}: words of {path}", "self"))
            for n, path in enumerate(paths[:4])
        ]
        await replace_files(db, record, writes[:2])
        await replace_files(db, record, await differing(db, record, writes[2:]))
        await delete_file(db, record, paths[4])
        await drop_retained_chunks(db, record, 0.0)
        await replace_file(db, record, with_real_words(file_write("zz.py", "behind: it")))

    for page in (1, 2):
        await drop_words(db, record, grace_s=0)
        assert await fill_words(db, record, Interrupting(page, change)) == "filled"
        await assert_complete(db, record)
    assert await search(db, record, ["behind"]) != [()] * 2 * len(FILTERS)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("seed", range(3))
async def test_saves_beside_a_fill_are_not_lost(db: Database, seed: int) -> None:
    record = await random_corpus(db, seed)
    ended = asyncio.Event()

    async def write_on(number: int) -> None:
        dice = random.Random(100 * seed + number)
        while not ended.is_set():
            write = random_write(dice, dice.randrange(number, 40, 3))
            act = dice.choice(["save", "switch", "delete", "drop"])
            if act == "save":
                await replace_file(db, record, write)
            elif act == "switch":
                await replace_files(db, record, await differing(db, record, [write]))
            elif act == "delete":
                await delete_file(db, record, write.path)
            else:
                await drop_retained_chunks(db, record, 0.0)

    writers = [asyncio.create_task(write_on(number)) for number in range(3)]
    for _ in range(2):
        assert await fill_words(db, record, split_in_thread) == "filled"
        assert await drop_words(db, record, grace_s=0) == "dropped"
    assert await fill_words(db, record, split_in_thread) == "filled"
    ended.set()
    await asyncio.gather(*writers)
    await assert_complete(db, record)


async def test_a_write_under_way_ends_before_the_first_word_is_filled(db: Database) -> None:
    """It has read that nobody keeps words, so the fill must see its chunks."""
    record = await new_index(db)
    write = with_real_words(file_write("a.py", "one: 1"))
    async with db.connection() as connection, connection.transaction():
        await connection.execute(statement("lock_files", record), {"filenames": ["a.py"]})
        filling = asyncio.create_task(fill_words(db, record, split_in_thread))
        assert not (await asyncio.wait({filling}, timeout=0.5))[0]
        saving = asyncio.create_task(replace_file(db, record, write))
        assert not (await asyncio.wait({saving}, timeout=0.2))[0]
    assert await filling == "filled"
    await saving
    await assert_complete(db, record)
    assert len(await stored_words(db, record)) == 1


async def test_two_do_not_fill_at_once(db: Database) -> None:
    record = await random_corpus(db, 5)
    has_begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def split_later(texts: Sequence[str]) -> list[str]:
        has_begun.set()
        await may_go_on.wait()
        return await split_in_thread(texts)

    first = asyncio.create_task(fill_words(db, record, split_later))
    await has_begun.wait()
    outcomes = [await fill_words(db, record, split_in_thread) for _ in range(2)]
    may_go_on.set()
    assert sorted([*outcomes, await first]) == ["busy", "busy", "filled"]


async def test_an_index_of_words_that_was_not_built_to_its_end_is_built_again(
    db: Database,
) -> None:
    """A killed daemon leaves it so: here the build waits for another transaction until its time is
    over.
    """
    record = await random_corpus(db, 6)
    await fill_words(db, record, split_in_thread)
    async with db.session({}) as connection, db.connection() as locker:
        await connection.execute(statement("set_words_state", record), {"state": "filling"})
        await connection.execute(statement("drop_words_index", record))
        async with locker.transaction():
            await locker.execute(compose("lock table {words} in row exclusive mode", record))
            await connection.execute("set statement_timeout = 300")
            with pytest.raises(psycopg.errors.QueryCanceled):
                await connection.execute(statement("build_words_index", record))
            await connection.execute("set statement_timeout = 0")
        row = await (await connection.execute(statement("words_index_state", record))).fetchone()
        assert row == (True, False)
        assert await fill_words(db, record, split_in_thread) == "filled"
        row = await (await connection.execute(statement("words_index_state", record))).fetchone()
        assert row == (True, True)


async def test_dropped_words_leave_nothing_and_no_answer_changes(db: Database) -> None:
    record = await random_corpus(db, 7)
    answers_by_reading = await search(db, record, QUERIES[:6])
    await fill_words(db, record, split_in_thread)
    assert await words_bytes(db, record) > 0
    assert await drop_words(db, record, grace_s=0) == "dropped"
    assert await drop_words(db, record, grace_s=0) == "none"
    assert await stored_words(db, record) == {}
    assert await words_bytes(db, record) == 0
    assert await search(db, record, QUERIES[:6]) == answers_by_reading


async def words_bytes(db: Database, record: IndexRecord) -> int:
    """The size of the rows of words: autovacuum adds files of its own to all tables at any time."""
    query = compose("select pg_relation_size('{words}')", record)
    async with db.connection() as connection:
        row = await fetch_row(connection, query, {})
    assert row
    return int(row[0])


async def test_words_stay_for_searches_that_have_begun_and_a_cancelled_drop_is_ended(
    db: Database,
) -> None:
    record = await random_corpus(db, 8)
    await fill_words(db, record, split_in_thread)
    dropping = asyncio.create_task(drop_words(db, record, grace_s=3600))
    while await has_words(db, record):  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.01)
    assert await stored_words(db, record) == await expected_words(db, record)
    dropping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dropping
    # From here on nobody keeps words: those that are left are of earlier chunks.
    await replace_file(db, record, with_real_words(file_write("src/2.x", "other: words")))
    await fill_at_last(db, record)
    await assert_complete(db, record)


async def test_missing_words_are_damage(db: Database) -> None:
    record = await random_corpus(db, 9)
    await fill_words(db, record, split_in_thread)
    async with db.connection() as connection:
        for text in (
            "delete from {words} where filename = 'src/3.x' or filename = 'lib/3.x'",
            "insert into {words} values ('nowhere', 1, '')",
        ):
            await connection.execute(compose(text, record))
    damaged = await damaged_files(db, record)
    assert "nowhere" in damaged
    assert {"nowhere"} < set(damaged) <= {"nowhere", "src/3.x", "lib/3.x"}
