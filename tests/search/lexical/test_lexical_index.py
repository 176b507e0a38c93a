"""LexicalIndex over a real database answers like one that was built from the same rows at once"""

import asyncio
import json
import shutil
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from cocosearchd.errors import StoreUnavailable
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.search.grep.bloom_cache import BloomCache
from cocosearchd.search.grep.file_selection import make_grep_filter, select_files
from cocosearchd.search.lexical import lexical_index
from cocosearchd.search.lexical.analysis.analyser import (
    WITHOUT_DEFINITIONS,
    AnalysedFiles,
    ReducedFile,
)
from cocosearchd.search.lexical.analysis.documents import FileText
from cocosearchd.search.lexical.apply_journal import ENDS, FIRST_PAUSE_S, FROZE, ApplyJournal
from cocosearchd.search.lexical.index_snapshot import SignalMatrix, compute_signal_matrix
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.lexical.segments import segment_files
from cocosearchd.search.lexical.segments.segment import Segment, SegmentView
from cocosearchd.search.lexical.segments.segment_merge import (
    MergePolicy,
    SegmentMerge,
    perform_merges,
)
from cocosearchd.search.lexical.snapshot_changes import append_segment
from cocosearchd.store.chunks.file_writer import delete_file, replace_file
from cocosearchd.store.connection.database import Database
from cocosearchd.store.connection.statements import compose
from cocosearchd.store.index_records import file_generations, raise_generation, read_generation
from cocosearchd.store.reads.index_texts import FileTexts, file_texts
from tests.search.lexical.direct import DirectAnalyser
from tests.search.lexical.toy import SIGNALS
from tests.store.support import file_write, new_index, vector_of

pytestmark = pytest.mark.anyio

FILES = {
    "src/router/group.py": (
        "RouteGroup: collects routes under a prefix",
        "mount: joins the group to a router",
    ),
    "src/router/match.py": ("match_path: compares a path with patterns of routes",),
    "src/session.py": (
        "SessionStore: keeps sessions in cookies",
        "open: reads a session",
        "save: writes a session",
    ),
    "tests/test_session.py": ("test_open: a session is opened twice",),
    "README.md": ("routes and sessions for small servers",),
}
QUESTIONS = (
    "how are routes grouped under a prefix",
    "SessionStore",
    "open a session",
    "zebra",
    "match_path routes",
)


async def write(db: Database, record: IndexRecord, path: str, *texts: str) -> Commit:
    language = "markdown" if path.endswith(".md") else "python"
    generation = await replace_file(db, record, file_write(path, *texts, language=language))
    return Commit(record.name, generation, (path,))


async def filled(db: Database) -> IndexRecord:
    record = await new_index(db)
    for path, texts in FILES.items():
        await write(db, record, path, *texts)
    return record


async def fresh(db: Database, record: IndexRecord, folder: Path) -> LexicalIndex:
    index = LexicalIndex(db, record, folder, DirectAnalyser())
    await index.catch_up()
    return index


async def ask(index: LexicalIndex, text: str) -> SignalMatrix:
    snapshot = await index.snapshot()
    assert snapshot is not None
    return compute_signal_matrix(
        snapshot, index.make_query_terms(text), index.terms, vector_of(text)
    )


def by_file(matrix: SignalMatrix) -> dict[str, list[float]]:
    """Every signal, the best chunk score and the best cosine by path.

    They must not depend on the order of files.
    """
    cosines = (
        matrix.chunks.cosines
        if matrix.chunks.cosines is not None
        else np.zeros(len(matrix.chunks.keys), np.float32)
    )
    ends = [*matrix.chunks.starts[1:].tolist(), len(matrix.chunks.keys)]
    return {
        path: [float(matrix.values[name][file]) for name in SIGNALS]
        + [float(matrix.chunks.scores[start:end].max()), float(cosines[start:end].max())]
        for file, (path, start, end) in enumerate(
            zip(matrix.paths, matrix.chunks.starts.tolist(), ends, strict=True)
        )
    }


async def assert_same(index: LexicalIndex, reference: LexicalIndex) -> None:
    assert index.generation == reference.generation
    for text in QUESTIONS:
        actual = by_file(await ask(index, text))
        right = by_file(await ask(reference, text))
        assert actual.keys() == right.keys()
        for path, values in actual.items():
            assert values == pytest.approx(right[path], abs=1e-4), (text, path)


