"""Questions about the code graph end when their client is gone, and leave threads to others."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest

from cocosearchd.api.graph import graph_questions
from cocosearchd.api.graph.graph_questions import GraphMoment, GraphQuestions
from cocosearchd.api.verbs import precise_index
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.graph.code_graph import CodeGraph
from cocosearchd.graph.questions.target import parse_target
from cocosearchd.graph.scip.scip_reader import ScipMetadata
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.connection.database import Database
from tests.graph.code_rows import code_write
from tests.store.support import new_index

pytestmark = pytest.mark.anyio

ENDS_S = 60.0  # less than the time that a question has here


class Asker:
    """Asks one index, as the verbs do once they know the index."""

    def __init__(self, db: Database, index: Any) -> None:
        parts: Any = None  # which only choose an index
        self.questions = GraphQuestions(db, parts, parts, parts)
        self.index = index
        self.ended = threading.Semaphore(0)

    async def ask(self, question: Callable[[GraphMoment], object]) -> object:
        def ending(moment: GraphMoment) -> object:
            try:
                return question(moment)
            finally:
                self.ended.release()

        target = parse_target("run")
        return await self.questions._run(self.index, None, target, Filter(), ending)

    async def abandon(self, question: Callable[[GraphMoment], object], begun: anyio.Event) -> None:
        """Ask and go as soon as the question has begun, as a client does that hangs up."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.ask, question)
            await begun.wait()
            group.cancel_scope.cancel()


@pytest.fixture
async def asker(db: Database, monkeypatch: pytest.MonkeyPatch) -> Asker:
    monkeypatch.setattr(graph_questions, "QUESTION_S", 2 * ENDS_S)
    record = await new_index(db)
    await replace_file(db, record, code_write("a.py", ["run"], ["run"]))
    cold: Any = SimpleNamespace(current_snapshot=None)
    asker = Asker(db, SimpleNamespace(record=record, graph=CodeGraph(db, record), lexical=cold))
    await asker.ask(lambda _: None)  # the names are read: questions begin at once
    assert asker.ended.acquire(blocking=False)
    return asker


async def test_a_question_ends_soon_after_its_client_has_gone(asker: Asker) -> None:
    begun = anyio.Event()

    def question(moment: GraphMoment) -> None:
        anyio.from_thread.run_sync(begun.set)
        while not moment.is_over():
            pass

    with anyio.fail_after(ENDS_S):
        await asker.abandon(question, begun)
    assert asker.ended.acquire(blocking=False)


async def test_many_questions_leave_threads_to_status_and_search(asker: Asker) -> None:
    count, release = 60, threading.Event()
    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(asker.ask, lambda _: release.wait(2 * ENDS_S))
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(ENDS_S):
            await anyio.to_thread.run_sync(release.set)
    assert all(asker.ended.acquire(blocking=False) for _ in range(count))


async def test_a_question_has_its_whole_time_after_it_waited_for_its_turn(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_questions, "QUESTION_S", 1.5)  # enough for a thread to begin
    over = list[bool]()
    release = threading.Event()
    async with anyio.create_task_group() as group:
        for _ in range(graph_questions.MAX_RUNNING):
            group.start_soon(asker.ask, lambda _: release.wait(2 * ENDS_S))
        await anyio.wait_all_tasks_blocked()
        group.start_soon(asker.ask, lambda moment: over.append(moment.is_over()))
        await anyio.sleep(graph_questions.QUESTION_S + 0.2)
        release.set()
    assert over == [False]


async def test_an_import_ends_when_its_client_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precise_index, "IMPORT_S", 2 * ENDS_S)
    begun = anyio.Event()

    def parts() -> Any:
        while True:
            yield ScipMetadata("")

    def work() -> None:
        anyio.from_thread.run_sync(begun.set)
        for _ in precise_index._limit_time(parts()):
            pass

    with anyio.fail_after(ENDS_S):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, work)
            await begun.wait()
            group.cancel_scope.cancel()
