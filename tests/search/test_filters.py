"""Filters on files: their notations, and the notes where no file passes."""

from pathlib import Path

import pytest

from cocosearchd.config.settings import SearchSettings
from cocosearchd.errors import InvalidInput
from cocosearchd.search.answers.multi_index import search_several
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.search.plan import parse_query
from cocosearchd.store.connection.database import Database
from tests.search.corpus import new_corpus
from tests.search.lexical.direct import DirectAnalyser


async def test_a_filter_that_no_file_passes_is_told(db: Database, tmp_path: Path) -> None:
    files = {
        "src/app.py": "def serve():\n    return 1\n",
        "web/app.ts": "export function serve() { return 1 }\n",
    }
    corpus = await new_corpus(db, tmp_path / "root", files, lexical=tmp_path / "words")
    for question, note in (
        ("serve path:lib/**", f"no file is at lib/** below {tmp_path}/root"),
        ("name:serve path:lib/**", f"no file is at lib/** below {tmp_path}/root"),
        ('"return 1" lang:go', "no file is go"),
        (
            "serve lang:python path:web/**",
            "no file passes all of the filters on paths and languages",
        ),
        (
            "serve -path:src/** -path:web/**",
            "no file passes all of the filters on paths and languages",
        ),
    ):
        answer = await corpus.ask(question)
        assert (answer.hits, answer.warnings) == ((), (note,)), question
    assert not (await corpus.ask("serve lang:python")).warnings


@pytest.mark.parametrize("profile", ["code", "classic"])
async def test_a_range_that_descends_is_refused(db: Database, tmp_path: Path, profile: str) -> None:
    files = {"src/app.py": "def serve():\n    return 1\n"}
    corpus = await new_corpus(db, tmp_path / "root", files, lexical=tmp_path / "words")
    for question in ("serve path:[z-a]*", "serve -path:[z-a]*", "serve name:[z-a]*", "name:[z-a]*"):
        with pytest.raises(InvalidInput, match="'z-a'"):
            await corpus.ask(parse_query(question, profile=profile))


async def test_paths_may_be_absolute_and_negated(db: Database, tmp_path: Path) -> None:
    files = dict.fromkeys(
        ("src/app.py", "src/[x]/b.py", "vendor/app.py"), "def serve():\n    return 1\n"
    )
    corpus = await new_corpus(db, tmp_path / "root", files, lexical=tmp_path / "words")
    for paths, answer in (
        ((f"{tmp_path}/root/src/**",), {"src/app.py", "src/[x]/b.py"}),
        ((f"{tmp_path}/root/src/app.py",), {"src/app.py"}),
        ((f"{tmp_path}/root/src/",), {"src/app.py", "src/[x]/b.py"}),
        ((f"{tmp_path}/root",), set(files)),
        ((f"{tmp_path}/rooted/src",), set()),
        (("!vendor/**",), {"src/app.py", "src/[x]/b.py"}),
        (("!vendor/**", "*.py"), {"src/app.py", "src/[x]/b.py"}),
        ((f"!{tmp_path}/root/src",), {"vendor/app.py"}),
        (("/src/app.py",), {"src/app.py"}),
    ):
        assert {
            hit.path
            for hit in (await corpus.ask(parse_query("serve", paths=paths, collapse=False))).hits
        } == answer, paths
    assert {hit.path for hit in (await corpus.ask("serve path:!src/**")).hits} == {"vendor/app.py"}


async def test_an_unmet_filter_is_reported_only_if_no_index_has_hits(
    db: Database, tmp_path: Path
) -> None:
    first = await new_corpus(
        db, tmp_path / "one", {"src/a.py": "def serve():\n    return 1\n"}, name="one"
    )
    two = await new_corpus(
        db, tmp_path / "two", {"lib/b.py": "def serve():\n    return 2\n"}, name="two"
    )
    words = {}
    for corpus in (first, two):
        words[corpus.record.name] = LexicalIndex(
            db, corpus.record, tmp_path / corpus.record.name / "words", DirectAnalyser()
        )
        await words[corpus.record.name].catch_up()
    pipeline = Pipeline(db, first.embedder, SearchSettings(), words.get)
    answer = await search_several(
        pipeline, (first.record, two.record), parse_query("serve path:lib/**")
    )
    assert ([hit.path for hit in answer.hits], answer.warnings) == (["lib/b.py"], ())
    nothing = await search_several(
        pipeline, (first.record, two.record), parse_query("serve path:etc/**")
    )
    assert nothing.warnings == tuple(
        f"{name}: no file is at etc/** below {tmp_path}/{name}" for name in ("one", "two")
    )
