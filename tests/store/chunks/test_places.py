"""Positions of chunks are the same in every statement, whatever the file's history."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.file_writer import replace_file, replace_files
from cocosearchd.store.chunks.rows import Key
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads import phrase_matches
from cocosearchd.store.reads.chunk_reads import (
    chunks_with_files,
    file_chunks,
    first_matches,
    vector_search,
)
from cocosearchd.store.reads.index_texts import file_digests, file_texts
from cocosearchd.store.words.words_table import fill_words
from tests.store.support import (
    file_write,
    keyword_search,
    new_index,
    retained_texts,
    split_texts,
    switch,
    vector_of,
)

LONG = [f"name{n}: long words {n}" for n in range(300)]  # long enough for its places to be packed
TEXTS = {
    "a.py": ["new: 1", "same: words", "one: first words", "same: words", "plain", "same: words"],
    "b.py": ["same: words", "longer words than before", "two: second"],
    "empty.py": [],
    "long.py": ["new: words at the top", *LONG],
}
HISTORY: list[dict[str, list[str]]] = [
    {
        "a.py": ["one: first words", "same: words"],
        "b.py": ["words", "two: second"],
        "long.py": LONG,
    },
    {
        "a.py": ["same: words", "same: words", "one: first words", "plain"],
        "gone.py": ["same: words"],
    },
    {
        "a.py": ["same: words", "gone: words", "one: first words", "same: words", "plain"],
        "long.py": LONG[::-1],
    },
]
NOWHERE: list[Key] = [
    ("a.py", 1, 7),
    ("a.py", 0, 5),
    ("gone.py", 0, 11),
    ("empty.py", 0, 5),
    ("b.py", 10**9, 10**9 + 1),
]


async def lived(db: Database) -> IndexRecord:
    record = await new_index(db, "lived", b"/lived")
    await fill_words(db, record, split_texts)
    for state in [*HISTORY, TEXTS]:
        for path, texts in state.items():
            await replace_file(db, record, file_write(path, *texts))
    await replace_files(db, record, (), ("gone.py",))
    return record


async def switched(db: Database) -> IndexRecord:
    """All files change together, so that rows of before stay as retained ones; a save follows."""
    record = await new_index(db, "switched", b"/switched")
    await fill_words(db, record, split_texts)
    for state in [*HISTORY, TEXTS, HISTORY[1], HISTORY[2], TEXTS]:
        await switch(db, record, *(file_write(path, *texts) for path, texts in state.items()))
    await replace_file(db, record, file_write("b.py", "saved: words", *TEXTS["b.py"]))
    await replace_file(db, record, file_write("b.py", *TEXTS["b.py"]))
    await replace_files(db, record, (), ("gone.py",))
    assert len(await retained_texts(db, record)) > len(LONG) / 2
    return record


async def fresh(db: Database) -> IndexRecord:
    record = await new_index(db, "fresh", b"/fresh")
    await fill_words(db, record, split_texts)
    await replace_files(
        db, record, [file_write(path, *texts) for path, texts in reversed(TEXTS.items())]
    )
    return record


async def answers(db: Database, record: IndexRecord, keys: Sequence[Key]) -> list[Any]:
    """Return the answers of every statement that returns positions.

    Limits cut through equally good chunks.
    """
    words, vector, phrase = Filter(), vector_of("same: words"), Filter(phrases=("words",))
    hits = [await vector_search(db, record, vector, words, limit) for limit in (1, 2, 3, 4, 99)]
    hits += [
        await keyword_search(db, record, "same words", words, limit) for limit in (1, 2, 3, 4, 99)
    ]
    hits += [
        await keyword_search(db, record, "words nowhere", words, limit, any_term=True)
        for limit in (2, 3, 99)
    ]
    hits += [
        await first_matches(db, record, Filter(symbol_name="*"), limit) for limit in (1, 2, 5, 99)
    ]
    return [
        hits,
        (await chunks_with_files(db, record, keys))[0],
        starts((await phrase_matches.phrase_matches_in_chunks(db, record, phrase, keys)).starts),
        starts(
            (await phrase_matches.phrase_matches_in_files(db, record, phrase, list(TEXTS))).starts
        ),
        starts(await phrase_matches.all_phrase_matches(db, record, phrase, 5000) or {}),
        [replace(file, generation=0) async for file in file_chunks(db, record, None)],
        [(file.path, file.chunks, file.digest) async for file in file_texts(db, record, None)],
        sorted((file.path, file.digest) for file in await file_digests(db, record, list(TEXTS))),
    ]


def starts(matches: phrase_matches.Starts) -> dict[str, list[int]]:
    return {path: first.tolist() for path, first in matches.items()}


@pytest.mark.anyio
async def test_every_read_knows_where_a_chunk_is_now(db: Database) -> None:
    keys = [
        (path, chunk.start_byte, chunk.end_byte)
        for path, texts in TEXTS.items()
        for chunk in file_write(path, *texts).chunks
    ]
    of_lived, of_switched, of_fresh = [
        await answers(db, record, [*keys, *NOWHERE])
        for record in (await lived(db), await switched(db), await fresh(db))
    ]
    for lived_one, switched_one, fresh_one in zip(of_lived, of_switched, of_fresh, strict=True):
        assert lived_one == fresh_one
        assert switched_one == fresh_one
    assert [hit.key for hit in of_lived[1]] == keys
    assert sum(map(len, of_lived[3].values())) == sum(
        "words" in text for texts in TEXTS.values() for text in texts
    )
