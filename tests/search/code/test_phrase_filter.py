"""Quoted phrases: excluded chunks, and every way to read texts, against reading each text."""

import random
import time
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.api.overlay_sessions import OverlayRules, OverlaySessions
from cocosearchd.config.settings import IndexingSettings
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.forms.unicode_forms import spellings
from cocosearchd.indexing.pipeline.skip_rules import SkipRules
from cocosearchd.indexing.pool.overlay_parser import OverlayParser
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.model import Hit
from cocosearchd.search.code import phrase_filter
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.index_snapshot import make_snapshot
from cocosearchd.search.lexical.scoring import candidate_selection
from cocosearchd.search.lexical.scoring.phrase_candidates import (
    count_chunks,
    extract_phrase_words,
    find_phrase_candidates,
    list_chunk_keys,
)
from cocosearchd.search.lexical.segments.live_documents import files_with_chunks
from cocosearchd.search.lexical.segments.segment import SegmentView, build_segment
from cocosearchd.search.plan import parse_query
from cocosearchd.search.trace import Trace
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose
from cocosearchd.store.reads import text_scan
from cocosearchd.store.reads.chunk_reads import file_chunks
from cocosearchd.store.reads.phrase_matches import (
    all_phrase_matches,
    phrase_matches_in_chunks,
    phrase_matches_in_files,
)
from tests.search.corpus import new_corpus
from tests.search.lexical.toy import DIMENSION, documents

pytestmark = pytest.mark.anyio
WORDS = (
    "open Open reopen openFile open_file FILE files fileName HTTPServer http x2y 33abc foo-bar _lead"
    " __ foo return the"
)
PIECES = [
    *WORDS.split(),
    "(foo",
    "foo)",
    "b.c",
    "&",
    "7",
    "e\u0301",
    "\u00e9tage",
    "\u212aelvin",
    "self._cache[key]",
]
PIECES += ["running", "runs", "!=", "nil,err", "a::b"]
BLANKS = (" ", " ", " ", "  ", "\t")
RULES = OverlayRules(
    chunker_limits(IndexingSettings()),
    SkipRules(max_file_bytes=1 << 20, index_secrets=False, any_type=False),
)


def made(dice: random.Random, count: int) -> dict[str, str]:
    """Files of one to three chunks."""
    return {
        f"{('src', 'lib')[n % 2]}/{n}.py": "\n---\n".join(
            "".join(
                piece + dice.choice(BLANKS) for piece in dice.choices(PIECES, k=dice.randint(2, 9))
            ).strip()
            for _ in range(dice.randint(1, 3))
        )
        for n in range(count)
    }


def holds(text: str, phrase: str) -> bool:
    """Looked at, not asked."""
    return any(spelling.lower() in text.lower() for spelling in spellings(phrase))


def cut(dice: random.Random, text: str) -> str:
    """A part of a text, in any case."""
    start = dice.randrange(len(text))
    phrase = dice.choice((str.lower, str.upper, str))(text[start : start + dice.randint(2, 25)])
    return phrase.strip()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_no_chunk_that_holds_a_phrase_is_ruled_out(seed: int) -> None:
    dice = random.Random(seed)
    terms = TermCache()
    files = made(dice, 8)
    sample = dict(list(files.items())[:5])
    parts = (
        SegmentView(build_segment(documents(sample), DIMENSION)).with_deleted([dice.randrange(5)]),
        SegmentView(
            build_segment(
                documents({path: files[path] for path in files if path not in sample}), DIMENSION
            )
        ),
    )
    state = make_snapshot(parts, 1)
    living = {path: files[path].split("\n---\n") for path in state.live_documents.paths}
    for _ in range(20):
        phrases = [
            cut(dice, dice.choice(list(files.values())).replace("\n---\n", " "))
            for _ in range(dice.choice((1, 1, 2)))
        ]
        allowed = (
            np.array([path.startswith("src") for path in state.live_documents.paths])
            if dice.random() < 0.3
            else None
        )
        candidates = find_phrase_candidates(
            parts, state.live_documents, extract_phrase_words(phrases, terms), allowed
        )
        sure, is_whole = (
            list_chunk_keys(parts, state.live_documents, chunks)
            for chunks in (candidates.chunks, candidates.whole_word_chunks)
        )
        holders = {
            (path, number)
            for path, texts in living.items()
            for number, text in enumerate(texts)
            if all(holds(text, phrase) for phrase in phrases)
            if allowed is None or path.startswith("src")
        }
        assert holders <= numbered(sure, living), phrases
        assert numbered(is_whole, living) <= numbered(sure, living)
        assert len(sure) == count_chunks(candidates.chunks)
        files_found = {
            state.live_documents.paths[file]
            for file in np.flatnonzero(files_with_chunks(parts, candidates.chunks))
        }
        assert files_found == {path for path, _, _ in sure}


