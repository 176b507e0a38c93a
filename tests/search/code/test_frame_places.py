"""Lines that a stack trace names are the places that are shown, from PostgreSQL or unsaved text."""

from pathlib import Path

import pytest

from cocosearchd.config.settings import SearchSettings
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.search.reports.frame_places import MAX_LINE, find_frame_places
from cocosearchd.search.reports.mention_signals import MentionedFiles
from cocosearchd.search.reports.report import read_report
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.file_states import chunks_at_lines
from tests.search.corpus import Corpus, new_corpus
from tests.search.lexical.direct import DirectAnalyser

pytestmark = pytest.mark.anyio

NAMES = {"save": "write bytes disk", "load": "read rows table", "drop": "forget every lock"}


def body(words: str) -> str:
    first, second, third = words.split()
    return "".join(
        f"    {first}_{n} = {second}_{n * 7}.{third}({n}, {first!r})\n" for n in range(60)
    )


STORE = "\n".join(
    f"def {name}(item):\n{body(words)}    return item\n" for name, words in NAMES.items()
)
FILES = {"pkg/store.py": STORE, "pkg/main.py": "def main():\n    run()\n"}
DROP_LINE = STORE.split("\n").index("def drop(item):") + 1


@pytest.fixture
async def corpus(db: Database, tmp_path: Path) -> Corpus:
    embedder = BuiltinEmbedder()
    indexes: dict[str, LexicalIndex] = {}
    pipeline = Pipeline(db, embedder, SearchSettings(), indexes.get)
    corpus = await new_corpus(db, tmp_path / "root", FILES, embedder=embedder, pipeline=pipeline)
    lexical = LexicalIndex(db, corpus.record, tmp_path / "words", DirectAnalyser())
    await lexical.catch_up()
    indexes[corpus.record.name] = lexical
    return corpus


def trace_at(*lines: int) -> str:
    frames = "".join(f'  File "/srv/app/pkg/store.py", line {line}, in f\n' for line in lines)
    return f"To save an item fails\n```\nTraceback (most recent call last):\n{frames}```\n"


async def test_the_place_of_a_frame_is_shown(corpus: Corpus) -> None:
    for line in (3, DROP_LINE + 50):
        first = (await corpus.ask(trace_at(line))).hits[0]
        assert first.path == "pkg/store.py"
        assert first.start_line <= line <= first.end_line


async def test_lines_outside_of_a_file_change_nothing(corpus: Corpus) -> None:
    plain = (await corpus.ask(trace_at())).hits[0]
    for line in (0, 5000, MAX_LINE + 1):
        first = (await corpus.ask(trace_at(line))).hits[0]
        assert (first.path, first.start_line) == (plain.path, plain.start_line)


async def test_lines_lead_to_chunks(corpus: Corpus) -> None:
    lines = [("pkg/store.py", DROP_LINE), ("pkg/store.py", 10**6), ("none.py", 1)]
    places = await chunks_at_lines(corpus.db, corpus.record, lines)
    assert places == [("pkg/store.py", len(STORE[: STORE.index("def drop")].encode()))]


async def test_a_frame_without_a_certain_file_has_no_place(corpus: Corpus) -> None:
    names = MentionedFiles(("a/store.py", "b/store.py"))
    report = read_report("It fails\nat store.py:3: broken\n")
    assert await find_frame_places(corpus.db, corpus.record, report, names) == {}
