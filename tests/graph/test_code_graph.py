"""The code graph over PostgreSQL: it follows commits, and each answer is as of one moment."""

import asyncio
import threading
from collections.abc import Callable, Sequence

import anyio
import pytest

from cocosearchd.errors import CocoSearchError, NotFound
from cocosearchd.graph import code_graph
from cocosearchd.graph.code_files import CodeFile, CodeFiles
from cocosearchd.graph.code_files_view import CodeFilesView, FilesChanged, UnsavedFile
from cocosearchd.graph.code_graph import CodeGraph
from cocosearchd.graph.use_cache import UsedNames
from cocosearchd.languages import name_hashes
from cocosearchd.languages.code_facts import CodeFacts, Use
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.store.chunks.file_writer import delete_file, replace_file, replace_files
from cocosearchd.store.chunks.rows import FileWrite
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose
from cocosearchd.store.index_records import drop_index
from tests.graph.code_rows import code_write
from tests.store.support import new_index


class Indexed:
    """An index with its graph, which hears of each commit as in the daemon."""

    def __init__(self, db: Database, record: IndexRecord, graph: CodeGraph) -> None:
        self.db, self.record, self.graph = db, record, graph

    async def write(self, path: str, defined: Sequence[str], used: Sequence[str] = ()) -> None:
        generation = await replace_file(self.db, self.record, code_write(path, defined, used))
        self.graph.mark_changed(Commit(self.record.name, generation, (path,)))

    async def write_all(self, writes: Sequence[FileWrite]) -> None:
        generation = await replace_files(self.db, self.record, writes)
        paths = tuple(write.path for write in writes)
        self.graph.mark_changed(Commit(self.record.name, generation, paths))

    async def delete(self, path: str) -> None:
        generation = await delete_file(self.db, self.record, path)
        self.graph.mark_changed(Commit(self.record.name, generation, (path,)))


async def new_graph(db: Database, idle_s: float = 900.0) -> Indexed:
    record = await new_index(db)
    return Indexed(db, record, CodeGraph(db, record, idle_s))


def defining(name: str) -> Callable[[CodeFiles], list[str]]:
    """Ask which files define a name, by their loaded symbols."""

    def question(files: CodeFiles) -> list[str]:
        loaded = files.load(files.files_defining(name))
        return sorted(
            path for path, file in loaded.items() if name in {s.name for s in file.symbols}
        )

    return question


def users(name: str) -> Callable[[CodeFiles], list[str]]:
    """Ask which files use a name, by their loaded facts."""

    def question(files: CodeFiles) -> list[str]:
        loaded = files.load(files.files_using(name))
        return sorted(
            path for path, file in loaded.items() if name in {u.name for u in file.facts.uses}
        )

    return question


async def test_the_first_question_sees_all_files(db: Database) -> None:
    indexed = await new_graph(db)
    await indexed.write("a.py", ["run"], ["stop"])
    await indexed.write("lib/b.py", ["stop", "run"])
    graph = indexed.graph
    assert await graph.ask(defining("run")) == ["a.py", "lib/b.py"]
    assert await graph.ask(users("stop")) == ["a.py"]
    assert await graph.ask(lambda files: files.has_path("lib/b.py")) is True
    assert await graph.ask(lambda files: files.paths_in("lib")) == ["lib/b.py"]
    assert await graph.ask(lambda files: files.paths_ending("b.py")) == ["lib/b.py"]
    assert await graph.ask(lambda files: files.load(["gone.py"])) == {}


async def test_every_commit_is_in_the_next_answer(db: Database) -> None:
    indexed = await new_graph(db)
    graph = indexed.graph
    await indexed.write("a.py", ["run"])
    assert await graph.ask(defining("run")) == ["a.py"]
    await indexed.write("b.py", ["run"], ["stop"])
    assert await graph.ask(defining("run")) == ["a.py", "b.py"]
    await indexed.write("a.py", ["go"], ["run"])
    assert await graph.ask(defining("run")) == ["b.py"]
    assert await graph.ask(users("run")) == ["a.py"]
    await indexed.delete("b.py")
    assert await graph.ask(defining("run")) == []
    assert await graph.ask(lambda files: list(files.paths())) == ["a.py"]


async def test_a_skipped_file_is_not_in_the_graph(db: Database) -> None:
    indexed = await new_graph(db)
    write = code_write("a.py", [])
    await indexed.write_all([write])
    assert await indexed.graph.ask(lambda files: files.has_path("a.py"))
    skipped = FileWrite(
        *(write.path, write.content_hash, None, "python", (), write.vectors[:0], write.report),
        skip_reason="too_large",
        keywords=write.keywords,
    )
    await indexed.write_all([skipped])
    assert not await indexed.graph.ask(lambda files: files.has_path("a.py"))


async def test_a_save_reads_nothing_before_a_question(db: Database) -> None:
    """Neither before the first question nor after it: a commit is noted only."""
    indexed = await new_graph(db)
    await indexed.write("a.py", ["run"])
    assert indexed.graph.nbytes == 0
    await indexed.graph.ask(defining("run"))
    table = indexed.graph._table
    await indexed.write("b.py", ["run"])
    assert indexed.graph._table is table
    assert await indexed.graph.ask(defining("run")) == ["a.py", "b.py"]


