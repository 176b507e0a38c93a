"""The disk cache: every version reads it, it is bounded, and an unreadable file is replaced."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cocosearchd.embedding.vector_cache import VectorCache, text_key
from cocosearchd.runtime import disk_cache
from cocosearchd.runtime.disk_cache import LOG_BYTES, DiskCache


def test_a_file_that_is_damaged_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    path.write_bytes(b"this is no database, and it is long enough to be looked at as one" * 100)
    cache = DiskCache(path, 1 << 20)
    cache.put([(b"one", b"1")])
    cache.close()
    cache = DiskCache(path, 1 << 20)
    assert cache.get([b"one", b"two"]) == {b"one": b"1"}
    cache.close()


def test_a_file_that_is_damaged_in_its_middle_is_made_anew(tmp_path: Path) -> None:
    """While it is in use: what is read of it first is sound, and each question would fail for
    ever.
    """
    path, keys = tmp_path / "kept.sqlite", [text_key(f"{n}") for n in range(4000)]
    cache = DiskCache(path, 8 << 20)
    cache.put((key, b"x" * 512) for key in keys)
    cache.close()
    sound = path.read_bytes()
    quarter = len(sound) // 16384 * 4096
    path.write_bytes(sound[:quarter] + b"\x7e" * 2 * quarter + sound[3 * quarter :])
    cache = DiskCache(path, 8 << 20)
    assert len(cache.get(keys)) < len(keys)
    for _ in range(2):
        cache.put([(keys[0], b"1")])
        cache.flush()
    assert cache.get(keys) == {keys[0]: b"1"}
    cache.close()
    cache = DiskCache(path, 8 << 20)
    assert cache.get(keys) == {keys[0]: b"1"}
    cache.close()


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere a file that may not grow is another error"
)
def test_a_disk_that_is_full_is_no_reason_to_let_go_of_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    cache = DiskCache(path, 1 << 20)
    cache.put([(b"one", b"1")])
    cache.close()
    program = f"""
import resource, pathlib, cocosearchd.runtime.disk_cache
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # as a disk without room: no file may grow
cocosearchd.runtime.disk_cache.DiskCache(pathlib.Path({str(path)!r}), 1 << 20)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert "sqlite3.OperationalError" in done.stderr
    cache = DiskCache(path, 1 << 20)
    assert cache.get([b"one"]) == {b"one": b"1"}
    cache.close()


def test_the_disk_cache_is_bounded_and_keeps_the_values_used_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 400_000
    cache = DiskCache(tmp_path / "kept.sqlite", limit)
    for day in range(4):
        monkeypatch.setattr("time.time", lambda day=day: day * 86_400.0)
        cache.put((b"%d %d" % (day, n), b"x" * 512) for n in range(200))
        cache.get([b"0 0"])
        cache.flush()
        assert cache.used_bytes() <= limit
    assert len(cache.get([b"3 %d" % n for n in range(200)])) == 200
    assert not cache.get([b"0 %d" % n for n in range(1, 200)])
    assert cache.get([b"0 0"])  # asked for each day
    cache.close()


def test_values_are_written_to_disk_soon(tmp_path: Path) -> None:
    async def put() -> None:
        cache = DiskCache(tmp_path / "kept.sqlite", 1 << 20)
        cache.put([(b"one", b"1")])
        cache.flush_soon()
        cache.put([(b"two", b"2")])
        assert cache.get([b"one", b"two"]) == {b"one": b"1", b"two": b"2"}
        await cache.aclose()

    asyncio.run(put())
    second_cache = DiskCache(tmp_path / "kept.sqlite", 1 << 20)
    assert second_cache.get([b"one", b"two"]) == {b"one": b"1", b"two": b"2"}
    second_cache.close()


