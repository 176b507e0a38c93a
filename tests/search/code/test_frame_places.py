"""Lines that a stack trace names become the shown places, from PostgreSQL or unsaved text."""

from pathlib import Path

import pytest

from cocosearchd.api.overlay_sessions import OverlayRules, OverlaySessions
from cocosearchd.config.settings import SearchSettings
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pipeline.skip_rules import SkipRules
from cocosearchd.indexing.pool.overlay_parser import OverlayParser
from cocosearchd.search.code.code_profile import FRAME_RELEVANCE
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.search.plan import parse_query
from cocosearchd.search.reports.frame_places import MAX_LINE, NO_FRAMES, find_frame_places
from cocosearchd.search.reports.mention_signals import MentionedFiles
from cocosearchd.search.reports.report import read_report
from cocosearchd.search.trace import Trace
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
    indexes[corpus.record.name] = corpus.lexical = lexical
    return corpus


def trace_at(*lines: int) -> str:
    frames = "".join(f'  File "/srv/app/pkg/store.py", line {line}, in f\n' for line in lines)
    return f"To save an item fails\n```\nTraceback (most recent call last):\n{frames}```\n"


async def test_the_place_of_a_frame_is_shown(corpus: Corpus) -> None:
    for line in (3, DROP_LINE + 50):
        first = (await corpus.ask(trace_at(line))).hits[0]
        assert first.path == "pkg/store.py"
        assert first.start_line <= line <= first.end_line


async def test_a_reranked_result_has_the_lines_of_frames(corpus: Corpus) -> None:
    question = trace_at(DROP_LINE + 50)
    ranked = (await corpus.ask(question)).hits[0]
    reranked = (await corpus.ask(parse_query(question, reranker="functional"))).hits
    hit = next(hit for hit in reranked if hit.path == ranked.path)
    assert hit.frame_lines == ranked.frame_lines == (DROP_LINE + 50,)


async def test_lines_outside_of_a_file_change_nothing(corpus: Corpus) -> None:
    plain = (await corpus.ask(trace_at())).hits[0]
    for line in (0, 5000, MAX_LINE + 1):
        first = (await corpus.ask(trace_at(line))).hits[0]
        assert (first.path, first.start_line) == (plain.path, plain.start_line)
        assert not first.frame_lines, "the file has no such line"


async def test_lines_lead_to_chunks(corpus: Corpus) -> None:
    lines = [("pkg/store.py", DROP_LINE), ("pkg/store.py", 10**6), ("none.py", 1)]
    places = await chunks_at_lines(corpus.db, corpus.record, lines)
    assert places == [("pkg/store.py", DROP_LINE, len(STORE[: STORE.index("def drop")].encode()))]


async def test_a_frame_without_a_certain_file_has_no_place(corpus: Corpus) -> None:
    names = MentionedFiles(("a/store.py", "b/store.py"))
    report = read_report("It fails\nat store.py:3: broken\n")
    assert await find_frame_places(corpus.db, corpus.record, report, names) == NO_FRAMES


async def test_the_line_of_the_innermost_frame_is_the_one_to_open(corpus: Corpus) -> None:
    outer, inner = 5, DROP_LINE + 30
    first = (await corpus.ask(trace_at(outer, inner))).hits[0]
    assert (first.path, first.line, first.frame_lines) == ("pkg/store.py", inner, (inner, outer))
    assert outer in {entry.line for entry in first.other_places}
    assert first.relevance >= FRAME_RELEVANCE
    plain = (await corpus.ask("To save an item fails\nnobody knows why\n")).hits
    assert not any(hit.frame_lines for hit in plain)


@pytest.mark.parametrize(
    "frame",
    [
        'File "/srv/app/pkg/store.py", line 9000, in drop',  # of a longer version
        'File "/srv/app/pkg/store.py", line 3, in drop',  # line 3 is in `save`
        "at pkg.Store.drop(Unknown Source)",
        "#3  0x01 in store::drop (item=0x2)",
    ],
)
async def test_a_frame_is_found_by_its_function(corpus: Corpus, frame: str) -> None:
    hits = (await corpus.ask(f"It fails\n  {frame}\n")).hits
    assert (hits[0].path, hits[0].line) == ("pkg/store.py", DROP_LINE)
    assert hits[0].frame_lines == (DROP_LINE,)


async def test_a_frame_is_found_by_its_function_in_unsaved_text(
    corpus: Corpus, overlay_parser: OverlayParser
) -> None:
    overlays = OverlaySessions(lambda _: corpus.embedder, overlay_parser)
    rules = OverlayRules(
        ChunkLimits("definitions", 1000, 0), SkipRules(1 << 20, index_secrets=True, any_type=True)
    )
    question = parse_query("It fails\n  at pkg.Store.drop(Unknown Source)\n")
    with overlays.session() as session:
        unsaved = "# unsaved\n" + STORE
        await overlays.put(session, corpus.record, "pkg/store.py", unsaved.encode(), rules)
        overlay = await overlays.overlay(session, corpus.record)
        answer = await corpus.pipeline.run(corpus.record, question, Trace(), overlay=overlay)
    first = answer.hits[0]
    assert (first.path, first.line) == ("pkg/store.py", DROP_LINE + 1)
    assert first.frame_lines == (DROP_LINE + 1,)


async def test_a_function_chooses_between_files_of_one_name(corpus: Corpus) -> None:
    await corpus.save("other/store.py", "def empty(shelf):\n    shelf.clear()\n")
    trace = 'It fails\n  File "store.py", line 1, in {}\n'
    for function, path in (("empty", "other/store.py"), ("load", "pkg/store.py")):
        hits = (await corpus.ask(trace.format(function))).hits
        assert [hit.path for hit in hits if hit.frame_lines] == [path]


async def test_a_function_of_another_program_is_no_frame(corpus: Corpus) -> None:
    for frame in ("at java.util.HashMap.drop(Unknown Source)", 'File "a/b.py", line 2, in drop'):
        hits = (await corpus.ask(f"It fails\n  {frame}\n")).hits
        assert not any(hit.frame_lines for hit in hits)


async def test_explain_shows_each_part_with_what_it_found(corpus: Corpus) -> None:
    trace = Trace(explain=True)
    text = trace_at(5) + "Then `save` writes nothing to pkg/main.py\n### Versions\nnumpy 1.2.3\n"
    await corpus.ask(text + "at other.Thing.go(Unknown Source)\n", trace)
    described = trace.details["report"]
    by_kind = {part["kind"]: part for part in described["parts"]}
    assert by_kind["title"]["words"] == ["pkg/store.py"]
    assert by_kind["inline_code"]["names"] == ["pkg/store.py"]
    assert by_kind["prose"]["paths"] == ["pkg/main.py"]
    assert by_kind["environment"].keys() == by_kind["heading"].keys() == {"line", "kind", "text"}
    places = [(frame["frame"], frame["found"]) for frame in described["frames"]]
    assert places[0] == ("/srv/app/pkg/store.py:5", "pkg/store.py:5")
    assert trace.details["plan"]["report"]["parts"]["title"] == 1


async def test_only_an_explained_question_describes_its_parts(corpus: Corpus) -> None:
    trace = Trace()
    await corpus.ask(trace_at(5), trace)
    assert "report" not in trace.details
