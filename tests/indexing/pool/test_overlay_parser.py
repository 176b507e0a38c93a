"""Unsaved text is parsed in a worker process: a text that ends it loses only its definitions."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import psutil
import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.pipeline.parse_result import ParsedFile, parse_file
from cocosearchd.indexing.pool.overlay_parser import COMMAND, OverlayParser
from cocosearchd.indexing.row_shape import chunker_limits

pytestmark = pytest.mark.anyio

TEXT = b"def first():\n    return 1\n\n\ndef second():\n    return 2\n"
# A parser process that does what a text says instead of parsing it.
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
    parser = OverlayParser(command, **rest)
    try:
        yield parser
    finally:
        await parser.aclose()
        assert not parser._pool.pids


async def parse_text(
    parser: OverlayParser, data: bytes = TEXT, path: str = "a.py"
) -> ParsedFile | None:
    result = await parser.parse(path, "python", data, chunker_limits(IndexingSettings()), ())
    return None if result is None else result.parsed_file


def parser_processes() -> list[psutil.Process]:
    """Those that live; PostgreSQL may be a child of the tests too."""
    return [process for process in psutil.Process().children() if is_parser_process(process)]


def is_parser_process(process: psutil.Process) -> bool:
    try:
        return bool(process.cmdline()[:1] == [sys.executable])
    except psutil.NoSuchProcess:  # it has just ended, and nobody has waited for it yet
        return False


async def none_left() -> None:
    with anyio.fail_after(60):
        while parser_processes():  # noqa: ASYNC110 - what processes do
            await asyncio.sleep(0.01)


async def test_unsaved_text_is_parsed_like_a_file() -> None:
    async with opened() as parser:
        assert not parser_processes()  # nobody pays for what nobody asks
        expected, _ = parse_file("a.py", "python", TEXT, chunker_limits(IndexingSettings()), ())
        results = await asyncio.gather(*(parse_text(parser) for _ in range(5)))
        assert results == [expected] * 5
        assert len(parser_processes()) == 1
    await none_left()


@pytest.mark.parametrize("text", [b"CRASH\n", b"HANG\n"])
async def test_a_text_that_ends_the_parser_fails_alone(text: bytes) -> None:
    async with opened(ODD, deadline_s=4.0 if text == b"HANG\n" else 60.0) as parser:
        texts = [TEXT, text, TEXT, text, TEXT]
        results = await asyncio.gather(*(parse_text(parser, text) for text in texts))
        assert [text is None for text in results] == [content == text for content in texts]
    await none_left()


async def test_a_killed_parser_process_is_replaced() -> None:
    async with opened() as parser:
        assert await parse_text(parser)
        os.kill(parser_processes()[0].pid, signal.SIGKILL)
        await none_left()
        await asyncio.sleep(0.1)
        assert await parse_text(parser)


async def test_a_cancelled_caller_leaves_nothing_behind() -> None:
    async with opened(ODD) as parser:
        assert await parse_text(parser)
        with anyio.move_on_after(0.2):
            await parse_text(parser, b"HANG\n")
        assert await parse_text(parser)


async def test_an_idle_parser_process_ends() -> None:
    async with opened(idle_s=0.1) as parser:
        assert await parse_text(parser)
        await none_left()
        assert await parse_text(parser)


async def test_without_a_parser_process_there_is_no_result() -> None:
    async with opened(("/nonexistent",)) as parser:
        assert await parse_text(parser) is None
    async with opened((sys.executable, "-c", "")) as parser:
        assert await parse_text(parser) is None