def test_values_wait_for_a_thread_that_cannot_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "FLUSH_S", 0.01)
    failures = iter([RuntimeError("can't start new thread")])
    to_thread = asyncio.to_thread

    async def start_thread(function: Callable[..., Any], *values: Any) -> Any:
        for failure in failures:
            raise failure
        return await to_thread(function, *values)

    async def put() -> None:
        cache = DiskCache(tmp_path / "kept.sqlite", 1 << 20)
        cache.put([(b"one", b"1")])
        monkeypatch.setattr(asyncio, "to_thread", start_thread)
        cache.flush_soon()
        await cache.aclose()

    asyncio.run(put())
    cache = DiskCache(tmp_path / "kept.sqlite", 1 << 20)
    assert cache.get([b"one"]) == {b"one": b"1"}
    cache.close()


def test_a_file_in_the_order_of_its_keys_goes_on_as_it_is(tmp_path: Path) -> None:
    """Earlier versions made such files."""
    path, limit = tmp_path / "kept.sqlite", 400_000
    former = sqlite3.connect(path)
    former.execute(
        "create table kept (key blob primary key, used integer not null, value blob not null) without rowid"
    )
    former.execute("insert into kept values (?, 1, ?)", (b"one", b"1"))
    former.commit()
    former.close()
    cache = DiskCache(path, limit)
    assert cache.get([b"one"]) == {b"one": b"1"}
    cache.put([(b"one", b"uno"), (b"two", b"2")])
    cache.flush()
    assert cache.get([b"one", b"two"]) == {b"one": b"uno", b"two": b"2"}
    cache.put((b"%d" % n, b"x" * 512) for n in range(2000))
    cache.flush()
    assert 0 < cache.used_bytes() <= limit
    cache.close()


def test_new_values_are_stored_behind_older_ones(tmp_path: Path) -> None:
    """Keys are digests: in their order, each value would write a page of its own."""
    path = tmp_path / "kept.sqlite"
    cache = DiskCache(path, 8 << 20)
    cache.put((text_key(f"{n}"), b"x" * 512) for n in range(4000))
    cache.flush()
    connection = sqlite3.connect(path)
    assert connection.execute("pragma wal_checkpoint(truncate)").fetchone() == (0, 0, 0)
    cache.put((text_key(f"new {n}"), b"y" * 512) for n in range(100))
    cache.flush()
    assert Path(f"{path}-wal").stat().st_size < 100 * 4096 * 2 // 3
    connection.close()
    cache.close()


def test_vectors_of_the_version_before_are_found(tmp_path: Path) -> None:
    path, vector = tmp_path / "vectors.sqlite", np.arange(4, dtype=np.float16)
    former = sqlite3.connect(path)
    former.execute(
        "create table vectors (key blob primary key, used integer not null, vector blob not null)"
    )
    former.execute("insert into vectors values (?, 1, ?)", (text_key("one"), vector.tobytes()))
    former.commit()
    former.close()
    store = VectorCache(path, 1 << 20)
    np.testing.assert_array_equal(store.vectors([text_key("one")], 4)[text_key("one")], vector)
    assert not store.vectors([text_key("one")], 8), "of another dimension"
    store.close()


def test_compressed_values_are_small_and_replace_those_of_an_earlier_version(
    tmp_path: Path,
) -> None:
    path, keys = tmp_path / "kept.sqlite", [text_key(f"{n}") for n in range(200)]
    values = {key: b"%d " % n * 1000 for n, key in enumerate(keys)}
    cache = DiskCache(path, 8 << 20)
    cache.put([(keys[0], values[keys[0]])])
    cache.close()
    cache = DiskCache(path, 8 << 20, compress=True)
    assert cache.get(keys) == {}, "the value was not compressed"
    cache.put(values.items())
    assert cache.get(keys) == values, "before they are written"
    cache.flush()
    assert cache.get(keys) == values
    cache.close()
    assert path.stat().st_size < sum(map(len, values.values())) / 5


def test_the_log_of_many_values_is_emptied(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    cache = DiskCache(path, 8 << 20)
    values = {text_key(f"{n}"): bytes([n % 256]) * 1024 for n in range(2000)}
    cache.put(values.items())
    cache.flush()
    assert Path(f"{path}-wal").stat().st_size == 0
    cache.put([(b"one", b"1")])
    cache.flush()
    assert 0 < Path(f"{path}-wal").stat().st_size < LOG_BYTES
    assert cache.get(list(values)) == values
    cache.close()
