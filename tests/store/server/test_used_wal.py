"""The write-ahead log of bulk work is freed soon after its end, and at no other time."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cocosearchd.errors import StoreUnavailable
from cocosearchd.store.server import used_wal
from cocosearchd.store.server.embedded import WAL_SEGMENT_MB, EmbeddedPostgres
from cocosearchd.store.server.used_wal import UsedWal
from tests.clusters import copy_cluster, keep_cluster

SEGMENT = WAL_SEGMENT_MB << 20  # bytes


@pytest.fixture
def postgres(public_state: Path, cluster: Path) -> Iterator[EmbeddedPostgres]:
    """An embedded server with a table of bytes."""
    copy_cluster(cluster, public_state / "used-wal")
    server = EmbeddedPostgres(public_state / "used-wal", {"shared_buffers": "16MB"})
    with psycopg.connect(server.ensure(), autocommit=True) as connection:
        connection.execute("create table written (bytes bytea)")
        connection.execute("alter table written alter column bytes set storage external")
    yield server
    server.stop()
    keep_cluster(server.home / "pg", cluster)
    shutil.rmtree(server.home, ignore_errors=True)


def write(postgres: EmbeddedPostgres, megabytes: int) -> None:
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(
            "insert into written select decode(repeat('ab', 1 << 20), 'hex')"
            " from generate_series(1, %s)",
            (megabytes,),
        )


def wal_bytes(postgres: EmbeddedPostgres) -> int:
    return sum(file.stat().st_size for file in (postgres.data / "pg_wal").iterdir())


def used_wal_of(postgres: EmbeddedPostgres) -> UsedWal:
    return UsedWal(postgres.data, postgres.superuser_dsn)


def test_log_of_bulk_work_is_freed_once_writes_have_ended(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed_log = used_wal_of(postgres)
    write(postgres, 100)
    assert wal_bytes(postgres) > used_wal.FREED_BYTES
    assert freed_log.free() == 0, "it was written just now"
    monkeypatch.setattr(used_wal, "QUIET_S", 0.0)
    size = wal_bytes(postgres)
    assert freed_log.free() == size - wal_bytes(postgres)
    assert wal_bytes(postgres) <= 2 * SEGMENT
    with psycopg.connect(postgres.dsn) as connection:
        assert connection.execute("select count(*) from written").fetchone() == (100,)


def test_short_log_is_left(postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saves are worth no checkpoint: after it, each page is written in full once more."""
    monkeypatch.setattr(used_wal, "QUIET_S", 0.0)
    short_log = used_wal_of(postgres)
    short_log.free()  # that of the start
    write(postgres, 1)
    size = wal_bytes(postgres)
    assert short_log.free() == 0
    assert wal_bytes(postgres) == size


def test_log_that_a_checkpoint_does_not_free_is_not_tried_again(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(used_wal, "QUIET_S", 0.0)
    monkeypatch.setattr(used_wal, "FREED_BYTES", SEGMENT)
    retained_log = used_wal_of(postgres)
    write(postgres, 100)
    with psycopg.connect(postgres.superuser_dsn, autocommit=True) as connection:
        connection.execute("alter system set wal_keep_size = '512MB'")
        connection.execute("select pg_reload_conf()")
    retained_log.free()
    position = "select redo_lsn from pg_control_checkpoint()"
    with psycopg.connect(postgres.superuser_dsn, autocommit=True) as connection:
        first = connection.execute(position).fetchone()
        assert retained_log.free() == 0
        assert connection.execute(position).fetchone() == first, "no second checkpoint"


def test_a_server_that_is_gone_is_reported(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(used_wal, "QUIET_S", 0.0)
    monkeypatch.setattr(used_wal, "FREED_BYTES", 0)
    freed_log = used_wal_of(postgres)
    postgres.stop()
    with pytest.raises(StoreUnavailable, match="no checkpoint"):
        freed_log.free()
