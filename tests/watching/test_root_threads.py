"""The number of threads of a root is bounded, also if many questions give up."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cocosearchd.watching.root_threads import RootThreads

pytestmark = pytest.mark.anyio


async def test_looks_that_hang_hold_no_more_threads_than_a_root_may() -> None:
    answer, begun = threading.Event(), list[int]()
    with ThreadPoolExecutor(20) as executor:
        hanging, other_root = RootThreads(executor, 3), RootThreads(executor, 3)

        def hang() -> None:
            begun.append(1)
            answer.wait()

        for _ in range(30):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(hanging.run(hang), 0.01)
        assert len(begun) == 3
        assert await asyncio.wait_for(other_root.run(lambda: "answered"), 60) == "answered"
        answer.set()
        assert await asyncio.wait_for(hanging.run(lambda: "again"), 60) == "again"


async def test_an_error_reaches_who_asked() -> None:
    with pytest.raises(OSError, match="no such"):
        await RootThreads().run(raises)


def raises() -> None:
    raise OSError("no such thing")


async def test_a_thread_that_cannot_be_started_holds_no_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with ThreadPoolExecutor(4) as executor:
        threads = RootThreads(executor, 2)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for _ in range(3):
                with pytest.raises(RuntimeError, match="can't start"):
                    async with asyncio.timeout(5):
                        await threads.run(int)
        async with asyncio.timeout(5):
            assert await threads.run(int) == 0
