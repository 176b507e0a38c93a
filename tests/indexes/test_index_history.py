"""The history of a running index: read in the background, updated, and dropped after a time without
questions.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import anyio
import pytest

from cocosearchd.config.settings import Settings
from cocosearchd.indexes import index_history
from cocosearchd.indexes.index_history import HistoryKeeper
from cocosearchd.indexes.running_index import IndexHistory, RunningIndex
from cocosearchd.sandbox.worker_process import WorkerUnavailable
from cocosearchd.search.history.history_index import HistoryIndex
from cocosearchd.search.lexical.analysis.analyser import Analyser
from cocosearchd.watching.root_threads import RootThreads
from tests import waiting
from tests.search.lexical.direct import DirectAnalyser
from tests.watching.support import git

pytestmark = pytest.mark.anyio
FOREVER_S = 1e8  # longer than a machine runs: looks come at the multiples of their period


@dataclass
class Root:
    """The part of a root that a keeper reads."""

    state: str = "live"
    history_threads: RootThreads = field(default_factory=lambda: RootThreads(None, 1))

    def status(self) -> SimpleNamespace:
        return SimpleNamespace(state=self.state)


class Running:
    """The part of a running index that a keeper reads: a real one is a whole daemon."""

    def __init__(self, root: Path) -> None:
        self.record = SimpleNamespace(name="project", root=os.fsencode(root))
        self.own_root = Root()
        self.lexical = SimpleNamespace(warm=True)
        self.history = IndexHistory()
        self.settings = Settings()

    def configure(self, *, history: bool) -> None:
        search = replace(self.settings.search, history=history)
        self.settings = replace(self.settings, search=search)


class NoAnalyser:
    """An analyser whose processes cannot be started."""

    async def analyse(self, files: object) -> None:
        raise WorkerUnavailable("no process")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(index_history, "HEAD_POLL_S", 0.05)
    monkeypatch.setattr(index_history, "START_POLL_S", 0.05)
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    commit(root, "Parse headers")
    return root


def commit(root: Path, message: str) -> str:
    (root / "a.py").write_text(message)
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)
    return git(root, "rev-parse", "HEAD").strip()


@asynccontextmanager
async def keeping(
    index: Running, analyser: object = None, in_memory: set[IndexHistory] | None = None
) -> AsyncIterator[None]:
    """Keep the history of an index meanwhile."""
    keeper = HistoryKeeper(
        cast(RunningIndex, index),
        cast(Analyser, analyser or DirectAnalyser()),
        asyncio.Lock(),
        set() if in_memory is None else in_memory,
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keeper.run)
        yield
        tasks.cancel_scope.cancel()


async def until(index: Running, is_met: Callable[[HistoryIndex | None], bool]) -> None:
    with anyio.fail_after(60):
        while not is_met(index.history.current):  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(0.01)


async def test_a_history_follows_head(repository: Path) -> None:
    index = Running(repository)
    async with keeping(index):
        await until(index, lambda history: history is not None)
        first = index.history.take()
        assert first is not None
        assert len(first.ids) == 1
        assert len(first.terms) == 2, "words of the message, not of the name that it was sent by"
        second = commit(repository, "Fold names")
        await until(index, lambda history: history is not None and history.ids[0] == second)
        git(repository, "reset", "-q", "--hard", "HEAD~1")
        await until(index, lambda history: history is not None and history.digest == first.digest)


async def test_nothing_is_read_before_the_root_is_live(repository: Path) -> None:
    index = Running(repository)
    index.own_root.state = "indexing"
    async with keeping(index):
        await anyio.sleep(0.3)
        assert index.history.current is None
        index.own_root.state = "live"
        await until(index, lambda history: history is not None)


async def test_the_setting_and_the_bound_hold(repository: Path) -> None:
    index = Running(repository)
    index.configure(history=False)
    async with keeping(index):
        await anyio.sleep(0.3)
        assert index.history.current is None
        index.configure(history=True)
        await until(index, lambda history: history is not None)
        index.configure(history=False)
        await until(index, lambda history: history is None)
    index.configure(history=True)
    full = {IndexHistory() for _ in range(index_history.MAX_HISTORIES)}
    async with keeping(index, in_memory=full):
        await anyio.sleep(0.3)
        assert index.history.current is None


async def test_a_history_takes_a_place_while_it_is_in_memory(repository: Path) -> None:
    index = Running(repository)
    in_memory = set[IndexHistory]()
    async with keeping(index, in_memory=in_memory):
        await until(index, lambda history: history is not None)
        assert in_memory == {index.history}
        index.configure(history=False)
        await until(index, lambda history: history is None)
        assert not in_memory
        index.configure(history=True)
        await until(index, lambda history: history is not None)
    assert not in_memory, "the index has ended"


async def test_memory_is_returned_when_nobody_asks(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_history, "HISTORY_IDLE_S", 2.0)
    index = Running(repository)
    async with keeping(index):
        await until(index, lambda history: history is not None)
        await until(index, lambda history: history is None)
        assert index.history.take() is None
        await until(index, lambda history: history is not None)


async def test_a_failure_is_logged_once_and_means_no_history(
    repository: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_history, "FAILURE_PAUSE_S", 0.0)
    index = Running(repository)
    async with keeping(index, NoAnalyser()):
        await anyio.sleep(1.0)
    assert index.history.take() is None
    assert [record.message for record in caplog.records].count("history_not_read") == 1


async def test_a_directory_without_repository_has_none(tmp_path: Path) -> None:
    index = Running(tmp_path)
    async with keeping(index):
        for _ in range(3):
            assert index.history.take() is None
            await anyio.sleep(0.1)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The directories in which a HEAD was looked for, and not found."""
    directories = list[bytes]()
    monkeypatch.setattr(index_history, "head_stamp", directories.append)
    return directories


async def test_without_a_history_head_is_looked_for_when_a_question_comes(
    tmp_path: Path, looks: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking every few seconds for repositories that are not there kept a machine at rest busy."""
    monkeypatch.setattr(index_history, "HEAD_POLL_S", 0.1)
    monkeypatch.setattr(index_history, "ABSENT_FACTOR", 10 * FOREVER_S)
    index = Running(tmp_path)
    async with keeping(index):
        await waiting.until(lambda: len(looks) == 1)
        await anyio.sleep(1)
        assert len(looks) == 1
        assert index.history.take() is None
        await waiting.until(lambda: len(looks) == 2)


async def test_questions_that_follow_each_other_do_not_have_head_looked_for_again(
    tmp_path: Path, looks: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question to 1,000 indexes without a repository had 1,000 threads look for one."""
    monkeypatch.setattr(index_history, "HEAD_POLL_S", FOREVER_S)
    index = Running(tmp_path)
    async with keeping(index):
        await waiting.until(lambda: len(looks) == 1)
        for _ in range(50):
            assert index.history.take() is None
            await anyio.sleep(0.02)
    assert len(looks) == 1
