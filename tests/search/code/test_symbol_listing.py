"""Lists of symbols from memory: those of the store, the likelier ones first."""

from pathlib import Path

import pytest

from cocosearchd.search.plan import Query
from cocosearchd.search.trace import Trace
from cocosearchd.store.connection.database import Database
from tests.search.corpus import Corpus, new_corpus

SMALL = "def start():\n    return 1\n\n\nclass Starter:\n    def Start(self):\n        return 2\n"
FILES = {
    "aaa/tests/test_start.py": "def Start():\n    assert True\n",
    "aaa/vendor/deep/below/all/the/others/start.py": "class Start:\n    pass\n",
    "daemon/start.py": SMALL,
    "daemon/stop.py": "def stop():\n    return 3\n",
    "zzz/begin.go": "package zzz\n\n// Start starts.\nfunc Start() int {\n\treturn 1\n}\n",
}


@pytest.fixture
async def corpus(db: Database, tmp_path: Path) -> Corpus:
    return await new_corpus(db, tmp_path / "root", FILES, lexical=tmp_path / "words")


async def listed(
    corpus: Corpus, query: str | Query
) -> tuple[list[tuple[str, str | None]], list[str]]:
    """The definitions in order, and the stages of the run."""
    trace = Trace(explain=True)
    answer = await corpus.ask(query, trace)
    return [(hit.path, hit.symbol_name) for hit in answer.hits], list(trace.timings_ms)


async def test_a_list_is_answered_from_memory_and_has_what_the_store_has(
    db: Database, tmp_path: Path
) -> None:
    cold = await new_corpus(db, tmp_path / "cold", FILES, name="cold")
    warm = await new_corpus(db, tmp_path / "warm", FILES, name="warm", lexical=tmp_path / "words")
    for query in (
        "name:start",
        "name:St*",
        "name:*art* sym:class",
        "sym:function",
        "sym:class,method",
        "name:start path:daemon/**",
        "name:start -path:aaa/**",
        "name:start lang:go",
        "name:nowhere",
        "sym:function name:stop",
    ):
        stored, _ = await listed(cold, query)
        listed_hits, stages = await listed(warm, query)
        assert sorted(listed_hits) == sorted(stored), query
        assert "retrieve" not in stages, query
        if "name:" not in query:
            assert listed_hits == stored, query  # by path


async def test_the_case_that_was_typed_comes_first_then_what_is_no_test(corpus: Corpus) -> None:
    listed_hits, _ = await listed(corpus, "name:start")
    assert listed_hits[0] == ("daemon/start.py", "start")
    listed_hits, _ = await listed(corpus, "name:Start")
    paths = [path for path, _ in listed_hits]
    assert listed_hits[0][1] in ("Start", "Starter.Start")
    assert paths.index("aaa/tests/test_start.py") > paths.index("zzz/begin.go")


async def test_a_list_follows_saves_and_deletions(corpus: Corpus) -> None:
    await corpus.save("daemon/start.py", "def other():\n    return 1\n")
    await corpus.delete("zzz/begin.go")
    await corpus.save("new.py", "def start():\n    return 7\n")
    listed_hits, _ = await listed(corpus, "name:start")
    assert listed_hits[0] == ("new.py", "start")
    assert not {"daemon/start.py", "zzz/begin.go"} & {path for path, _ in listed_hits}
