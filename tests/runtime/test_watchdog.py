"""The watchdog's ticks go on where no process can be made; `hostile.test_frozen` has the rest."""

import asyncio
import errno
import os
import subprocess
from pathlib import Path

import pytest

from cocosearchd.runtime import watchdog
from cocosearchd.runtime.watchdog import WatchdogPlan


def test_a_watchdog_without_descriptors_is_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watchdog, "TICK_S", 0.02)
    make_pipe = os.pipe2
    failures = iter([OSError(errno.EMFILE, "Too many open files")] * 3)

    def fail_three_times(flags: int) -> tuple[int, int]:
        for failure in failures:
            raise failure
        return make_pipe(flags)

    monkeypatch.setattr(os, "pipe2", fail_three_times)
    guarded = watchdog._Watchdog(WatchdogPlan(60.0, restart=False, command=()), tmp_path / "mark")

    async def run() -> subprocess.Popen[bytes] | None:
        guarded.start()
        for _ in range(3000):
            if guarded._process is not None:
                break
            await asyncio.sleep(0.02)
        process = guarded._process
        guarded.stop()
        return process

    process = asyncio.run(run())
    assert process is not None
    assert process.wait(60) is not None
    assert sum(record.message == "no_watchdog" for record in caplog.records) == 3
