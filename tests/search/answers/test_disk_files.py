"""Reads of files whose file system may not answer."""

import asyncio
import threading
from pathlib import Path

import pytest

from cocosearchd.search.answers import disk_files
from cocosearchd.search.answers.disk_files import MAX_PARALLEL_READS, VerifiedFiles

pytestmark = pytest.mark.anyio

SILENT = b"/silent"
OTHER = b"/other"


async def test_a_silent_file_system_holds_few_threads() -> None:
    """Threads are of all roots: questions that come before it is known to be silent must leave
    some.
    """
    disk = VerifiedFiles()
    answers = threading.Event()
    begun = list[int]()

    def look() -> str:
        begun.append(1)
        answers.wait(120)
        return "seen"

    try:
        gone = [
            asyncio.create_task(disk.run_bounded(SILENT, look))
            for _ in range(10 * MAX_PARALLEL_READS)
        ]
        await asyncio.sleep(0.05)
        for task in gone:
            task.cancel()  # who asked has gone away: what holds a thread still does
        await asyncio.wait(gone)
        reads = [disk.run_bounded(SILENT, look, 0.2) for _ in range(10 * MAX_PARALLEL_READS)]
        assert set(await asyncio.gather(*reads)) == {None}
        assert len(begun) == MAX_PARALLEL_READS
        assert await disk.run_bounded(OTHER, lambda: "seen", 20.0) == "seen"
    finally:
        answers.set()
    assert await disk.run_bounded(SILENT, look, 20.0) == "seen"


async def test_an_unresponsive_file_system_is_not_asked_until_it_answers() -> None:
    disk = VerifiedFiles()
    answers = threading.Event()
    try:
        assert await disk.run_bounded(SILENT, answers.wait, 0.05) is None
        assert await disk.run_bounded(SILENT, lambda: "seen") is None, "it is not asked at all"
    finally:
        answers.set()
    for _ in range(1000):  # until the thread has said so
        if await disk.run_bounded(SILENT, lambda: "seen") == "seen":
            return
        await asyncio.sleep(0.01)
    pytest.fail("it is not asked again")


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="no file system of the kernel")
def test_a_file_that_is_longer_than_its_status_says_is_read_whole() -> None:
    """Files of some file systems in user space state no size, as those of the kernel do."""
    read = disk_files._read_regular(b"/proc/version")
    assert read is not None
    status, data = read
    assert (status.st_size, data) == (0, Path("/proc/version").read_bytes())