async def test_a_file_that_changes_within_a_question_is_asked_for_again(db: Database) -> None:
    """Files of two directories are read one after another, the second replaced in between."""
    indexed = await new_graph(db)
    await indexed.write_all([code_write("a.py", ["old"]), code_write("b/b.py", ["old"])])
    loop = asyncio.get_running_loop()
    runs = list[str]()

    def question(files: CodeFiles) -> tuple[str, str]:
        (first,) = files.load(["a.py"])["a.py"].symbols
        if not runs:
            change = [code_write("a.py", ["new"]), code_write("b/b.py", ["new"])]
            asyncio.run_coroutine_threadsafe(
                replace_files(db, indexed.record, change), loop
            ).result()
        runs.append(first.name)
        (second,) = files.load(["b/b.py"])["b/b.py"].symbols
        return first.name, second.name

    assert await indexed.graph.ask(question) == ("new", "new")
    assert len(runs) == 2


async def test_a_question_beside_endless_changes_is_answered_from_one_moment(db: Database) -> None:
    """Each attempt without a transaction fails, as all files change between its reads."""
    indexed = await new_graph(db)
    paths = [f"{number}.py" for number in range(20)]
    await indexed.write_all([code_write(path, ["f0"]) for path in paths])
    loop = asyncio.get_running_loop()
    changes = iter(range(1, 1000))

    def question(files: CodeFiles) -> set[str]:
        names = set[str]()
        for path in paths:
            number = next(changes)
            writes = [code_write(changed, [f"f{number}"]) for changed in paths]
            asyncio.run_coroutine_threadsafe(
                replace_files(db, indexed.record, writes), loop
            ).result()
            names |= {symbol.name for symbol in files.load([path])[path].symbols}
        return names

    assert len(await indexed.graph.ask(question)) == 1
    # the changes that nobody told of are found by the next question that reads these files
    latest = f"f{next(changes) - 1}"
    await indexed.write_all([code_write(path, [latest]) for path in paths])
    assert await indexed.graph.ask(defining(latest)) == sorted(paths)


async def test_unsaved_text_stands_in_place_of_files(db: Database) -> None:
    indexed = await new_graph(db)
    await indexed.write_all([code_write("a.py", ["run"], ["stop"]), code_write("b.py", ["stop"])])

    def unsaved(path: str, defined: Sequence[str], used: Sequence[str]) -> UnsavedFile:
        uses = [Use("call", name, "", False, 1, 1, -1) for name in used]
        file = CodeFile(path, "python", (), CodeFacts(uses=uses))
        return UnsavedFile(file, name_hashes.pack(defined, map(str.encode, used)))

    overlay = [unsaved("a.py", ["walk"], ["go"]), unsaved("new.py", ["run"], ["stop"])]
    graph = indexed.graph
    assert await graph.ask(users("stop"), overlay) == ["new.py"]
    assert await graph.ask(users("go"), overlay) == ["a.py"]
    assert await graph.ask(lambda files: files.files_defining("run"), overlay) == ["new.py"]
    assert await graph.ask(lambda files: list(files.paths()), overlay) == [
        *("a.py", "b.py", "new.py")
    ]
    assert await graph.ask(users("stop")) == ["a.py"]
    assert await graph.ask(defining("run")) == ["a.py"]


async def test_questions_of_one_moment_share_resolved_uses(db: Database) -> None:
    indexed = await new_graph(db)
    graph = indexed.graph
    await indexed.write("a.py", ["run"], ["stop"])
    cache = await graph.ask(lambda files: files.use_cache)
    assert await graph.ask(lambda files: files.use_cache) is cache
    unsaved = UnsavedFile(CodeFile("b.py", "python", (), CodeFacts()), name_hashes.pack([], []))
    assert await graph.ask(lambda files: files.use_cache, [unsaved]) is not cache
    graph.forget_files()
    assert await graph.ask(lambda files: files.use_cache) is not cache


async def test_files_from_before_an_import_are_not_shared(db: Database) -> None:
    """A SCIP import ends while a question begins again: its files may have the earlier uses."""
    indexed = await new_graph(db)
    graph = indexed.graph
    await indexed.write("a.py", ["run"], ["stop"])
    runs = list[CodeFilesView]()

    def question(files: CodeFilesView) -> None:
        runs.append(files)
        files.load(["a.py"])
        if len(runs) == 1:
            graph.forget_files()
            raise FilesChanged(["a.py"])

    await graph.ask(question)
    assert len(runs) == 2
    assert graph._cache.nbytes == 0
    assert await graph.ask(lambda files: files.use_cache) is not runs[1].use_cache