def numbered(
    keys: list[tuple[str, int, int]], living: Mapping[str, list[str]]
) -> set[tuple[str, int]]:
    """Keys as the numbers of chunks in their files; dead files are in no answer."""
    starts = {
        path: np.cumsum([0, *(max(1, len(text.encode())) for text in texts)]).tolist()
        for path, texts in living.items()
    }
    return {(path, starts[path].index(start)) for path, start, _ in keys}


def test_words_at_the_edges_may_go_on_and_those_within_may_not() -> None:
    terms = TermCache()
    files = {"a.py": "def reopen file now", "b.py": "open files now", "c.py": "open the file here"}
    state = make_snapshot((SegmentView(build_segment(documents(files), DIMENSION)),), 1)

    def paths(phrase: str, is_whole: bool) -> set[str]:
        candidates = find_phrase_candidates(
            state.views, state.live_documents, extract_phrase_words([phrase], terms), None
        )
        return {
            path
            for path, _, _ in list_chunk_keys(
                state.views,
                state.live_documents,
                candidates.whole_word_chunks if is_whole else candidates.chunks,
            )
        }

    assert paths("open file", is_whole=False) == set(files)
    assert paths("open file", is_whole=True) == {"b.py", "c.py"}  # `files` has the stem of `file`
    assert paths("open the file", is_whole=False) == {"c.py"}
    assert paths("DEF Reopen f", is_whole=False) == {"a.py"}


WAYS: dict[str, dict[str, int]] = {
    "few": {},
    "compared": {"FEW_CHUNKS": 0},
    "keys": {"FEW_CHUNKS": 0, "MIN_CANDIDATES": 2, "NAME_CANDIDATES": 1, "KEYED_SHARE": 1},
    "scan": {"FEW_CHUNKS": 0, "MIN_CANDIDATES": 2, "NAME_CANDIDATES": 1, "MAX_KEYED_CHUNKS": 0},
    "words": {
        "FEW_CHUNKS": 20,
        "MIN_CANDIDATES": 2,
        "NAME_CANDIDATES": 1,
        "MAX_KEYED_CHUNKS": 20,
        "MAX_SCANNED_TEXTS": -1,
    },
}


def choose(way: str, patch: pytest.MonkeyPatch) -> None:
    """Bounds as if the few files were many."""
    for name, value in WAYS[way].items():
        patch.setattr(
            candidate_selection if name in ("MIN_CANDIDATES", "NAME_CANDIDATES") else phrase_filter,
            name,
            value,
        )


