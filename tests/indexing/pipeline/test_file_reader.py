"""Reading a path that has become anything else: nothing outside of the root is read, and nothing
waits.
"""

import os
import threading
from pathlib import Path

import pytest

from cocosearchd.indexing.pipeline.file_reader import (
    MissingFile,
    Reading,
    SourceFile,
    UnreadFile,
    read_files,
)
from cocosearchd.store.index_records import pack_fingerprint, unpack_fingerprint

LIMIT = 1000


def read_one(root: Path, path: str, limit: int = LIMIT) -> Reading:
    (file,) = read_files(os.fsencode(root), [path], limit)
    return file


def test_bytes_hash_and_fingerprint_are_of_one_moment(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.py").write_bytes(b"x = 1\r\n")
    file = read_one(tmp_path, "a/b.py")
    assert isinstance(file, SourceFile)
    status = (tmp_path / "a/b.py").stat()
    assert file.data == b"x = 1\r\n"
    assert (file.fingerprint.inode, file.fingerprint.size) == (status.st_ino, 7)
    (same,) = read_files(os.fsencode(tmp_path), ["a/b.py"], LIMIT, force=7)
    assert isinstance(same, SourceFile)
    assert (same.content_hash, same.force) == (file.content_hash, 7)


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("password = 1\n")
    root = tmp_path / "root"
    root.mkdir()
    (root / "file.py").symlink_to(outside / "secret.py")
    (root / "folder").symlink_to(outside)
    assert isinstance(read_one(root, "file.py"), MissingFile)
    assert isinstance(read_one(root, "folder/secret.py"), MissingFile)


def test_a_path_without_a_regular_file_is_missing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")  # opened in the usual way, this would wait for a writer
    for path in ("folder", "pipe", "nothing", "file/below", "no/such/folder"):
        assert isinstance(read_one(tmp_path, path), MissingFile), path


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (LIMIT + 1))
    file = read_one(tmp_path, "large")
    assert isinstance(file, SourceFile)
    assert (file.skip, file.data) == ("too_large", b"")
    (tmp_path / "large").write_bytes(b"y" * (LIMIT + 1))
    os.utime(tmp_path / "large", ns=(1, 1))
    again = read_one(tmp_path, "large")
    assert isinstance(again, SourceFile)
    # by what `fstat` says, so that its row is renewed
    assert again.content_hash != file.content_hash
    (tmp_path / "exact").write_bytes(b"x" * LIMIT)
    exact = read_one(tmp_path, "exact")
    assert isinstance(exact, SourceFile)
    assert exact.skip is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_skipped_until_it_changes(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.write_text("secret of its owner")
    closed.chmod(0)
    file = read_one(tmp_path, "closed")
    assert isinstance(file, SourceFile)
    assert (file.skip, file.data) == ("unreadable", b"")
    assert read_one(tmp_path, "closed") == file
    closed.chmod(0o600)
    opened = read_one(tmp_path, "closed")
    assert isinstance(opened, SourceFile)
    assert (opened.skip, opened.data) == (None, b"secret of its owner")
    assert opened.content_hash != file.content_hash


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_closed_directory_says_nothing_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "file").write_text("")
    (tmp_path / "away").chmod(0)
    file = read_one(tmp_path, "away/file")
    (tmp_path / "away").chmod(0o700)
    assert isinstance(file, UnreadFile)


def test_a_root_that_is_away_says_nothing_of_its_files(tmp_path: Path) -> None:
    files = list(read_files(os.fsencode(tmp_path / "unmounted"), ["a", "b"], LIMIT))
    assert [type(file) for file in files] == [UnreadFile, UnreadFile]


def test_a_file_that_is_being_written_is_never_read_in_part(tmp_path: Path) -> None:
    path, stop = tmp_path / "busy", threading.Event()
    path.write_bytes(b"")

    def write() -> None:
        number = 0
        while not stop.is_set():
            number = (number + 1) % 26
            path.write_bytes(bytes([97 + number]) * 900)  # truncates first

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            file = read_one(tmp_path, "busy")
            if isinstance(file, SourceFile):
                assert len(file.data) == file.fingerprint.size
                assert len(set(file.data)) <= 1
    finally:
        stop.set()
        writer.join()


def test_a_file_that_is_written_meanwhile_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, written = tmp_path / "a.py", os.pread, 0

    def pread(handle: int, size: int, offset: int) -> bytes:
        nonlocal written
        data = real(handle, size, offset)
        if written < changes:
            written += 1
            path.write_bytes(b"x = %d\n" % written)
        return data

    monkeypatch.setattr("cocosearchd.indexing.pipeline.file_reader.os.pread", pread)
    path.write_bytes(b"x = 0\n")
    changes = 1
    file = read_one(tmp_path, "a.py")
    assert isinstance(file, SourceFile)
    assert file.data == b"x = 1\n"
    written, changes = 0, 99
    assert read_one(tmp_path, "a.py") == UnreadFile("a.py", "it changes while it is read")


def test_the_time_of_any_year_has_64_bits(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"x = 1\n")
    for seconds in (-(1 << 31), 1 << 33, 15_000_000_000):
        os.utime(path, (seconds, seconds))
        file = read_one(tmp_path, "a.py")
        assert isinstance(file, SourceFile)
        assert unpack_fingerprint(pack_fingerprint(file.fingerprint)) == file.fingerprint