async def test_resolved_uses_are_dropped_with_the_first_question_after_a_commit(
    db: Database,
) -> None:
    indexed = await new_graph(db)
    await indexed.write("a.py", ["run"], ["stop"])
    cache = await indexed.graph.ask(lambda files: files.use_cache)
    names = UsedNames(frozenset({"stop"}))
    cache.add(names, cache.of_names(names), "a.py", ())
    await indexed.write("b.py", ["stop"])
    assert await indexed.graph.ask(lambda files: files.use_cache) is not cache
    assert cache.nbytes == 0


async def test_resolved_uses_outlive_a_save_of_a_file_that_nobody_has_read(db: Database) -> None:
    indexed = await new_graph(db)
    await indexed.write("a.py", ["run"], ["stop"])
    await indexed.write("b.py", ["far"], ["other"])
    names = UsedNames(frozenset({"stop"}))

    def resolve(files: CodeFilesView) -> int:
        files.load(["a.py"])
        uses = files.use_cache.of_names(names)
        files.use_cache.add(names, uses, "a.py", ())
        return uses.nbytes

    async def resolved_paths() -> list[str]:
        uses = await indexed.graph.ask(lambda files: files.use_cache.of_names(names))
        return [path for path in ("a.py", "b.py") if path in uses]

    await indexed.graph.ask(resolve)
    await indexed.write("b.py", ["far"], ["stop"])
    assert await resolved_paths() == ["a.py"]
    await indexed.write("a.py", ["run"], ["stop", "other"])
    assert await resolved_paths() == [], "the file itself is resolved anew"
    await indexed.graph.ask(resolve)
    await indexed.write("b.py", ["near"], ["stop"])
    assert await resolved_paths() == [], "a new name may be what a use means"


async def test_memory_is_returned_after_a_while_without_questions(db: Database) -> None:
    indexed = await new_graph(db, idle_s=0.05)
    await indexed.write("a.py", ["run"])
    running = asyncio.create_task(indexed.graph.run())
    try:
        assert await indexed.graph.ask(defining("run")) == ["a.py"]
        with anyio.fail_after(60):
            while indexed.graph.nbytes:  # noqa: ASYNC110 - nobody tells of it
                await anyio.sleep(0.01)
        await indexed.write("b.py", ["run"])
        assert await indexed.graph.ask(defining("run")) == ["a.py", "b.py"]
    finally:
        running.cancel()


async def test_many_changes_without_a_question_are_not_followed_one_by_one(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of three paths, for the sake of time."""
    monkeypatch.setattr(code_graph, "_MAX_NOTED", 3)
    indexed = await new_graph(db)
    await indexed.write("a.py", ["run"])
    assert await indexed.graph.ask(defining("run")) == ["a.py"]
    for number in range(6):
        await indexed.write(f"{number}.py", ["run"])
    await indexed.delete("a.py")
    assert await indexed.graph.ask(defining("run")) == [f"{number}.py" for number in range(6)]


async def test_a_failed_read_loses_no_change(db: Database) -> None:
    indexed = await new_graph(db)
    await indexed.write("a.py", ["run"])
    assert await indexed.graph.ask(defining("run")) == ["a.py"]
    await indexed.write("b.py", ["run"])
    async with db.connection() as connection:
        await connection.execute(compose("alter table {files} rename to hidden", indexed.record))
    with pytest.raises(CocoSearchError):
        await indexed.graph.ask(defining("run"))
    async with db.connection() as connection:
        await connection.execute(compose("alter table hidden rename to {files}", indexed.record))
    assert await indexed.graph.ask(defining("run")) == ["a.py", "b.py"]


async def test_a_removed_index_is_not_found(db: Database) -> None:
    indexed = await new_graph(db)
    await drop_index(db, indexed.record)
    with pytest.raises(NotFound):
        await indexed.graph.ask(defining("run"))


async def test_questions_run_beside_the_event_loop_and_beside_each_other(db: Database) -> None:
    indexed = await new_graph(db)
    await indexed.write("a.py", ["run"])
    barrier = threading.Barrier(3)

    def question(files: CodeFiles) -> int:
        barrier.wait(60)
        return len(files.load(["a.py"]))

    assert await asyncio.gather(*(indexed.graph.ask(question) for _ in range(3))) == [1, 1, 1]


async def test_the_graph_that_followed_equals_one_built_afresh(db: Database) -> None:
    indexed = await new_graph(db)
    await indexed.graph.ask(defining("run"))
    for turn in range(12):
        await indexed.write_all(
            [
                code_write(f"d{n % 3}/{n}.py", [f"f{(n * turn) % 7}"], [f"f{(n + turn) % 5}"])
                for n in range(turn % 5, 30, 1 + turn % 4)
            ]
        )
        await indexed.delete(f"d0/{turn * 3}.py")
        fresh = CodeGraph(db, indexed.record)
        for number in range(7):
            for question in (defining(f"f{number}"), users(f"f{number}")):
                assert await indexed.graph.ask(question) == await fresh.ask(question)
        followed, built = [
            await graph.ask(lambda files: files.name_graph()) for graph in (indexed.graph, fresh)
        ]
        assert list(followed.paths) == list(built.paths)
        assert followed.uses.files.tolist() == built.uses.files.tolist()
        assert followed.definitions.starts.tolist() == built.definitions.starts.tolist()