@pytest.mark.parametrize("way", WAYS)
async def test_exactly_the_chunks_with_the_phrase_are_shown(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    dice = random.Random(7)
    files = {
        path: text.replace("\n---\n", "\n") + "\ncommon" for path, text in made(dice, 40).items()
    }
    files["lib/long.py"] = "\n".join(
        f"common {' '.join(dice.choices(PIECES, k=9))}" for _ in range(60)
    )
    corpus = await new_corpus(db, tmp_path / "root", files, lexical=tmp_path / "words")
    stored = {
        (f.path, c.start_byte): c.content
        async for f in file_chunks(db, corpus.record, None)
        for c in f.chunks
    }
    assert len({start for path, start in stored if path == "lib/long.py"}) > 2
    choose(way, monkeypatch)
    whole_count = 0
    partly = 0
    for _ in range(25):
        phrase = cut(dice, dice.choice(list(files.values())).replace('"', ""))
        if not phrase:
            continue
        holders = {key for key, text in stored.items() if holds(text, phrase)}
        question = f'"{phrase}" common'
        answer = await corpus.ask(parse_query(question, limit=200, all_chunks=True))
        keys = {(hit.path, hit.start_byte) for hit in answer.hits}
        assert keys <= holders, (way, phrase)
        assert keys == holders or answer.warnings == (phrase_filter.PARTIAL_WARNING,), (
            way,
            phrase,
        )
        whole_count = whole_count + (keys == holders)
        partly = partly + bool(answer.warnings)
        filtered = await corpus.ask(
            parse_query(question, limit=200, all_chunks=True, paths=("src/**",))
        )
        expected_ = {key for key in holders if key[0].startswith("src/")}
        assert {
            (hit.path, hit.start_byte) for hit in filtered.hits
        } == expected_ or filtered.warnings
        three = await corpus.ask(parse_query(question, limit=3))
        assert len({hit.path for hit in three.hits}) == len(three.hits), "one of each file"
        assert {(hit.path, hit.start_byte) for hit in three.hits} <= holders
        assert len(three.hits) == min(3, len({path for path, _ in holders})) or three.warnings, (
            way,
            phrase,
        )
    assert whole_count > 10
    assert bool(partly) == (way == "words")


@pytest.mark.parametrize("way", [way for way in WAYS if way != "words"])
async def test_a_phrase_is_found_where_no_word_and_no_vector_speaks_for_it(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Within longer words, or without any: to be there is enough."""
    files = {
        f"{n}.py": f"def fun{n}(xxx{n}yy):\n    return xxxx(xxx{n}yy) + {n}\n" for n in range(30)
    }
    corpus = await new_corpus(db, tmp_path / "root", files, lexical=tmp_path / "words")
    choose(way, monkeypatch)
    for phrase in ("turn xx", "):", "XX"):
        assert paths_of((await corpus.ask(parse_query(f'"{phrase}"', limit=50))).hits) == set(
            files
        ), phrase
        assert len((await corpus.ask(parse_query(f'"{phrase}"', limit=7))).hits) == 7, phrase
        assert paths_of((await corpus.ask(parse_query(f'"{phrase}" path:3.py', limit=7))).hits) == {
            "3.py"
        }, phrase


@pytest.mark.parametrize("way", ["few", "compared"])
async def test_the_order_is_that_of_the_same_question_without_the_phrase(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    dice = random.Random(3)
    files = {
        path: text.replace("\n---\n", "\n") + "\nopen the file" * (n % 2)
        for n, (path, text) in enumerate(made(dice, 40).items())
    }
    corpus = await new_corpus(db, tmp_path / "root", files, lexical=tmp_path / "words")
    choose(way, monkeypatch)
    everything = (await corpus.ask(parse_query("open the file http server", limit=200))).hits
    phrase_hits = (await corpus.ask(parse_query('"open the file" http server', limit=5))).hits
    assert [hit.path for hit in phrase_hits] == [
        hit.path for hit in everything if "open the file" in files[hit.path].lower()
    ][:5]


async def test_symbols_overlays_and_explain_beside_a_phrase(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overlay_parser: OverlayParser
) -> None:
    files = {
        f"{n}.py": f"def made_{n}(): return open_file({n})\n\n\nclass Kept{n}: pass\n"
        for n in range(6)
    }
    corpus = await new_corpus(db, tmp_path / "root", files, lexical=tmp_path / "words")
    for way in ("few", "compared", "scan"):
        with monkeypatch.context() as patch:
            choose(way, patch)
            text = '"open_file(" made'
            question = parse_query(text, use_cache=False)
            assert paths_of((await corpus.ask(question)).hits) == set(files)
            symbol_query = parse_query(text, use_cache=False, symbol_name="made_3")
            assert paths_of((await corpus.ask(symbol_query)).hits) == {"3.py"}
            unnamed = parse_query(text, use_cache=False, symbol_name="nothing")
            assert not (await corpus.ask(unnamed)).hits
            trace = Trace(explain=True)
            limited = parse_query(text, use_cache=False, limit=2)
            explained = await corpus.ask(limited, trace)
            details = trace.details["phrases"]
            assert details["with_the_words"] <= details["chunks_that_can_hold"]
            assert details["read"]
            assert [hit.path for hit in explained.hits] == [
                hit.path for hit in (await corpus.ask(limited)).hits
            ]
            overlays = OverlaySessions(lambda _: corpus.embedder, overlay_parser)
            with overlays.session() as session:
                for path, content in {
                    "1.py": "def made_1(): pass\n",
                    "new.py": "made = open_file(new)\n",
                }.items():
                    await overlays.put(session, corpus.record, path, content.encode(), RULES)
                overlay = await overlays.overlay(session, corpus.record)
                answer = await corpus.pipeline.run(
                    corpus.record, question, Trace(), overlay=overlay
                )
                assert paths_of(answer.hits) == set(files) - {"1.py"} | {"new.py"}


@pytest.mark.parametrize("profile", ["code", "classic"])
async def test_punctuation_that_is_quoted_is_found_without_memory(
    db: Database, tmp_path: Path, profile: str, overlay_parser: OverlayParser
) -> None:
    files = {
        "b.js": "f(x => { run(x) })\n",
        "a.js": "const g = y => { walk(y) }\n",
        "c.js": "f(function () {})\n",
    }
    corpus = await new_corpus(db, tmp_path / "root", files)
    question = parse_query('"=> {"', profile=profile)
    answer = await corpus.ask(question)
    assert [hit.path for hit in answer.hits] == ["a.js", "b.js"]
    assert {dict(hit.signals)["relevance"] for hit in answer.hits} == {1.0}
    filtered = parse_query('"=> {"', profile=profile, paths=("b.*",))
    assert [hit.path for hit in (await corpus.ask(filtered)).hits] == ["b.js"]
    unquoted = parse_query("=> {", profile=profile)
    assert not (await corpus.ask(unquoted)).hits
    overlays = OverlaySessions(lambda _: corpus.embedder, overlay_parser)
    with overlays.session() as session:
        for path, text in {"a.js": "g()\n", "d.js": "h(z => { stop(z) })\n"}.items():
            await overlays.put(session, corpus.record, path, text.encode(), RULES)
        overlay = await overlays.overlay(session, corpus.record)
        unsaved = await corpus.pipeline.run(corpus.record, question, Trace(), overlay=overlay)
        assert [hit.path for hit in unsaved.hits] == ["b.js", "d.js"]
        words = await corpus.pipeline.run(corpus.record, unquoted, Trace(), overlay=overlay)
        assert not words.hits


@pytest.mark.parametrize("profile", ["code", "classic"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
async def test_phrases_that_look_the_same_are_the_same(
    db: Database,
    tmp_path: Path,
    overlay_parser: OverlayParser,
    form: Literal["NFC", "NFD"],
    profile: str,
) -> None:
    """macOS and some editors write an e and an accent where a keyboard makes one character."""
    words = tmp_path / "words" if profile == "code" else None
    files = {
        f"{name}.py": unicodedata.normalize(name, "# ouvre le café déjà là\n")
        for name in ("NFC", "NFD")
    }
    corpus = await new_corpus(db, tmp_path / "root", files, lexical=words)
    for phrase in ("le café déjà", "café", "CAFÉ", "ouvre le café"):
        question = parse_query(
            f'"{unicodedata.normalize(form, phrase)}"', profile=profile, use_cache=False
        )
        assert paths_of((await corpus.ask(question)).hits) == set(files), phrase
    overlays = OverlaySessions(lambda _: corpus.embedder, overlay_parser)
    with overlays.session() as session:
        for path, text in files.items():
            await overlays.put(session, corpus.record, path, text.encode(), RULES)
        overlay = await overlays.overlay(session, corpus.record)
        answer = await corpus.pipeline.run(corpus.record, question, Trace(), overlay=overlay)
        assert paths_of(answer.hits) == set(files)


def paths_of(hits: tuple[Hit, ...]) -> set[str]:
    return {hit.path for hit in hits}


async def test_an_answer_cut_short_by_time_says_so_and_is_not_cached(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"{n}.py": f"value_{n} = reopen the({n})\n" for n in range(12)}
    corpus = await new_corpus(db, tmp_path / "root", files, lexical=tmp_path / "words")
    choose("scan", monkeypatch)

    async def out_of_time(*_: object) -> None:
        """A small index is looked through in any time."""

    monkeypatch.setattr(phrase_filter, "all_phrase_matches", out_of_time)
    for _ in range(2):
        answer = await corpus.ask(parse_query('"open the" value'))
        assert answer.warnings == (phrase_filter.TIMEOUT_WARNING,)
        assert answer.cache == "miss"
        assert all("open the" in hit.content for hit in answer.hits)


@pytest.mark.parametrize("way", ["few", "compared", "keys", "words"])
async def test_no_answer_is_of_two_generations(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A file that lost the phrase in a commit that memory has not heard of yet: it is neither shown
    nor left out.
    """
    corpus = await new_corpus(
        db,
        tmp_path / "root",
        {"a.py": "open the file\n", "b.py": "open the file, too\n"},
        lexical=tmp_path / "words",
    )
    choose(way, monkeypatch)
    question = parse_query('"open the file"', use_cache=False)
    old_record = corpus.record
    assert ((await corpus.ask(question)).generation, len((await corpus.ask(question)).hits)) == (
        2,
        2,
    )
    corpus.lexical = None  # the commit does not get there
    await corpus.save("a.py", "another file\n")
    corpus.record = old_record  # whoever asks has not heard of it either
    answer = await corpus.ask(question)
    assert (answer.generation, [hit.path for hit in answer.hits]) == (3, ["b.py"])


async def test_a_file_that_is_newer_than_memory_is_known_by_its_generation(
    db: Database, tmp_path: Path
) -> None:
    corpus = await new_corpus(
        db, tmp_path / "root", {"a.py": "open the file\n", "b.py": "open a file\n"}
    )
    where = Filter(phrases=("Open THE",))
    every = ["a.py", "b.py", "gone.py"]
    read = await phrase_matches_in_files(db, corpus.record, where, every)
    assert {path: starts.tolist() for path, starts in read.starts.items()} == {"a.py": [0]}
    assert read.generations == {"a.py": 1, "b.py": 2}
    await corpus.save("b.py", "open the file, too\n")
    read = await phrase_matches_in_files(db, corpus.record, where, every)
    assert read.starts.keys() == read.generations.keys() == {"a.py", "b.py"}
    assert read.generations["b.py"] == 3
    keys = [
        (file.path, chunk.start_byte, chunk.end_byte)
        async for file in file_chunks(db, corpus.record, None)
        for chunk in file.chunks
    ]
    read = await phrase_matches_in_chunks(
        db, corpus.record, Filter(phrases=("too",)), [*keys, ("gone.py", 0, 5)]
    )
    assert (set(read.starts), read.generations) == ({"b.py"}, {"a.py": 1, "b.py": 3})


async def test_looking_through_many_pages_ends_in_time(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL limits each page alone."""
    corpus = await new_corpus(
        db, tmp_path / "root", {f"{n}.py": "open the file\n" for n in range(9)}
    )
    where = Filter(phrases=("the file",))
    select_rows = text_scan._select_rows

    def slowly(*arguments: Any) -> Any:
        time.sleep(0.1)
        return select_rows(*arguments)

    monkeypatch.setattr(text_scan, "TEXTS_AT_ONCE", 1)
    monkeypatch.setattr(text_scan, "_select_rows", slowly)
    assert await all_phrase_matches(db, corpus.record, where, 500) is None
    matches = await all_phrase_matches(db, corpus.record, where, 60_000)
    assert matches is not None
    assert len(matches) == 9


async def test_looking_through_everything_ends_in_time(db: Database, tmp_path: Path) -> None:
    corpus = await new_corpus(db, tmp_path / "root", {"a.py": "open the file\n"})
    where = Filter(phrases=("the file",), paths=("a.*",))
    async with db.connection() as holder, holder.transaction():
        await holder.execute(compose("lock table {chunks} in access exclusive mode", corpus.record))
        assert await all_phrase_matches(db, corpus.record, where, 50) is None
    matches = await all_phrase_matches(db, corpus.record, where, 20_000)
    assert matches is not None
    assert {path: starts.tolist() for path, starts in matches.items()} == {"a.py": [0]}
    async with db.connection() as connection:
        row = await (await connection.execute("show statement_timeout")).fetchone()
    assert row != ("20s",), "the next question has its own time"
