"""Questions to git (`changes`) leave threads of a root to its changes and its freshness."""

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest

from cocosearchd.api.graph import earlier_code
from cocosearchd.api.graph.earlier_code import EarlierCodeReader
from cocosearchd.api.verbs import change_impact
from cocosearchd.api.verbs.change_impact import ImpactVerbs
from cocosearchd.config.settings import IndexingSettings
from cocosearchd.graph.questions.target import parse_target
from cocosearchd.watching.git.git_changes import GitChanges
from cocosearchd.watching.root_threads import GIT_THREADS_PER_ROOT, THREADS_PER_ROOT
from cocosearchd.watching.watched_root import WatchedRoot
from tests.watching.support import QUICK, MemoryIndex

pytestmark = pytest.mark.anyio

CHANGES = GitChanges("b" * 40, None, (), frozenset())


@pytest.mark.parametrize("hangs", ["changes", "earlier texts"])
async def test_a_git_that_hangs_holds_no_thread_of_its_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: str
) -> None:
    hanging, release = threading.Semaphore(0), threading.Event()

    def hang(*_: object) -> Any:
        hanging.release()
        release.wait(120)
        return CHANGES if hangs == "changes" else {}

    monkeypatch.setattr(change_impact, "read_changes", lambda *_: CHANGES)
    monkeypatch.setattr(earlier_code, "read_texts", lambda *_: {})
    if hangs == "changes":
        monkeypatch.setattr(change_impact, "read_changes", hang)
    else:
        monkeypatch.setattr(earlier_code, "read_texts", hang)
    path = os.fsencode(tmp_path)
    root = WatchedRoot(path, MemoryIndex(path), IndexingSettings(), QUICK, tmp_path / "sync")
    parts: Any = None  # no question gets that far
    verbs = ImpactVerbs(parts, EarlierCodeReader(parts, parts))
    settings = SimpleNamespace(indexing=IndexingSettings())
    index: Any = SimpleNamespace(
        own_root=root, record=SimpleNamespace(root=path), settings=settings
    )
    async with anyio.create_task_group() as group:
        for _ in range(THREADS_PER_ROOT):
            group.start_soon(verbs._read_source, index, parse_target(""), "")
        for _ in range(GIT_THREADS_PER_ROOT):
            assert await anyio.to_thread.run_sync(hanging.acquire, True, 60)
        await anyio.sleep(0.2)  # further ones would begin
        try:
            with anyio.fail_after(60):
                assert await root.threads.run(os.path.isdir, path)
        finally:
            release.set()
