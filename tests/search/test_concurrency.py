"""Clients beside a writer: every answer is exactly what one generation of the index says."""

import random
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from cocosearchd.search.plan import Query
from cocosearchd.search.trace import Trace
from cocosearchd.store.pool import Database
from tests.search.corpus import Corpus, new_corpus

pytestmark = pytest.mark.anyio

FILES, EDITS, CLIENTS = 6, 40, 8


def text_of(file: int, version: int) -> str:
    """Every version of a file says which one it is, in a word that questions find."""
    return f"def answer_{file}():\n    marker = 'file{file} version{version}'\n    return marker\n"


class Shadow:
    """What each generation of the index says: path -> version."""

    def __init__(self) -> None:
        self.at: dict[int, dict[str, int]] = {}

    def record(self, generation: int, path: str, version: int | None) -> None:
        before = dict(self.at[max(self.at)]) if self.at else {}
        if version is None:
            before.pop(path, None)
        else:
            before[path] = version
        self.at[generation] = before


async def write(corpus: Corpus, shadow: Shadow, rng: random.Random, versions: dict[str, int]) -> None:
    for _ in range(EDITS):
        path = rng.choice(sorted(versions))
        if rng.random() < 0.15 and path in shadow.at[max(shadow.at)]:
            shadow.record(await corpus.delete(path), path, None)
        else:
            versions[path] += 1
            text = text_of(int(path.removesuffix(".py")[1:]), versions[path])
            (corpus.root / path).write_text(text)
            shadow.record(await corpus.index(path, text.encode()), path, versions[path])
        await anyio.sleep(rng.random() * 0.01)


async def ask(
    corpus: Corpus, seed: int, done: anyio.Event, answers: list[tuple[int, frozenset[tuple[str, str]]]]
) -> None:
    rng = random.Random(seed)
    profile = "classic" if seed % 4 == 0 else "code"
    while not done.is_set():
        text = rng.choice(["marker answer", "answer marker return", "marker version"])
        query = Query(text, profile=profile, use_hybrid=True, use_cache=rng.random() < 0.8, limit=50)
        answer = await corpus.pipeline.run(corpus.record, query, Trace())
        said = frozenset((hit.path, hit.content.split("version")[1].split("'")[0]) for hit in answer.hits)
        assert answer.notes == (), answer.notes
        answers.append((answer.generation, said))
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("lexical", [True, False])
async def test_no_answer_is_of_a_wrong_generation(db: Database, tmp_path: Path, lexical: bool) -> None:
    corpus = await new_corpus(db, tmp_path / "root", lexical=tmp_path / "words" if lexical else None)
    shadow, versions = Shadow(), {f"f{number}.py": 1 for number in range(FILES)}
    for number, path in enumerate(versions):
        shadow.record(await corpus.save(path, text_of(number, 1)), path, 1)
    answers: list[tuple[int, frozenset[tuple[str, str]]]] = []
    done = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for seed in range(CLIENTS):
            tasks.start_soon(ask, corpus, seed, done, answers)
        await write(corpus, shadow, random.Random(7), versions)
        done.set()
    assert len(answers) > CLIENTS
    assert len({generation for generation, _ in answers}) > 5, "the writer and the clients never met"
    for generation, said in answers:
        expected = frozenset((path, str(version)) for path, version in shadow.at[generation].items())
        assert said == expected, f"generation {generation}"


async def test_a_cold_answer_is_not_kept_for_when_the_words_are_warm(db: Database, tmp_path: Path) -> None:
    corpus = await new_corpus(db, tmp_path / "root", {"a.py": "def one(): ...\n"}, lexical=tmp_path / "words")
    assert corpus.lexical is not None
    cold = replace(corpus)
    await corpus.lexical.discard()
    trace = Trace(explain=True)
    await cold.ask(Query("one"), trace)
    assert trace.details["lexical"]["state"] == "cold"
    assert (await cold.ask("one")).cache == "exact"
    await corpus.lexical.catch_up()
    warm = await corpus.ask("one")
    assert warm.cache == "miss"
    assert (await corpus.ask("one")).cache == "exact"
    await corpus.ask(Query("one"), trace := Trace(explain=True))
    assert trace.details["lexical"]["state"] == "warm"


async def test_vectors_alone_leave_the_words_aside(db: Database, tmp_path: Path) -> None:
    corpus = await new_corpus(db, tmp_path / "root", {"a.py": "def one(): ...\n"}, lexical=tmp_path / "words")
    answer = await corpus.ask(Query("one", use_hybrid=False), trace := Trace(explain=True))
    assert answer.hits[0].match_type == "semantic"
    assert "lexical" not in trace.details