async def test_commits_give_what_a_fresh_build_gives(db: Database, tmp_path: Path) -> None:
    record = await filled(db)
    index = await fresh(db, record, tmp_path / "one")
    await index.apply(
        await write(db, record, "src/cookie.py", "Cookie: a name and a value of a session")
    )
    await index.apply(
        await write(db, record, "src/session.py", "SessionStore: keeps sessions in a table")
    )
    await index.apply(
        Commit(
            record.name,
            await delete_file(db, record, "src/router/match.py"),
            ("src/router/match.py",),
        )
    )
    assert "src/router/match.py" not in (await ask(index, "match_path")).paths
    assert index.sizes()["files"] == len(FILES)
    await assert_same(index, await fresh(db, record, tmp_path / "two"))


async def test_a_file_that_cannot_be_applied_fails_no_other_commit(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await filled(db)
    index = await fresh(db, record, tmp_path / "one")
    commits = {
        name: await write(db, record, f"{name}.py", f"{name}: some words")
        for name in ("bad", "good", "better")
    }
    analyse = index._analyse

    async def fail(texts: Sequence[FileTexts], replaced: Iterable[str] = ()) -> Any:
        if any(file.path == "bad.py" for file in texts):
            raise ValueError("a defect")
        return await analyse(texts, replaced)

    monkeypatch.setattr(index, "_analyse", fail)
    with pytest.raises(ValueError, match="a defect"):
        await index.apply(commits["bad"])
    await index.apply(commits["good"])
    assert "good.py" in (await ask(index, "good")).paths
    # its retry fails again; that of another file does not
    with pytest.raises(ValueError, match="a defect"):
        await index.apply(commits["bad"])
    await index.apply(replace(commits["better"], urgent=True))
    monkeypatch.undo()
    await index.apply(commits["bad"])
    await assert_same(index, await fresh(db, record, tmp_path / "two"))


async def test_a_save_waits_for_one_bulk_commit_at_most(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await filled(db)
    index = await fresh(db, record, tmp_path / "one")
    commits = [
        await write(db, record, f"{name}.py", f"{name}: some words")
        for name in ("one", "two", "saved")
    ]
    go = anyio.Event()
    turns = reads_of(index, monkeypatch, go.wait)
    async with anyio.create_task_group() as tasks:
        for commit in commits:
            tasks.start_soon(index.apply, replace(commit, urgent=commit.paths == ("saved.py",)))
            await anyio.wait_all_tasks_blocked()
        go.set()
    assert turns == [["one.py"], ["saved.py"], ["two.py"]]
    await assert_same(index, await fresh(db, record, tmp_path / "two"))


async def test_a_save_does_not_wait_for_a_large_commit_to_end(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical_index, "_SLICE_FILES", 2)
    record = await filled(db)
    index = await fresh(db, record, tmp_path / "one")
    commits = [await write(db, record, f"{name}.py", f"{name}: some words") for name in "abcde"]
    saved = replace(await write(db, record, "saved.py", "saved: some words"), urgent=True)
    turns = reads_of(index, monkeypatch, anyio.wait_all_tasks_blocked)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(
            index.apply,
            Commit(record.name, commits[-1].generation, tuple(f"{name}.py" for name in "abcde")),
        )
        tasks.start_soon(index.apply, saved)
    assert turns == [["a.py", "b.py"], ["saved.py"], ["c.py", "d.py"], ["e.py"]]
    assert index.generation == saved.generation
    await assert_same(index, await fresh(db, record, tmp_path / "two"))


@pytest.mark.parametrize(
    "error",
    [StoreUnavailable("the server is away", "wait"), RuntimeError("can't start new thread")],
)
async def test_commits_during_a_cold_start_are_in_the_first_snapshot(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    record = await filled(db)
    index = LexicalIndex(db, record, tmp_path / "one", DirectAnalyser())
    read = LexicalIndex._read_texts
    saved = await write(db, record, "saved.py", "saved: some words")
    met = list[bool]()

    async def once(self: LexicalIndex, paths: list[str] | None) -> AsyncIterator[list[FileTexts]]:
        met.append(True)
        if len(met) == 1:
            await index.apply(saved)  # cold: told that it is done
        elif len(met) == 2:
            raise error
        async for texts in read(self, paths):
            yield texts

    monkeypatch.setattr(LexicalIndex, "_read_texts", once)
    with pytest.raises(type(error)):
        await index.catch_up()
    later = await write(db, record, "later.py", "later: some words")
    await index.apply(replace(later, urgent=True))
    assert not await index.wait_for_generation(later.generation, 0)
    await index.catch_up()
    await assert_same(index, await fresh(db, record, tmp_path / "two"))


async def test_stopping_to_catch_up_releases_the_rows_at_once(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows hold a connection, and a transaction."""
    record = await filled(db)
    read = file_texts
    reading = asyncio.Event()
    closed = list[bool]()

    async def noted(*arguments: Any) -> AsyncIterator[FileTexts]:
        async with aclosing(read(*arguments)) as files:
            try:
                async for file in files:
                    yield file
            finally:
                closed.append(True)

    async def waits_for_ever(work: Callable[..., Any], *arguments: Any) -> Any:
        if work is append_segment:
            reading.set()
            await asyncio.sleep(3600)
        return await to_thread(work, *arguments)

    to_thread = asyncio.to_thread
    monkeypatch.setattr(lexical_index, "file_texts", noted)
    monkeypatch.setattr(lexical_index, "_BATCH_CHUNKS", 1)
    monkeypatch.setattr(asyncio, "to_thread", waits_for_ever)
    catching_up = asyncio.ensure_future(
        LexicalIndex(db, record, tmp_path / "one", DirectAnalyser()).catch_up()
    )
    await reading.wait()
    catching_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await catching_up
    assert closed == [True]


async def test_content_that_comes_back_is_not_read_again(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await filled(db)
    index = await fresh(db, record, tmp_path / "one")
    query = reads_of(index, monkeypatch)
    path = "src/session.py"
    gone = "README.md"
    await index.apply(await write(db, record, path, "open: reads nothing"))
    await index.apply(Commit(record.name, await delete_file(db, record, gone), (gone,)))
    assert list(chain(*query)) == [path, gone]
    back = [await write(db, record, name, *FILES[name]) for name in (path, gone)]
    await index.apply(Commit(record.name, back[1].generation, (path, gone)))
    assert list(chain(*query)) == [path, gone]
    await assert_same(index, await fresh(db, record, tmp_path / "two"))
    await index.catch_up()
    assert index.sizes()["kept"] == len(FILES)  # which commit it is of is known
    await run_until_warm(index)
    again = await fresh(db, record, tmp_path / "one")
    assert again.sizes()["kept"] == len(FILES)  # and written down
    await assert_same(again, await fresh(db, record, tmp_path / "three"))


async def test_a_snapshot_on_disk_with_lost_commits_is_not_read(
    db: Database, tmp_path: Path
) -> None:
    """Later commits have reached its generation: only the lineage is another one."""
    record = await filled(db)
    await run_until_warm(await fresh(db, record, tmp_path / "one"))
    lost = await read_generation(db, record)
    assert (await fresh(db, record, tmp_path / "one")).sizes()["kept"] == len(FILES)
    await raise_generation(db, record, lost)
    after = await fresh(db, record, tmp_path / "one")
    assert after.sizes()["kept"] == 0
    await assert_same(after, await fresh(db, record, tmp_path / "two"))


async def test_a_save_is_read_at_once(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await filled(db)
    index = await fresh(db, record, tmp_path / "one")
    query = reads_of(index, monkeypatch)
    path = "src/session.py"
    for texts in (("open: reads nothing",), FILES[path]):
        await index.apply(replace(await write(db, record, path, *texts), urgent=True))
    assert list(chain(*query)) == [path, path]


async def test_merged_away_documents_come_back(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # not to wait for a second
    monkeypatch.setattr("cocosearchd.search.lexical.lexical_index._QUIET_S", 0.05)
    monkeypatch.setattr("cocosearchd.search.lexical.snapshot_changes._RETIRED_FILES", 1)
    record = await filled(db)
    index = await fresh(db, record, tmp_path / "one")
    query = reads_of(index, monkeypatch)
    path = "src/session.py"
    async with anyio.create_task_group() as tasks:
        # not `run`: its catch-up may come after the write, and would read the file as well
        tasks.start_soon(index._maintain)
        await index.apply(await write(db, record, path, "open: reads nothing"))
        with anyio.fail_after(60):
            while index.sizes()["segments"] > 1:  # noqa: ASYNC110 - what it does by itself has no event
                await anyio.sleep(0.01)
        await index.apply(await write(db, record, path, *FILES[path]))
        assert list(chain(*query)) == [path]
        await assert_same(index, await fresh(db, record, tmp_path / "two"))
        tasks.cancel_scope.cancel()


def reads_of(
    index: LexicalIndex,
    monkeypatch: pytest.MonkeyPatch,
    wait: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint,
) -> list[list[str]]:
    """Record the paths whose texts are read from now on, by turns; `wait` comes before each read."""
    turns = list[list[str]]()
    read = index._read_texts

    async def noted(paths: list[str]) -> AsyncIterator[list[FileTexts]]:
        turns.append(paths)
        await wait()
        async for texts in read(paths):
            yield texts

    monkeypatch.setattr(index, "_read_texts", noted)
    return turns


async def test_is_cold_until_it_has_caught_up_and_then_knows_earlier_commits(
    db: Database, tmp_path: Path
) -> None:
    record = await filled(db)
    index = LexicalIndex(db, record, tmp_path / "cold", DirectAnalyser())
    commit = await write(db, record, "src/late.py", "late: came before the first catch-up")
    await index.apply(commit)
    assert not index.warm
    assert index.generation == -1
    assert not await index.wait_for_generation(commit.generation, 0.01)
    assert await index.snapshot() is None
    await index.catch_up()
    assert index.generation == commit.generation
    assert "src/late.py" in (await ask(index, "late")).paths


async def test_a_snapshot_answers_like_the_index_it_is_of(db: Database, tmp_path: Path) -> None:
    record = await filled(db)
    first = LexicalIndex(db, record, tmp_path, DirectAnalyser())
    await run_until_warm(first)
    # Changes while no daemon runs: one file new, one replaced, one gone.
    await write(db, record, "src/new.py", "fresh_route: a route that was not there")
    await write(db, record, "src/session.py", "open: reads a session")
    await delete_file(db, record, "README.md")
    second = await fresh(db, record, tmp_path)
    assert second.sizes()["kept"] == len(FILES) - 2
    await assert_same(second, await fresh(db, record, tmp_path / "other"))


async def test_vectors_left_out_of_a_snapshot_are_read_from_rows(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cocosearchd.search.lexical.stored_vectors._CHUNKS_PER_QUERY", 3)
    record = await filled(db)
    vague = file_write("src/vague.py", "known: one", "unknown: two")
    vague.vectors[1] = 0
    await replace_file(db, record, vague)
    first = LexicalIndex(db, record, tmp_path, DirectAnalyser())
    await run_until_warm(first)
    (path,) = segments_in(tmp_path)
    assert segment_files._leaves_out_vectors(path)
    second = LexicalIndex(db, record, tmp_path, DirectAnalyser())
    reads = reads_of(second, monkeypatch)
    await second.catch_up()
    assert not list(chain(*reads))
    assert_same_segments(second, first)


async def test_a_file_whose_vectors_are_others_is_read_again(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that somebody changed beside the daemon: the generation stayed."""
    record = await filled(db)
    await run_until_warm(LexicalIndex(db, record, tmp_path, DirectAnalyser()))
    async with db.connection() as connection:
        vector = "(select embedding from {chunks} where filename = 'README.md')"
        text = f"update {{chunks}} set embedding = {vector} where filename = 'src/session.py'"
        await connection.execute(compose(text, record))
    second = LexicalIndex(db, record, tmp_path, DirectAnalyser())
    reads = reads_of(second, monkeypatch)
    await second.catch_up()
    assert list(chain(*reads)) == ["src/session.py"]
    await assert_same(second, await fresh(db, record, tmp_path / "other"))


async def test_a_dead_file_without_vectors_is_not_restored(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await filled(db)
    path = "src/session.py"
    first = LexicalIndex(db, record, tmp_path, DirectAnalyser())
    await first.catch_up()
    await first.apply(await write(db, record, path, "open: reads nothing"))
    await run_until_warm(first)
    second = await fresh(db, record, tmp_path)
    reads = reads_of(second, monkeypatch)
    await second.apply(await write(db, record, path, *FILES[path]))
    assert list(chain(*reads)) == [path]
    await assert_same(second, await fresh(db, record, tmp_path / "other"))


def assert_same_segments(index: LexicalIndex, expected: LexicalIndex) -> None:
    """Compare all arrays of the only segment of each, byte by byte."""
    segments = []
    for lexical in (index, expected):
        assert lexical.current_snapshot is not None
        (view,) = lexical.current_snapshot.views
        segments.append(view.segment)
    for column in fields(Segment):
        array, expected_array = (getattr(segment, column.name) for segment in segments)
        assert array.tobytes() == expected_array.tobytes(), column.name


class ReducingAnalyser(DirectAnalyser):
    """Analyser that reports one file as reduced, which in fact takes a text that ends processes."""

    async def analyse(self, files: Sequence[FileText]) -> AnalysedFiles:
        result = await super().analyse(files)
        reduced = [
            ReducedFile(file.path, WITHOUT_DEFINITIONS)
            for file in files
            if file.path == "src/session.py"
        ]
        return replace(result, reduced=tuple(reduced))


async def test_a_restart_still_knows_which_files_are_reduced(db: Database, tmp_path: Path) -> None:
    record = await filled(db)
    await run_until_warm(LexicalIndex(db, record, tmp_path, ReducingAnalyser()))
    second = LexicalIndex(db, record, tmp_path, DirectAnalyser())
    await run_until_warm(second)
    assert second.sizes()["kept"] == len(FILES)
    assert list(second.reduced.reasons) == ["src/session.py"]
    third = await fresh(db, record, tmp_path)
    assert third.reduced.warnings() == second.reduced.warnings()
    await third.apply(await write(db, record, "src/session.py", "open: reads a session"))
    assert third.reduced.warnings() == [], "it has changed"
    await delete_file(db, record, "src/session.py")
    assert (await fresh(db, record, tmp_path)).reduced.warnings() == [], "it has gone"


@dataclass(frozen=True)
class FileGeneration:
    path: str
    generation: int


async def test_a_file_at_which_the_daemon_was_killed_comes_back_by_itself(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cocosearchd.search.lexical.lexical_index._QUIET_S", 0.05)
    record = await filled(db)
    stored = await file_generations(db, record)
    file = FileGeneration("src/session.py", stored["src/session.py"])
    folder = tmp_path / "lexical" / "code"
    for _ in range(ENDS):
        leave_journal(folder.with_suffix(".journal"), tmp_path / FROZE, file)
    index = LexicalIndex(db, record, folder, DirectAnalyser())
    await run_until_warm(index)
    assert index.sizes()["files"] == len(FILES) - 1
    sentence = "searched src/session.py not at all: `cocosearchctl status` says why"
    assert note_of(index) == sentence

    snapshot_count = index.snapshot_count
    later = time.time() + FIRST_PAUSE_S + 1
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(index.run)
        with anyio.fail_after(60):
            while index.snapshot_count == snapshot_count:  # noqa: ASYNC110 - the catch-up has no event
                await anyio.sleep(0.01)
            assert note_of(index) == sentence, "its pause has not ended"
            monkeypatch.setattr(time, "time", lambda: later)
            while note_of(index) is not None:  # noqa: ASYNC110 - nor has this
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert index.sizes()["files"] == len(FILES)
    await assert_same(index, await fresh(db, record, tmp_path / "other" / "code"))


async def index_without(
    db: Database, directory: Path, path: str
) -> tuple[IndexRecord, LexicalIndex]:
    """Make an index whose journal excludes a file, as after a process that froze on it."""
    record = await filled(db)
    stored = await file_generations(db, record)
    folder = directory / "lexical" / "code"
    journal = folder.with_suffix(".journal")
    leave_journal(journal, directory / FROZE, FileGeneration(path, stored[path]))
    (directory / FROZE).touch()
    return record, await fresh(db, record, folder)


async def test_an_excluded_file_that_is_deleted_leaves_no_note(
    db: Database, tmp_path: Path
) -> None:
    path = "src/session.py"
    record, index = await index_without(db, tmp_path, path)
    assert index.incompleteness is not None
    generation = await delete_file(db, record, path)
    await index.apply(Commit(record.name, generation, (path,)))
    assert index.journal.excluded_paths == ()
    await assert_same(index, await fresh(db, record, tmp_path / "other" / "code"))


async def test_a_grep_reads_an_excluded_file_until_a_snapshot_has_it(
    db: Database, tmp_path: Path
) -> None:
    """The file may have left the journal before the next snapshot is published."""
    path = "src/session.py"
    record, index = await index_without(db, tmp_path, path)
    index.journal.drop([path])
    grep_filter = make_grep_filter(path)
    record = replace(record, generation=index.generation)
    selection = await select_files(db, record, index, BloomCache(), grep_filter, None)
    assert [selected.path for selected in selection.files] == [path]
    await index.apply(await write(db, record, path, "open: reads a session"))
    assert index.missing_paths == ()


def note_of(index: LexicalIndex) -> str | None:
    return index.incompleteness


def leave_journal(journal: Path, marker: Path, file: FileGeneration) -> None:
    """Leave the journal of a process that ended while it applied a file."""
    with ApplyJournal(journal, marker).applying([file]):
        content = journal.read_bytes()
    journal.write_bytes(content)


async def test_a_save_that_is_given_up_ends_before_the_next(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await filled(db)
    under_way = 0
    most = 0
    begun = threading.Event()
    save = segment_files.save

    # the real one, as slow as with a million chunks
    def slowly(*arguments: Any) -> segment_files.SavedSnapshot:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        begun.set()
        time.sleep(0.2)
        try:
            return save(*arguments)
        finally:
            under_way -= 1

    monkeypatch.setattr(segment_files, "save", slowly)
    index = LexicalIndex(db, record, tmp_path, DirectAnalyser())
    running = asyncio.create_task(index.run())
    await asyncio.to_thread(begun.wait)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (most, under_way) == (1, 0)
    assert len(segments_in(tmp_path)) == 1
    assert (await fresh(db, record, tmp_path)).sizes()["kept"] == len(FILES)


async def test_a_save_to_disk_holds_up_no_commit_and_its_successor_waits(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await filled(db)
    begun, may_end = threading.Event(), threading.Event()
    save = segment_files.save

    # the real one, as slow as with a million chunks
    def slowly(*arguments: Any) -> segment_files.SavedSnapshot:
        begun.set()
        may_end.wait(120)
        return save(*arguments)

    monkeypatch.setattr(segment_files, "save", slowly)
    index = LexicalIndex(db, record, tmp_path, DirectAnalyser())
    running = asyncio.create_task(index.run())
    try:
        await asyncio.to_thread(begun.wait)
        with anyio.fail_after(60):
            await index.apply(await write(db, record, "src/new.py", "a zebra crosses"))
        running.cancel()
        ended = asyncio.create_task(index.wait_ended())
        await anyio.wait_all_tasks_blocked()
        assert not ended.done()
    finally:
        may_end.set()
    await ended
    await asyncio.gather(running, return_exceptions=True)
    await assert_same(index, await fresh(db, record, tmp_path / "other"))
    assert (await fresh(db, record, tmp_path)).sizes()["kept"] >= len(FILES)


async def test_an_index_has_ended_also_after_a_defect_in_its_last_save(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever stops an index waits for its end, and holds locks meanwhile."""
    index = LexicalIndex(db, await filled(db), tmp_path, DirectAnalyser())
    warm = asyncio.Event()

    async def fail_at_the_end() -> None:
        if warm.is_set():
            raise RuntimeError("can't start new thread")
        warm.set()

    monkeypatch.setattr(index, "_save", fail_at_the_end)
    running = asyncio.create_task(index.run())
    await warm.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    with anyio.fail_after(60):
        await index.wait_ended()


async def test_a_commit_without_files_is_reached_after_an_urgent_one(
    db: Database, tmp_path: Path
) -> None:
    """The promotion of a replacement raises the generation without a file."""
    record = await filled(db)
    index = await fresh(db, record, tmp_path)
    commit = await write(db, record, "src/new.py", "a zebra crosses")
    await index.apply(replace(commit, urgent=True))
    await index.apply(Commit(record.name, commit.generation + 20, ()))
    assert index.generation == commit.generation + 20


async def test_two_lives_of_an_index_have_no_snapshot_number_in_common(
    db: Database, tmp_path: Path
) -> None:
    """Cached answers are told apart by it."""
    record = await filled(db)
    earlier = await fresh(db, record, tmp_path)
    await earlier.apply(await write(db, record, "src/new.py", "a zebra crosses"))
    assert LexicalIndex(db, record, tmp_path, DirectAnalyser()).snapshot_count > (
        earlier.snapshot_count
    )


@pytest.mark.parametrize("damage", ["byte", "manifest", "dead", "missing", "truncated"])
async def test_a_damaged_snapshot_is_absent(db: Database, tmp_path: Path, damage: str) -> None:
    record = await filled(db)
    await run_until_warm(LexicalIndex(db, record, tmp_path, DirectAnalyser()))
    (segment,) = segments_in(tmp_path)
    if damage == "byte":
        raw = bytearray(segment.read_bytes())
        raw[len(raw) // 2] ^= 255
        segment.write_bytes(raw)
    elif damage == "manifest":
        (tmp_path / "manifest.json").write_text('{"format": 1', "utf-8")
    elif damage == "dead":
        manifest = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
        manifest["segments"][0]["dead"] = [len(FILES)]
        (tmp_path / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    elif damage == "missing":
        segment.unlink()
    else:
        segment.write_bytes(segment.read_bytes()[:100])
    index = await fresh(db, record, tmp_path)
    assert index.sizes()["kept"] == 0
    await assert_same(index, await fresh(db, record, tmp_path / "other"))


async def test_a_snapshot_of_another_identity_is_not_read(db: Database, tmp_path: Path) -> None:
    record = await filled(db)
    await run_until_warm(LexicalIndex(db, record, tmp_path, DirectAnalyser()))
    second = await new_index(db, "other", b"/other")
    index = await fresh(db, second, tmp_path)
    assert index.sizes() == {"files": 0, "chunks": 0, "segments": 0, "kept": 0}
    assert (await ask(index, "session")).paths == ()


async def test_discard_forgets_memory_and_disk(db: Database, tmp_path: Path) -> None:
    record = await filled(db)
    folder = tmp_path / "words"
    index = LexicalIndex(db, record, folder, DirectAnalyser())
    await run_until_warm(index)
    assert segments_in(folder)
    await index.delete()
    assert not folder.exists()
    assert not index.warm


async def test_readers_keep_the_state_they_began_with(db: Database, tmp_path: Path) -> None:
    record = await filled(db)
    index = await fresh(db, record, tmp_path)
    earlier = await ask(index, "session")
    values = {name: array.copy() for name, array in earlier.values.items()}
    for number in range(6):
        await index.apply(
            await write(db, record, f"src/more{number}.py", f"session_{number}: one more session")
        )
    assert all(np.array_equal(values[name], earlier.values[name]) for name in values)
    assert len((await ask(index, "session")).paths) == len(FILES) + 6
    await assert_same(index, await fresh(db, record, tmp_path / "other"))


async def test_parts_are_put_in_order_when_commits_end(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # not to wait for a second
    monkeypatch.setattr("cocosearchd.search.lexical.lexical_index._QUIET_S", 0.05)
    record = await filled(db)
    index = await fresh(db, record, tmp_path / "one")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(index.run)
        for number in range(2):
            await index.apply(
                await write(
                    db, record, f"src/more{number}.py", f"session_{number}: one more session"
                )
            )
        assert index.sizes()["segments"] == 2
        snapshot_count = index.snapshot_count
        with anyio.fail_after(60):
            while index.sizes()["segments"] > 1:  # noqa: ASYNC110 - what it does by itself has no event
                await anyio.sleep(0.01)
        assert index.snapshot_count == snapshot_count  # what was kept of before holds
        await assert_same(index, await fresh(db, record, tmp_path / "two"))
        tasks.cancel_scope.cancel()
    assert len(segments_in(tmp_path / "one")) == 1
    again = await fresh(db, record, tmp_path / "one")
    assert again.sizes()["kept"] == len(FILES) + 2
    await assert_same(again, await fresh(db, record, tmp_path / "three"))


async def test_between_commits_of_many_files_nothing_is_put_in_order(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cocosearchd.search.lexical.lexical_index._QUIET_S", 0.01)
    monkeypatch.setattr("cocosearchd.search.lexical.lexical_index._QUIET_BULK_S", 0.5)
    record = await filled(db)
    index = await fresh(db, record, tmp_path / "one")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(index.run)
        began = time.monotonic()
        commit = await write(db, record, "src/more0.py", "one more session")
        await index.apply(
            replace(commit, paths=("src/more0.py", *(f"gone{n}.py" for n in range(20))))
        )
        await index.apply(await write(db, record, "src/more1.py", "one more session"))
        assert index.sizes()["segments"] == 2
        with anyio.fail_after(60):
            while index.sizes()["segments"] > 1:  # noqa: ASYNC110 - what it does by itself has no event
                await anyio.sleep(0.01)
        assert time.monotonic() - began > 0.5
        tasks.cancel_scope.cancel()


async def test_merges_at_rest_are_saved(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await filled(db)
    index = await fresh(db, record, tmp_path / "one")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(index.run)
        await index.apply(await write(db, record, "src/more.py", "one more session"))
        tasks.cancel_scope.cancel()
    assert len(segments_in(tmp_path / "one")) == 2
    again = await fresh(db, record, tmp_path / "one")
    assert again.sizes()["segments"] == 1
    await run_until_warm(again)
    assert len(segments_in(tmp_path / "one")) == 1
    await assert_same(again, await fresh(db, record, tmp_path / "two"))


async def test_a_commit_beside_a_merge_is_kept(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    end = threading.Event()

    def slow(parts: Sequence[SegmentView], order: MergePolicy) -> list[SegmentMerge]:
        result = perform_merges(parts, order)
        begun.set()
        assert end.wait(60)
        return result

    # not to wait for a second
    monkeypatch.setattr("cocosearchd.search.lexical.lexical_index._QUIET_S", 0.05)
    # a large one takes seconds
    monkeypatch.setattr("cocosearchd.search.lexical.index_snapshot.perform_merges", slow)
    record = await filled(db)
    index = await fresh(db, record, tmp_path / "one")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(index.run)
        await index.apply(await write(db, record, "src/more0.py", "session_0: one more session"))
        with anyio.fail_after(60):
            await anyio.to_thread.run_sync(begun.wait)
            path = next(iter(FILES))
            for commit in (
                await write(db, record, path, "another session"),
                await write(db, record, "b.py", "session"),
            ):
                await index.apply(commit)
            end.set()
            while index.sizes()["segments"] > 1:  # noqa: ASYNC110 - what it does by itself has no event
                await anyio.sleep(0.01)
        await assert_same(index, await fresh(db, record, tmp_path / "two"))
        tasks.cancel_scope.cancel()


def generation_in(folder: Path) -> int:
    """Generation of the saved snapshot; -1 without one."""
    path = folder / "manifest.json"
    return int(json.loads(path.read_text())["generation"]) if path.exists() else -1


def segments_in(folder: Path) -> list[Path]:
    return list(folder.glob("*.segment"))


async def saved_as_one_segment(index: LexicalIndex, folder: Path) -> None:
    """Wait until all commits are saved and merged, after which no save replaces files."""
    with anyio.fail_after(60):
        while generation_in(folder) < index.generation or not (  # noqa: ASYNC110 - there is no event
            index.sizes()["segments"] == len(segments_in(folder)) == 1
        ):
            await anyio.sleep(0.01)


async def run_until_warm(index: LexicalIndex) -> None:
    """Run the index as the daemon does and end it, which saves the snapshot."""
    await index.catch_up()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(index.run)
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


async def test_much_that_is_new_is_saved_at_rest(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the save, a crash minutes after a first index would cost reading all of it again."""
    # not to wait for a second
    monkeypatch.setattr("cocosearchd.search.lexical.lexical_index._QUIET_S", 0.05)
    # a test is small
    monkeypatch.setattr("cocosearchd.search.lexical.lexical_index._SAVE_CHUNKS", 3)
    record = await filled(db)
    folder = tmp_path / "one"
    index = await fresh(db, record, folder)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(index.run)
        await saved_as_one_segment(index, folder)  # as each start ends; the rest is saved at rest
        for number in range(3):
            await index.apply(
                await write(db, record, f"src/more{number}.py", "session_0: one more session")
            )
        await saved_as_one_segment(index, folder)
        crashed = tmp_path / "as a crash leaves it"
        shutil.copytree(folder, crashed)
        tasks.cancel_scope.cancel()
    assert (await fresh(db, record, crashed)).sizes()["kept"] == len(FILES) + 3


async def test_memory_is_given_back_after_each_save(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A double, as what the system gets cannot be told from what else happens in this process; see
    # test_interpreter.
    files = list[int]()
    enough = threading.Event()
    folder = tmp_path / "one"

    def give_back() -> None:
        files.append(len(segments_in(folder)))
        if len(files) > 2:
            enough.set()

    monkeypatch.setattr("cocosearchd.search.lexical.lexical_index.return_memory", give_back)
    # not to wait for minutes
    monkeypatch.setattr("cocosearchd.search.lexical.lexical_index._SAVE_EVERY_S", 0.1)
    index = await fresh(db, await filled(db), folder)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(index.run)
        assert await anyio.to_thread.run_sync(enough.wait, 10)
        tasks.cancel_scope.cancel()
    assert min(files) >= 1
