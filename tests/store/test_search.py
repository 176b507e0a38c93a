"""The read path: both retrievers and their filters against a slow reference in Python."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable, Sequence

import numpy as np
import psycopg
import pytest

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.errors import InvalidInput, NotFound
from cocosearchd.filters.conditions import phrase_query
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.forms.unicode_forms import spellings
from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.chunk_retention import drop_retained_chunks
from cocosearchd.store.chunks.file_writer import delete_file, replace_file
from cocosearchd.store.chunks.rows import Candidate, FileWrite
from cocosearchd.store.chunks.vector_index import ensure_vector_index
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose, statement
from cocosearchd.store.index_records import drop_index
from cocosearchd.store.reads.chunk_reads import (
    PLANNED_ONCE,
    chunks_with_files,
    first_matches,
    vector_search,
)
from cocosearchd.store.reads.file_states import FileStates, file_states
from cocosearchd.store.words.words_table import fill_words
from tests.store.support import file_write, keyword_search, new_index, split_texts, vector_of

FILES = [
    file_write(
        "src/auth/login.py", "login: check password token", "Session.open: opens token", "import os"
    ),
    file_write("src/auth/tests/test_login.py", "test_login: password is wrong", "other words"),
    file_write(
        "src/http/server.go", "Serve: open a socket", "Session.close: closes", language="go"
    ),
    file_write(
        "docs/login.md", "how to login with a password", "100% of_it \\ done", language="markdown"
    ),
    file_write("main.rs", "main: open", language="rust"),
]


async def corpus(
    db: Database, files: Sequence[FileWrite] = FILES, *, with_words: bool = True
) -> IndexRecord:
    record = await new_index(db)
    if with_words:
        await fill_words(db, record, split_texts)
    for write in files:
        await replace_file(db, record, write)
    return record


def texts(hits: Sequence[Candidate]) -> list[str]:
    return [hit.content for hit in hits]


async def test_vector_search_is_exact_and_ordered(db: Database) -> None:
    record = await corpus(db)
    query = vector_of("a question")
    everything = [
        (chunk.text, vector_of(chunk.text) @ query) for write in FILES for chunk in write.chunks
    ]
    everything.sort(key=lambda pair: -pair[1])
    hits = await vector_search(db, record, query, Filter(), 5)
    assert texts(hits) == [text for text, _ in everything[:5]]
    assert np.allclose(
        [hit.score for hit in hits], [score for _, score in everything[:5]], atol=2e-3
    )
    assert len(await vector_search(db, record, query, Filter(), 100)) == len(everything)
    assert await vector_search(db, record, np.zeros(8, np.float32), Filter(), 5) == ()


async def test_a_candidate_has_all_of_its_chunk(db: Database) -> None:
    record = await corpus(db)
    (hit, *_) = await vector_search(db, record, vector_of("Session.open: opens token"), Filter(), 1)
    chunk = FILES[0].chunks[1]
    assert hit.key == ("src/auth/login.py", chunk.start_byte, chunk.end_byte)
    assert (hit.start_line, hit.end_line, hit.language) == (2, 2, "python")
    assert (hit.symbol_type, hit.symbol_name, hit.symbol_signature) == (
        "function",
        "Session.open",
        chunk.text,
    )
    assert (hit.definitions, hit.header, hit.block_type, hit.hierarchy) == (
        ("Session.open",),
        chunk.header,
        "",
        "",
    )
    assert hit.score == pytest.approx(1, abs=1e-3)


FILTERS: list[tuple[Filter, Callable[[Candidate], bool]]] = [
    (Filter(), lambda hit: True),
    (Filter(languages=("python", "go")), lambda hit: hit.language in ("python", "go")),
    (Filter(paths=("src/**",)), lambda hit: hit.path.startswith("src/")),
    (Filter(paths=("*.md", "main.*")), lambda hit: hit.path in ("docs/login.md", "main.rs")),
    (
        Filter(not_paths=("tests/", "*.go")),
        lambda hit: "tests/" not in hit.path and not hit.path.endswith(".go"),
    ),
    (Filter(symbol_types=("function",)), lambda hit: hit.symbol_type == "function"),
    (Filter(symbol_types=("class",)), lambda hit: False),
    (Filter(symbol_name="session.*"), lambda hit: (hit.symbol_name or "").startswith("Session.")),
    (Filter(symbol_name="OPEN"), lambda hit: hit.symbol_name == "Session.open"),
    (Filter(phrases=("PASSWORD",)), lambda hit: "password" in hit.content),
    (
        Filter(phrases=("open", "token")),
        lambda hit: "open" in hit.content and "token" in hit.content,
    ),
    (Filter(phrases=("100% of_it \\",)), lambda hit: hit.content.startswith("100%")),
    (
        Filter(
            languages=("python",), paths=("src/**",), not_paths=("**/test_*",), phrases=("token",)
        ),
        lambda hit: hit.path == "src/auth/login.py" and "token" in hit.content,
    ),
    (Filter(paths=("nowhere/**",)), lambda hit: False),
]


@pytest.fixture(scope="module", params=[True, False], ids=["words", "no words"])
async def filled(
    module_db: Database, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Database, IndexRecord]]:
    """The corpus, with its words stored or not: for tests that only read."""
    record = await corpus(module_db, with_words=request.param)
    yield module_db, record
    await drop_index(module_db, record)


@pytest.mark.parametrize(("where", "passes"), FILTERS, ids=[str(n) for n in range(len(FILTERS))])
async def test_filters_mean_the_same_in_every_search(
    filled: tuple[Database, IndexRecord], where: Filter, passes: Callable[[Candidate], bool]
) -> None:
    db, record = filled
    everything = await vector_search(db, record, vector_of("q"), Filter(), 100)
    expected = {hit.key for hit in everything if passes(hit)}
    assert {
        hit.key for hit in await vector_search(db, record, vector_of("q"), where, 100)
    } == expected
    assert {hit.key for hit in await first_matches(db, record, where, 100)} == expected
    spoken = {
        hit.key for hit in everything if passes(hit) and "open" in re.split(r"\W+", hit.content)
    }
    assert {hit.key for hit in await keyword_search(db, record, "open", where, 100)} == spoken


@pytest.mark.parametrize("with_words", [True, False])
async def test_phrases_are_found_wherever_they_stand(db: Database, with_words: bool) -> None:
    rng, record = random.Random(3), await corpus(db, [], with_words=with_words)
    names = (
        "open Open reopen openFile open_file file files fileName HTTPServer http x2y foo-bar _lead"
    )
    pieces = [
        *names.split(),
        "foo",
        "(foo",
        "foo)",
        "b.c",
        "&",
        "7",
        "e\u0301",
        "\u00e9tage",
        "w" * 140,
    ]
    texts = [" ".join(rng.choices(pieces, k=8)) for _ in range(120)]
    await replace_file(db, record, file_write("a.py", *texts))
    full_text = " ".join(texts)
    for _ in range(400):
        start = rng.randrange(len(full_text))
        phrase = " ".join(
            rng.choice((str.lower, str.upper, str))(
                full_text[start : start + rng.randint(2, 30)]
            ).split()
        )
        if not phrase:
            continue
        hits = await vector_search(db, record, vector_of("q"), Filter(phrases=(phrase,)), 500)
        ways = [spelling.lower() for spelling in spellings(phrase)]
        assert {hit.content for hit in hits} == {
            text for text in texts if any(way in text.lower() for way in ways)
        }, phrase


def test_what_a_phrase_says_of_words() -> None:
    assert phrase_query("open file") == "'file':*"
    assert phrase_query("the Open x2 FILE_name()") == "'open' & 'file':*"
    assert [phrase_query(phrase) for phrase in ("open", "a (b", "1 2", "open 7")] == [
        "",
        "",
        "",
        "",
    ]


async def test_names_defined_inside_a_chunk_are_found(db: Database) -> None:
    record = await corpus(db)
    (hit,) = await first_matches(db, record, Filter(symbol_name="main"), 10)
    assert hit.path == "main.rs"


async def test_a_pattern_that_cannot_be_used(db: Database) -> None:
    record = await corpus(db)
    with pytest.raises(InvalidInput, match="pattern"):
        await first_matches(db, record, Filter(paths=("[z-a]",)), 1)


@pytest.mark.parametrize("with_words", [True, False])
async def test_keywords_need_every_term(db: Database, with_words: bool) -> None:
    record = await corpus(db, with_words=with_words)
    assert {
        hit.path for hit in await keyword_search(db, record, "PASSWORD login", Filter(), 10)
    } == {
        "src/auth/login.py",
        "src/auth/tests/test_login.py",
        "docs/login.md",
    }
    assert await keyword_search(db, record, "password absent", Filter(), 10) == ()
    assert await keyword_search(db, record, "", Filter(), 10) == ()
    assert (
        await keyword_search(db, record, "' | & ! :* \\ \0 <->", Filter(), 10, any_term=True) == ()
    )


async def test_any_term_follows_all_terms(db: Database) -> None:
    record = await corpus(db)
    hits = await keyword_search(db, record, "password token", Filter(), 10, any_term=True)
    assert texts(hits)[0] == "login: check password token"
    assert hits[0].score > 1 > hits[1].score > 0
    assert set(texts(hits)[1:]) == {
        "Session.open: opens token",
        "test_login: password is wrong",
        "how to login with a password",
    }
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert len(await keyword_search(db, record, "password token", Filter(), 2, any_term=True)) == 2
    quoted = await keyword_search(db, record, "th's quo'ted \\token", Filter(), 9, any_term=True)
    assert set(texts(quoted)) == {"Session.open: opens token", "login: check password token"}


async def test_rare_terms_are_chosen_and_weigh_more(db: Database) -> None:
    """Once statistics know how common `common` is, rows with only that term are not even ranked."""
    files = [file_write(f"{n}.py", *(f"common filler{k}" for k in range(100))) for n in range(25)]
    record = await corpus(db, [*files, file_write("rare.py", "rare thing", "rare common")])
    async with db.connection() as connection:
        await connection.execute(statement("analyze_words", record))
    hits = await keyword_search(db, record, "rare common missing", Filter(), 10, any_term=True)
    assert set(texts(hits)) == {"rare common", "rare thing"}


async def test_chunks_come_in_the_order_asked_with_their_files(db: Database) -> None:
    record = await corpus(db)
    everything = await vector_search(db, record, vector_of("q"), Filter(), 100)
    keys = [hit.key for hit in everything]
    hits, states = await chunks_with_files(db, record, [*keys[::-1], ("gone", 0, 1)])
    assert [hit._replace(score=0.0) for hit in everything[::-1]] == list(hits)
    assert states == await file_states(db, record, [path for path, _, _ in keys])
    assert states.generation == len(FILES)
    assert {path: state.generation for path, state in states.files.items()} == {
        write.path: number for number, write in enumerate(FILES, 1)
    }
    assert await chunks_with_files(db, record, []) == ((), FileStates(len(FILES), {}))
    assert await chunks_with_files(db, record, [("gone", 0, 1)]) == ((), FileStates(len(FILES), {}))
    await drop_index(db, record)
    with pytest.raises(NotFound, match="are gone"):
        await chunks_with_files(db, record, keys)


async def test_frequent_statements_are_prepared_only_on_our_own_server(
    dsn: str, db: Database
) -> None:
    record = await corpus(db)
    for url, size, prepared in (
        ("", PLANNED_ONCE, 1),
        ("", PLANNED_ONCE - 1, 0),
        (dsn, PLANNED_ONCE, 0),
    ):
        async with Database.open(
            dsn, DatabaseSettings(url=url, pool_min=1, pool_max=1)
        ) as single_connection:
            for _ in range(3):
                assert (
                    await chunks_with_files(single_connection, record, [("main.rs", 0, 9)], size)
                )[1].generation == len(FILES)
                await vector_search(single_connection, record, vector_of("q"), Filter(), 5)
            async with single_connection.connection() as connection:
                row = await (
                    await connection.execute("select count(*) from pg_prepared_statements")
                ).fetchone()
            assert row == (prepared,), (url, size)


def large_files(count: int) -> list[FileWrite]:
    """Each with 100 chunks; every tenth is of Go, and a single file of a few chunks is of Rust."""
    files = [
        file_write(
            f"dir{n % 7}/{n}.x",
            *(f"word{n} text{k}" for k in range(100)),
            language="go" if n % 10 == 0 else "c",
        )
        for n in range(count)
    ]
    return [*files, file_write("rare/one.rs", *(f"needle{k}" for k in range(5)), language="rust")]


async def leave_invalid_index(db: Database, record: IndexRecord) -> None:
    """Leave the index of a killed build: here it waits for another transaction until its time is
    over.
    """
    async with db.session({"statement_timeout": "300"}) as connection, db.connection() as locker:
        await connection.execute(statement("drop_vector_index", record))
        async with locker.transaction():
            await locker.execute(compose("lock table {chunks} in row exclusive mode", record))
            with pytest.raises(psycopg.errors.QueryCanceled):
                await connection.execute(statement("build_vector_index", record))


async def indexes_of(db: Database, record: IndexRecord) -> list[tuple[object, ...]]:
    query = "select indexrelid::regclass::text, indisvalid from pg_index where indrelid = to_regclass({chunks_name})"
    async with db.connection() as connection:
        return sorted(await (await connection.execute(compose(query, record))).fetchall())


async def test_a_worn_vector_index_is_made_anew(dsn: str) -> None:
    async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=1)) as db:
        record = await corpus(db, large_files(12))
        await ensure_vector_index(db, record, build_at=1000, drop_below=500)
        for n in range(4):
            await delete_file(db, record, f"dir{n}/{n}.x")
        await drop_retained_chunks(db, record, 0.0)
        async with db.connection() as connection:
            await connection.execute("select pg_stat_force_next_flush()")
            await connection.execute("select 1")
        assert await ensure_vector_index(db, record, build_at=1000, drop_below=500) == "rebuilt"
        assert all(valid for _, valid in await indexes_of(db, record))
        assert await ensure_vector_index(db, record, build_at=1000, drop_below=500) == "kept"


async def test_two_do_not_build_at_once(db: Database) -> None:
    record = await corpus(db, large_files(12))
    outcomes = await asyncio.gather(
        *(ensure_vector_index(db, record, build_at=1000) for _ in range(3))
    )
    assert sorted(outcomes) == ["built", "busy", "busy"]


async def test_vector_index_is_made_used_mended_and_dropped(db: Database) -> None:
    files = large_files(12)
    record = await corpus(db, files)
    assert await ensure_vector_index(db, record, build_at=1500) == "none"
    assert await ensure_vector_index(db, record, build_at=1000, drop_below=500) == "built"
    assert await ensure_vector_index(db, record, build_at=1000, drop_below=500) == "kept"
    exact = await vector_search(db, record, vector_of("q"), Filter(), 20, exact_matches=10**9)
    through_index = await vector_search(db, record, vector_of("q"), Filter(), 20)
    assert [hit.score for hit in through_index] == sorted(
        (hit.score for hit in through_index), reverse=True
    )
    assert len({hit.key for hit in exact} & {hit.key for hit in through_index}) >= 18
    previous = await indexes_of(db, record)
    await leave_invalid_index(db, record)
    assert await ensure_vector_index(db, record, build_at=1000, drop_below=500) == "built"
    assert await indexes_of(db, record) == previous
    assert await ensure_vector_index(db, record, build_at=4000, drop_below=2000) == "dropped"
    assert await ensure_vector_index(db, record, build_at=4000, drop_below=2000) == "none"


async def test_a_tiny_filter_keeps_full_recall_however_often_it_is_asked(db: Database) -> None:
    """The trap: after five runs a prepared statement keeps a plan whose index scan ends before it
    has met the few.
    """
    record = await corpus(db, large_files(12))
    assert await ensure_vector_index(db, record, build_at=1000) == "built"
    for where in (
        Filter(languages=("rust",)),
        Filter(paths=("rare/**",)),
        Filter(phrases=("needle",)),
    ):
        for _ in range(8):
            hits = await vector_search(
                db, record, vector_of("word1 text1"), where, 5, exact_matches=100
            )
            assert {hit.path for hit in hits} == {"rare/one.rs"}
            assert len(hits) == 5
    async with db.connection() as connection:
        rows = await (
            await connection.execute("select statement from pg_prepared_statements")
        ).fetchall()
    assert not [statement for (statement,) in rows if '_chunks"' in statement], (
        "only writes of files are prepared"
    )


async def test_a_wide_filter_goes_through_the_index_and_on_until_there_are_enough(
    db: Database,
) -> None:
    record = await corpus(db, large_files(12))
    await ensure_vector_index(db, record, build_at=1000)
    where = Filter(languages=("go",))  # 200 of 1205
    reference = await vector_search(db, record, vector_of("word1 text1"), where, 50)
    hits = await vector_search(db, record, vector_of("word1 text1"), where, 50, exact_matches=100)
    assert len(hits) == 50
    assert all(hit.language == "go" for hit in hits)
    assert len({hit.key for hit in hits} & {hit.key for hit in reference}) >= 40
