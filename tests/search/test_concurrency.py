"""Clients beside a writer: every answer is that of one generation of the index."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import numpy as np
import pytest

from cocosearchd.config.settings import SearchSettings
from cocosearchd.embedding.base import Vectors
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.model import Commit
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.search.plan import parse_query
from cocosearchd.search.trace import Trace
from cocosearchd.store.connection.database import Database
from cocosearchd.store.index_roles import ensure_next_index, promote_index
from tests.search.corpus import Corpus, new_corpus
from tests.search.lexical.direct import DirectAnalyser

pytestmark = pytest.mark.anyio

FILES = 6
Said = tuple[int, frozenset[tuple[str, str]]]


def text_of(file: int, version: int) -> str:
    """Every version of a file says which one it is, in a word that questions find."""
    return f"def answer_{file}():\n    marker = 'file{file} version{version}'\n    return marker\n"


class Shadow:
    """The content of each generation of the index: path -> version."""

    def __init__(self) -> None:
        self.at: dict[int, dict[str, int]] = {}

    def record(self, generation: int, path: str, version: int | None) -> None:
        contents = dict(self.at[max(self.at)]) if self.at else {}
        if version is None:
            contents.pop(path, None)
        else:
            contents[path] = version
        self.at[generation] = contents


async def write(corpus: Corpus, shadow: Shadow, seconds: float, met: Callable[[], bool]) -> None:
    """Edits for so long, and on a slow machine until the clients have `met` what they are to
    meet.
    """
    rng = random.Random(7)
    versions = {f"f{number}.py": 1 for number in range(FILES)}
    end = time.monotonic() + seconds
    while time.monotonic() < end or not met():
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
    corpus: Corpus, seed: int, done: anyio.Event, answers: list[Said], waited: list[float]
) -> None:
    rng = random.Random(seed)
    profile = "classic" if seed % 4 == 0 else "code"
    while not done.is_set():
        text = rng.choice(["marker answer", "answer marker return", "marker version"])
        query = parse_query(
            text, profile=profile, use_hybrid=True, use_cache=rng.random() < 0.8, limit=50
        )
        began = time.monotonic()
        answer = await corpus.pipeline.run(corpus.record, query, Trace())
        waited.append(time.monotonic() - began)
        keys = frozenset(
            (hit.path, hit.content.split("version")[1].split("'")[0]) for hit in answer.hits
        )
        answers.append((answer.generation, keys))
        await anyio.lowlevel.checkpoint()


async def together(
    corpus: Corpus, clients: int, seconds: float, generations: int
) -> tuple[list[Said], list[float]]:
    """Clients ask while a writer edits; every answer is compared with what its generation said.

    Ends after `seconds` when answers of more than `generations` have come.
    """
    shadow = Shadow()
    answers = list[Said]()
    waited = list[float]()
    done = anyio.Event()
    for number in range(FILES):
        shadow.record(await corpus.save(f"f{number}.py", text_of(number, 1)), f"f{number}.py", 1)
    async with anyio.create_task_group() as tasks:
        for seed in range(clients):
            tasks.start_soon(ask, corpus, seed, done, answers, waited)
        with anyio.fail_after(seconds + 60):
            await write(
                corpus,
                shadow,
                seconds,
                lambda: len({generation for generation, _ in answers}) > generations,
            )
        done.set()
    for generation, keys in answers:
        expected = frozenset(
            (path, str(version)) for path, version in shadow.at[generation].items()
        )
        assert keys == expected, f"generation {generation}"
    return answers, waited


@pytest.mark.parametrize("lexical", [True, False])
async def test_no_answer_is_of_a_wrong_generation(
    db: Database, tmp_path: Path, lexical: bool
) -> None:
    corpus = await new_corpus(
        db, tmp_path / "root", lexical=tmp_path / "words" if lexical else None
    )
    await together(corpus, clients=8, seconds=1.5, generations=5)


@pytest.mark.slow
async def test_thirty_two_clients_for_a_minute(db: Database, tmp_path: Path) -> None:
    corpus = await new_corpus(db, tmp_path / "root", lexical=tmp_path / "words")
    answers, waited = await together(corpus, clients=32, seconds=60.0, generations=100)
    p99 = sorted(waited)[int(0.99 * len(waited))]
    print(f"32 clients, 60 s: {len(answers)} answers, p99 {p99 * 1000:.0f} ms")


async def test_a_cold_answer_is_not_kept_for_when_the_words_are_warm(
    db: Database, tmp_path: Path
) -> None:
    corpus = await new_corpus(
        db, tmp_path / "root", {"a.py": "def one(): ...\n"}, lexical=tmp_path / "words"
    )
    assert corpus.lexical is not None
    cold = replace(corpus)
    await corpus.lexical.delete()
    trace = Trace(explain=True)
    await cold.ask(parse_query("one"), trace)
    assert trace.details["lexical"]["state"] == "cold"
    assert (await cold.ask("one")).cache == "exact"
    await corpus.lexical.catch_up()
    warm = await corpus.ask("one")
    assert warm.cache == "miss"
    assert (await corpus.ask("one")).cache == "exact"
    await corpus.ask(parse_query("one"), trace := Trace(explain=True))
    assert trace.details["lexical"]["state"] == "warm"


async def test_an_answer_kept_before_a_late_commit_is_not_given_after_it(
    db: Database, tmp_path: Path
) -> None:
    """Commits may get into memory in another order than they were made in; then the generation
    stays what it was.
    """
    corpus = await new_corpus(
        db, tmp_path / "root", {"a.py": "def one(): ...\n"}, lexical=tmp_path / "words"
    )
    lexical = corpus.lexical
    corpus.lexical = None
    assert lexical is not None
    first = await corpus.save("saved.py", "def wombat(): ...\n")
    second = await corpus.save("bulk.py", "def other(): ...\n")
    await lexical.apply(Commit(corpus.record.name, second, ("bulk.py",)))
    question = parse_query("wombat", limit=1)
    assert "saved.py" not in {hit.path for hit in (await corpus.ask(question)).hits}
    assert (await corpus.ask(question)).cache == "exact"
    await lexical.apply(Commit(corpus.record.name, first, ("saved.py",)))
    assert lexical.generation == second
    assert [hit.path for hit in (await corpus.ask(question)).hits] == ["saved.py"]


async def test_vectors_alone_leave_the_words_aside(db: Database, tmp_path: Path) -> None:
    corpus = await new_corpus(
        db, tmp_path / "root", {"a.py": "def one(): ...\n"}, lexical=tmp_path / "words"
    )
    answer = await corpus.ask(parse_query("one", use_hybrid=False), trace := Trace(explain=True))
    assert answer.hits[0].match_type == "semantic"
    assert "lexical" not in trace.details


class Wide(BuiltinEmbedder):
    """Another model: its vectors are twice as long."""

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        vectors = await super().embed_documents(texts)
        return np.hstack([vectors, vectors]) / np.float32(2**0.5)


async def test_a_question_is_not_answered_by_an_index_that_has_taken_the_name(
    db: Database, tmp_path: Path
) -> None:
    """One that began before another embedder's index was complete asks the former rows, and the
    former words.
    """
    corpus = await new_corpus(
        db, tmp_path / "root", {"a.py": "def former():\n    return 1\n"}, lexical=tmp_path / "old"
    )
    made_by = tuple(
        (key, "other" if key == "model" else value)
        for key, value in corpus.record.identity.embedder
    )
    identity = replace(corpus.record.identity, embedder=made_by)
    following = await ensure_next_index(db, corpus.record, corpus.record.dimension * 2, identity)
    words = LexicalIndex(db, following, tmp_path / "new", DirectAnalyser())
    await words.catch_up()
    replacement = replace(corpus, record=following, embedder=Wide(), lexical=words)
    for _ in range(3):
        await replacement.save("a.py", "def former():\n    return 1\n")
    await promote_index(db, corpus.record, following)
    pipeline = Pipeline(db, corpus.embedder, SearchSettings(), lambda _: words)
    trace = Trace(explain=True)
    answer = await pipeline.run(corpus.record, parse_query("where is the former one"), trace)
    assert [hit.path for hit in answer.hits] == ["a.py"]
    assert "lexical" not in trace.details
