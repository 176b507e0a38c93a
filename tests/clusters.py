"""Copies of a cluster of PostgreSQL that `initdb` has made. A used copy is restored, not made anew.

A cluster has a thousand files. To create and remove them costs a file system more than a short run
of the server, which writes fifty of them.
"""

import os
import shutil
import stat
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from cocosearchd.store.server.embedded import EmbeddedPostgres

BLOCK = 1 << 18  # bytes that are compared, and written, at once


def initialise_cluster(home: Path) -> None:
    """Have `initdb` make the cluster of an `EmbeddedPostgres` of `home`. No server runs then."""
    postgres = EmbeddedPostgres(home, {})
    postgres.ensure()
    postgres.stop()


def copy_cluster(cluster: Path, home: Path) -> None:
    """Copy an initialised cluster for an `EmbeddedPostgres` of `home`, in place of running
    `initdb`.
    """
    home.mkdir(parents=True, mode=0o711)
    original = cluster.lstat()
    spares = (
        spare for spare in _spares(cluster).glob("*/pg") if _is_alike(spare.lstat(), original)
    )
    spare = next(spares, None)
    if spare is None:
        subprocess.run(["cp", "-a", cluster, home / "pg"], check=True)  # owners are kept
        return
    spare.rename(home / "pg")
    restore(home / "pg", cluster)


def keep_cluster(used: Path, cluster: Path) -> None:
    """Keep a used copy for `copy_cluster`, if its server has ended in order and left it here."""
    spares = _spares(cluster)
    spares.mkdir(mode=0o711, exist_ok=True)
    if (
        (used / "data").is_dir()
        and not (used / "data" / "postmaster.pid").exists()
        and used.lstat().st_dev == spares.stat().st_dev
    ):
        used.rename(Path(tempfile.mkdtemp(dir=spares)) / "pg")


def restore(copy: Path, cluster: Path) -> None:
    """Make a used copy equal to its cluster again.

    A file that has the size, the time of the last change, the owner and the mode of the original
    was not written: a server writes long after `initdb`.
    """
    originals = _inventory(cluster)
    missing = set(originals)
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(copy / folder) as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                original = originals.get(path)
                status = entry.stat(follow_symlinks=False)
                if original is None or not _is_alike(status, original):
                    _remove(copy / path)
                    continue
                missing.discard(path)
                if stat.S_ISDIR(status.st_mode):
                    folders.append(f"{path}/")
                elif _version(status) != _version(original):
                    _write_differences(copy / path, cluster / path, original)
    for path in sorted(missing):  # a folder comes before what is in it
        _copy(cluster / path, copy / path, originals[path])


def _spares(cluster: Path) -> Path:
    """The directory of used copies: each `pg` has a directory of its own."""
    return cluster.with_name("spares")


@cache
def _inventory(cluster: Path) -> dict[str, os.stat_result]:
    """Everything in a cluster by its path below it, with its status."""
    return {
        str(path.relative_to(cluster)): path.lstat()
        for path in cluster.rglob("*")
        if not path.is_symlink()
    }


def _is_alike(status: os.stat_result, original: os.stat_result) -> bool:
    """Return whether two entries have one type, mode and owner, and a file no second name."""
    is_folder = stat.S_ISDIR(status.st_mode)
    return (
        status.st_mode == original.st_mode
        and (status.st_uid, status.st_gid) == (original.st_uid, original.st_gid)
        and (is_folder or status.st_nlink == 1)
    )


def _version(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def _copy(original: Path, path: Path, status: os.stat_result) -> None:
    """Copy a file, or an empty folder, with its owner, mode and times."""
    if stat.S_ISDIR(status.st_mode):
        path.mkdir()
    else:
        shutil.copyfile(original, path)
    os.chown(path, status.st_uid, status.st_gid)
    shutil.copystat(original, path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _write_differences(path: Path, original: Path, status: os.stat_result) -> None:
    """Write the blocks of a file that differ from its original, and set its size and times."""
    with path.open("r+b") as file, original.open("rb") as source:
        while block := source.read(BLOCK):
            position = source.tell() - len(block)
            file.seek(position)
            if file.read(len(block)) != block:
                file.seek(position)
                file.write(block)
        file.truncate(status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
