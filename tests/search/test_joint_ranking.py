"""One question to many small indexes gets the answer that asking each of them gives."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from cocosearchd.config.settings import DatabaseSettings, SearchSettings
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.errors import StoreUnavailable
from cocosearchd.model import IndexRecord
from cocosearchd.search.answers.multi_index import MergedAnswer, search_several
from cocosearchd.search.history.history_index import HistoryIndex
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.search.plan import Query, parse_query
from cocosearchd.search.trace import Trace
from cocosearchd.store.connection.database import Database
from cocosearchd.store.index_records import drop_index
from tests.search.corpus import Corpus, new_corpus
from tests.search.history.history_cases import make_history, random_revisions

pytestmark = pytest.mark.anyio

WORDS = (
    "mail", "send", "parse", "header", "close", "socket", "queue", "retry", "token", "cache", "config", "path",
    "error", "value", "render", "route", "session", "index", "schema", "table", "merge", "split", "encode",
)  # fmt: skip
INDEXES = 6
QUESTIONED = 12  # indexes that get random questions
QUESTIONS = 50


def make_file(rng: random.Random, words: Sequence[str]) -> str:
    """Make a module of two or three functions over a few words."""
    functions = []
    for _ in range(rng.randrange(1, 4)):
        name = "_".join(rng.sample(words, rng.randrange(1, 3)))
        sentence = " ".join(rng.choices(words, k=rng.randrange(2, 6)))
        functions.append(
            f'def {name}({rng.choice(words)}):\n    """{sentence.capitalize()}."""\n'
            f"    return {rng.choice(words)}({rng.choice(words)!r})\n"
        )
    return "\n\n".join(functions)


def make_files(rng: random.Random, words: Sequence[str]) -> dict[str, str]:
    """Make the files of an index; some are copies, versions or tests of others."""
    files = {
        f"{rng.choice(('src', 'lib', 'tests', 'v1', 'v2'))}/{rng.choice(words)}.py": make_file(
            rng, words
        )
        for _ in range(rng.randrange(1, 9))
    }
    path, text = rng.choice(sorted(files.items()))
    return files | {f"vendor/copy/{path}": text} if rng.random() < 0.4 else files


def make_question(rng: random.Random) -> Query:
    """Make a question of any kind, with or without filters."""
    words = rng.sample(WORDS, rng.randrange(2, 6))
    text = rng.choice(
        (
            words[0],
            "_".join(words[:2]),
            " ".join(words),
            f"how does {words[0]} {words[1]} part3",
            f"lang:python {' '.join(words)}",
            f"path:src/** {words[0]} {words[1]}",
            f"sym:function {words[0]}",
            f'"{words[0]}" {words[1]}',
            f"{words[0]} fails\n\nWhen I {' '.join(words)} it stops. " * 8
            + f'\n```\n  File "src/{words[1]}.py", line 3, in {words[2 % len(words)]}\n```\n',
        )
    )
    return parse_query(
        text,
        use_cache=False,
        limit=rng.choice((1, 3, 10)),
        min_relevance=rng.choice((0.0, 0.0, 0.1, 0.2, 0.35)),
        all_chunks=rng.random() < 0.1,
        collapse=rng.random() < 0.8,
    )


class ManyIndexes:
    """Small indexes in one pipeline, which counts the indexes that are ranked."""

    def __init__(self, db: Database) -> None:
        self.corpora = list[Corpus]()
        self._lexicals = dict[str, LexicalIndex]()
        self.histories = dict[str, HistoryIndex]()  # of some indexes
        self.pipeline, self._alone = (
            Pipeline(
                db,
                BuiltinEmbedder(),
                SearchSettings(),
                self._lexicals.get,
                find_history=lambda record: self.histories.get(record.name),
            )
            for _ in range(2)
        )
        self._alone._retriever.find_joint_index = lambda *_: None  # type: ignore[method-assign]
        self._db = db

    async def add(self, root: Path, name: str, files: Mapping[str, str]) -> Corpus:
        corpus = await new_corpus(
            self._db,
            root,
            files,
            name=name,
            pipeline=self.pipeline,
            lexical=root.parent / f"{name}.words",
        )
        assert corpus.lexical is not None
        self._lexicals[name] = corpus.lexical
        self.corpora.append(corpus)
        return corpus

    @property
    def records(self) -> list[IndexRecord]:
        return [corpus.record for corpus in self.corpora]

    async def ask(self, query: Query | str, own_index: str | None = None) -> MergedAnswer:
        question = parse_query(query) if isinstance(query, str) else query
        return await search_several(self.pipeline, self.records, question, own_index=own_index)

    async def ask_each(self, query: Query) -> MergedAnswer:
        """Ask all of them, each by itself."""
        return await search_several(self._alone, self.records, query)

    def misses(self) -> int:
        return self.pipeline.cache_statistics().misses


async def make_many(db: Database, root: Path, seed: int, count: int = INDEXES) -> ManyIndexes:
    rng = random.Random(seed)
    many = ManyIndexes(db)
    for number in range(count):
        words = rng.sample(WORDS, rng.randrange(4, len(WORDS)))
        await many.add(root / f"part{number}", f"part{number}", make_files(rng, words))
    return many


async def test_answers_are_those_of_asking_each(db: Database, tmp_path: Path) -> None:
    many = await make_many(db, tmp_path, 1, QUESTIONED)
    await many.add(tmp_path / "empty", "empty", {})
    rng = random.Random(2)
    skipped = 0
    for number in range(QUESTIONS):
        question = make_question(rng)
        if number % 10 == 9:  # dead files, and segments of few files
            corpus = rng.choice(many.corpora[:QUESTIONED])
            await corpus.save(f"src/{rng.choice(WORDS)}.py", make_file(rng, WORDS))
        misses = many.misses()
        merged = await many.ask(question)
        skipped += len(many.corpora) - (many.misses() - misses)
        expected = await many.ask_each(question)
        assert merged.hits == expected.hits, question
        assert merged.warnings == expected.warnings, question
        assert merged.omitted == expected.omitted, question
        assert [answer.index for answer in merged.answers] == [
            answer.index for answer in expected.answers
        ]
    assert skipped > QUESTIONS * QUESTIONED / 3, "most indexes add nothing to most answers"


@pytest.mark.timeout(60)
async def test_history_changes_no_head_and_equally_in_joint_questions(
    db: Database, tmp_path: Path
) -> None:
    many = await make_many(db, tmp_path, 8)
    rng = random.Random(9)
    changed = 0
    for _ in range(12):
        words = rng.sample(WORDS, 5)
        text = f"{words[0]} fails\n\nWhen I {' '.join(words)} it stops. " * 8
        question = parse_query(text, use_cache=False, collapse=False, limit=10)
        many.histories.clear()
        plain = [await many.pipeline.run(record, question, Trace()) for record in many.records]
        for corpus in rng.sample(many.corpora, INDEXES // 2):
            files = sorted(corpus.root.rglob("*.py"))
            paths = [*(str(path.relative_to(corpus.root)) for path in files), "gone.py"]
            revisions = random_revisions(rng, 30, paths, WORDS)
            many.histories[corpus.record.name] = make_history(revisions)
        for record, expected in zip(many.records, plain, strict=True):
            answer = await many.pipeline.run(record, question, Trace())
            changed += answer.hits != expected.hits
            assert [hit.path for hit in answer.hits[:3]] == [hit.path for hit in expected.hits[:3]]
            assert {hit.path for hit in answer.hits} == {hit.path for hit in expected.hits}
        assert (await many.ask(question)).hits == (await many.ask_each(question)).hits
    assert changed > 3


async def test_a_rare_name_ranks_one_index(db: Database, tmp_path: Path) -> None:
    many = await make_many(db, tmp_path, 3)
    await many.corpora[5].save("src/rare.py", "def elephant_in_room(mail):\n    return mail\n")
    misses = many.misses()
    merged = await many.ask("elephant_in_room")
    assert merged.hits[0].path == "src/rare.py"
    assert many.misses() - misses <= 2


async def test_an_equal_question_is_answered_from_the_cache(db: Database, tmp_path: Path) -> None:
    many = await make_many(db, tmp_path, 4)
    question = parse_query("close the socket of a session")
    first = await many.ask(question)
    misses = many.misses()
    again = await many.ask(question)
    assert again.hits == first.hits
    assert {answer.cache for answer in again.answers} == {"exact"}
    assert many.misses() == misses
    text = 'def close_session(socket):\n    """Close the socket of a session."""\n'
    await many.corpora[0].save("src/new.py", text)
    changed = await many.ask(question)
    assert "src/new.py" in {hit.path for hit in changed.hits}, "a commit to any index counts"
    assert changed.hits == (await many.ask_each(replace(question, use_cache=False))).hits


async def test_another_project_gets_its_own_copy_complete(db: Database, tmp_path: Path) -> None:
    """Hits that were only compared before have no other places yet."""
    many = ManyIndexes(db)
    body = "\n".join(
        f"    mail = mail.replace('{n}', 'a plain filler of a line')" for n in range(30)
    )
    text = "\n\n".join(
        f'def send_mail_{kind}(mail):\n    """Send the mail."""\n{body}\n' for kind in "abc"
    )
    for name in ("first", "second"):
        await many.add(tmp_path / name, name, {"src/mail.py": text, f"src/{name}.py": "x = 1\n"})
    question = parse_query("send mail")
    await many.ask(question, own_index="first")
    again = await many.ask(question, own_index="second")
    alone = await many.ask(replace(question, use_cache=False), own_index="second")
    assert again.hits == alone.hits
    (copy, *_) = again.hits
    assert (copy.index, copy.similar_paths) == ("second", ("src/mail.py",))
    assert copy.other_places


async def test_an_earlier_joint_answer_is_better_than_none(dsn: str, tmp_path: Path) -> None:
    async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=2)) as db:
        many = await make_many(db, tmp_path, 3)
        first = await many.ask("send mail")
        assert many.misses(), "no index was ranked"
    for corpus in many.corpora:
        corpus.record = replace(corpus.record, generation=corpus.record.generation + 1)
    again = await many.ask("send mail")  # the pool is closed now: nothing answers
    assert again.hits == first.hits
    assert {answer.stale.code if answer.stale else None for answer in again.answers} == {
        "earlier_answer"
    }
    assert {answer.index for answer in again.answers} == {hit.index for hit in first.hits}
    assert len(again.failed) == INDEXES - len(again.answers), "an index without hits has no answer"


async def test_an_earlier_joint_answer_serves_a_question_to_fewer_indexes(
    dsn: str, tmp_path: Path
) -> None:
    """It lacks hits of an index that others displaced, of which it has the relevance alone."""
    question = parse_query("send mail", limit=1)
    async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=2)) as db:
        many = await make_many(db, tmp_path, 3)
        complete = await many.ask(question)
    for corpus in many.corpora:
        corpus.record = replace(corpus.record, generation=corpus.record.generation + 1)
    unavailable = 0
    for pair in combinations(tuple(many.corpora), 2):
        many.corpora = list(pair)
        try:
            again = await many.ask(question)  # the pool is closed now: nothing answers
        except StoreUnavailable:
            unavailable += 1
            continue
        if complete.hits[0].index in {corpus.record.name for corpus in pair}:
            assert again.hits == complete.hits
    assert unavailable < len(list(combinations(range(INDEXES), 2)))


async def test_earlier_joint_answers_of_nested_roots_are_merged(dsn: str, tmp_path: Path) -> None:
    question = parse_query("send mail", limit=4)
    mail = {f"sub/mail{n}.py": f"def send_mail_{n}(mail):\n    return {n}\n" for n in range(3)}
    files = {
        "outer": mail | {"send.py": "def send(mail):\n    return mail\n"},
        "outer/sub": {path.removeprefix("sub/"): text for path, text in mail.items()},
        "queue": {"queue.py": "def send_mail(queue):\n    return queue\n"},
    }
    async with Database.open(dsn, DatabaseSettings(pool_min=1, pool_max=2)) as db:
        many = ManyIndexes(db)
        for root, texts in files.items():
            await many.add(tmp_path / root, root.replace("/", "-"), texts)
        outer, inner, queue = many.corpora
        for many.corpora in ([outer, queue], [inner, queue]):
            assert {hit.index for hit in (await many.ask(question)).hits} > {"queue"}
    for corpus in (outer, inner):
        corpus.record = replace(corpus.record, generation=corpus.record.generation + 1)
    many.corpora = [outer, inner]
    again = await many.ask(question)  # the pool is closed now: nothing answers
    places = [(hit.index, hit.path) for hit in again.hits]
    assert len(set(places)) == len(places) > 1
    assert {index for index, path in places if "mail" in path} == {"outer-sub"}


async def test_a_filter_below_one_root_is_not_that_of_another(db: Database, tmp_path: Path) -> None:
    """To `part0`, both filters are the same one; to the others they are not."""
    many = await make_many(db, tmp_path, 4)
    questions = [
        f"path:{prefix}/src/** close the socket of a session" for prefix in (tmp_path / "part0", "")
    ]
    for text in (*questions, *questions):
        expected = await many.ask_each(parse_query(text, use_cache=False))
        assert (await many.ask(text)).hits == expected.hits, text


async def test_an_index_that_is_gone_does_not_fail_the_others(db: Database, tmp_path: Path) -> None:
    many = await make_many(db, tmp_path, 5)
    complete = await many.ask(parse_query("parse header", use_cache=False))
    owner = complete.hits[0].index
    await drop_index(db, next(record for record in many.records if record.name == owner))
    merged = await many.ask(parse_query("parse header", use_cache=False))
    assert [failed.index for failed in merged.failed] == [owner]
    assert merged.hits
    assert owner not in {hit.index for hit in merged.hits}
    assert merged.stale is not None
    assert owner in merged.stale.sentence


async def test_nested_roots_show_a_file_once(db: Database, tmp_path: Path) -> None:
    many = await make_many(db, tmp_path, 6)
    text = "def send_mail(address): ...\n"
    await many.add(tmp_path / "outer", "outer", {"inner/mail.py": text, "other.py": "pass\n"})
    await many.add(tmp_path / "outer" / "inner", "inner", {"mail.py": text})
    question = parse_query("send_mail address", use_cache=False)
    merged = await many.ask(question)
    assert merged.hits == (await many.ask_each(question)).hits
    assert [hit.index for hit in merged.hits if hit.path.endswith("mail.py")].count("outer") <= 1


async def test_no_result_says_why_once_for_all_indexes(db: Database, tmp_path: Path) -> None:
    many = await make_many(db, tmp_path, 7)
    question = parse_query("lang:rust send mail", use_cache=False)
    merged = await many.ask(question)
    expected = await many.ask_each(question)
    assert not merged.hits
    assert merged.warnings == expected.warnings
    (warning,) = merged.warnings
    assert warning.startswith(f"part0, part1, part2 and {INDEXES - 3} more indexes: no file ")
