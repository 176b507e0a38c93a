"""Bulk work waits on a full disk and on battery; saved files do not."""

import ctypes
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.coordinator import updater
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.indexing.throttle import Throttle, free_bytes, on_battery
from cocosearchd.sandbox.process_priority import lower_io_priority
from cocosearchd.store.connection.database import Database
from tests.indexing.support import Change, new_record, running

FULL = 1 << 60  # more than any disk has


def supply(folder: Path, name: str, **values: str) -> None:
    (folder / name).mkdir(parents=True)
    for key, value in values.items():
        (folder / name / key).write_text(value + "\n")


def test_a_battery_counts_when_it_is_used_up(tmp_path: Path) -> None:
    assert not on_battery(tmp_path / "none")
    supply(tmp_path / "desk", "AC", type="Mains", online="1")
    # one that is being calibrated
    supply(tmp_path / "desk", "BAT0", type="Battery", status="Discharging")
    assert not on_battery(tmp_path / "desk")
    supply(tmp_path / "train", "AC", type="Mains", online="0")
    supply(tmp_path / "train", "BAT0", type="Battery", status="Discharging")
    assert on_battery(tmp_path / "train")
    supply(
        tmp_path / "mouse", "hidpp_battery_0", type="Battery", status="Discharging", scope="Device"
    )
    assert not on_battery(tmp_path / "mouse")


def test_the_reason_is_said(tmp_path: Path) -> None:
    train = tmp_path / "supplies"
    supply(train, "BAT0", type="Battery", status="Discharging")
    assert Throttle(tmp_path, IndexingSettings(min_free_bytes=0), train).pause_reason() is None
    reason = Throttle(
        tmp_path, IndexingSettings(min_free_bytes=0, pause_on_battery=True), train
    ).pause_reason()
    assert "battery" in (reason or "")
    reason = Throttle(tmp_path, IndexingSettings(min_free_bytes=FULL), train).pause_reason()
    assert f"MiB are free in {tmp_path}" in (reason or "")
    assert (free_bytes(tmp_path) or 0) > 0
    assert (free_bytes(tmp_path / "not" / "yet") or 0) > 0


@pytest.mark.anyio
async def test_without_room_saves_go_on_and_bulk_work_waits(
    db: Database, root: Path, spec: IndexerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updater, "THROTTLE_CHECK_S", 0.05)
    record = await new_record(db, root)
    async with running(
        db, record, root, replace(spec, indexing=IndexingSettings(min_free_bytes=FULL))
    ) as bench:
        bench.source.give(Change(("README.md",)))
        await bench.source.overtake(Change(("lib/retry.py",), urgent=True))
        assert set(await bench.stored()) == {"lib/retry.py"}
        assert bench.updater.status.paused is not None
        bench.updater._throttle = Throttle(Path(spec.state_dir), IndexingSettings(min_free_bytes=0))
        assert await bench.source.idle() == {}
        assert set(await bench.stored()) == {"lib/retry.py", "README.md"}
        assert bench.updater.status.paused is None


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="asks this kernel"
)
def test_bulk_threads_read_last() -> None:
    def priority() -> int:
        return int(ctypes.CDLL(None).syscall(252, 1, 0))  # ioprio_get of this thread

    with ThreadPoolExecutor(1, initializer=lower_io_priority) as threads:
        assert threads.submit(priority).result() == (2 << 13) | 7
    assert priority() != (2 << 13) | 7
