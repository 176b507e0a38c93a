"""Text that no file has is parsed beside the daemon: what ends the parser costs that text its
definitions, no more.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import psutil
import pytest

from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pipeline.parse_result import ParsedFile, parse_file
from cocosearchd.indexing.pool.overlay_parser import COMMAND, OverlayParser

pytestmark = pytest.mark.anyio

TEXT = b"def first():\n    return 1\n\n\ndef second():\n    return 2\n"
# A mate whose parser does something else with a text that says so.
SCRIPT = """
import os, time
from cocosearchd.indexing.pipeline import parse_result
from cocosearchd.indexing.pipeline.chunker import chunk_ranges
from cocosearchd.indexing.pool.parser_worker import parser_handler
from cocosearchd.sandbox.worker_loop import run_worker
parse = parse_result.parse
def odd(path, data, *rest):
    if b"CRASH" in data:
        os.abort()
    if b"HANG" in data:
        time.sleep(60)
    return parse(path, data, *rest)
parse_result.parse = odd
run_worker(lambda: parser_handler(chunk_ranges))
"""
ODD = (sys.executable, "-c", SCRIPT)


@asynccontextmanager
async def opened(command: Sequence[str] = COMMAND, **rest: float) -> AsyncIterator[OverlayParser]:
    outliner = OverlayParser(command, **rest)
    try:
        yield outliner
    finally:
        await outliner.aclose()
        assert not outliner._pool.pids


async def outline(
    outliner: OverlayParser, data: bytes = TEXT, path: str = "a.py"
) -> ParsedFile | None:
    result = await outliner.parse(path, "python", data, ChunkLimits(), ())
    return None if result is None else result.parsed_file


def mates() -> list[psutil.Process]:
    """Those that live; PostgreSQL may be a child of the tests too."""
    return [one for one in psutil.Process().children() if is_mate(one)]


def is_mate(process: psutil.Process) -> bool:
    try:
        return bool(process.cmdline()[:1] == [sys.executable])
    except psutil.NoSuchProcess:  # it has just ended, and nobody has waited for it yet
        return False


async def none_left() -> None:
    with anyio.fail_after(20):
        while mates():  # noqa: ASYNC110 - what processes do
            await asyncio.sleep(0.01)


async def test_the_outline_is_that_of_a_file() -> None:
    async with opened() as outliner:
        assert not mates()  # nobody pays for what nobody asks
        expected, _ = parse_file("a.py", "python", TEXT, ChunkLimits(), ())
        found = await asyncio.gather(*(outline(outliner) for _ in range(5)))
        assert found == [expected] * 5
        assert len(mates()) == 1
    await none_left()


@pytest.mark.parametrize("text", [b"CRASH\n", b"HANG\n"])
async def test_what_ends_the_parser_costs_that_text_alone(text: bytes) -> None:
    async with opened(ODD, deadline_s=2.0) as outliner:
        texts = [TEXT, text, TEXT, text, TEXT]
        found = await asyncio.gather(*(outline(outliner, one) for one in texts))
        assert [one is None for one in found] == [one == text for one in texts]
    await none_left()


async def test_a_mate_that_somebody_killed_is_replaced() -> None:
    async with opened() as outliner:
        assert await outline(outliner)
        os.kill(mates()[0].pid, signal.SIGKILL)
        await none_left()
        await asyncio.sleep(0.1)
        assert await outline(outliner)


async def test_who_goes_away_leaves_nothing_behind() -> None:
    async with opened(ODD) as outliner:
        assert await outline(outliner)
        with anyio.move_on_after(0.2):
            await outline(outliner, b"HANG\n")
        assert await outline(outliner)


async def test_it_ends_when_nothing_is_to_be_done() -> None:
    async with opened(idle_s=0.1) as outliner:
        assert await outline(outliner)
        await none_left()
        assert await outline(outliner)


async def test_without_a_process_there_is_no_outline() -> None:
    async with opened(("/nonexistent",)) as outliner:
        assert await outline(outliner) is None
    async with opened((sys.executable, "-c", "")) as outliner:
        assert await outline(outliner) is None
