"""A used copy of a cluster, restored, has every file as `initdb` made it."""

import subprocess
from pathlib import Path

import psycopg

from cocosearchd.store.server.embedded import EmbeddedPostgres
from tests.clusters import copy_cluster, keep_cluster


def test_a_used_copy_is_restored(cluster: Path, public_state: Path) -> None:
    copy_cluster(cluster, public_state / "original")
    cluster = public_state / "original" / "pg"  # with used copies of its own
    first, second = public_state / "first", public_state / "second"
    copy_cluster(cluster, first)
    server = EmbeddedPostgres(first, {"shared_buffers": "16MB"})
    server.ensure()
    with psycopg.connect(server.superuser_dsn, autocommit=True) as connection:
        connection.execute("create table rows as select * from generate_series(1, 10000)")
        connection.execute("create database more")
    server.stop()
    changed = sorted((first / "pg" / "data" / "base" / "1").iterdir())
    changed[0].unlink()
    changed[1].write_bytes(b"damage")
    changed[2].chmod(0o640)
    (first / "pg" / "data" / "pg_hba.conf").unlink(missing_ok=True)
    (first / "pg" / "data" / "pg_notify").rmdir()
    (first / "pg" / "strange").symlink_to("/")
    used = (first / "pg").stat().st_ino
    keep_cluster(first / "pg", cluster)
    assert not (first / "pg").exists()
    copy_cluster(cluster, second)
    assert (second / "pg").stat().st_ino == used
    listing = (
        "find . -printf '%p %y %m %U %G %l %n\\n' | sort; find . -type f -exec md5sum {} + | sort"
    )
    copied, original = (
        subprocess.run(["sh", "-c", listing], cwd=folder, capture_output=True, check=True).stdout
        for folder in (second / "pg", cluster)
    )
    assert copied == original


def test_a_copy_with_a_server_is_not_kept(cluster: Path, public_state: Path) -> None:
    home = public_state / "running"
    copy_cluster(cluster, home)
    (home / "pg" / "data" / "postmaster.pid").write_text("1\n")
    keep_cluster(home / "pg", cluster)
    assert (home / "pg" / "data" / "postmaster.pid").exists()
