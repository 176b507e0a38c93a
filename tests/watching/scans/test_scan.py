"""Scans: when a comparison may trust times and sizes."""

import os
import time
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.model import RACY_NS, FileRecord, Fingerprint
from cocosearchd.watching.availability.unmounted_directories import is_bare
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.scans.scan import Scan


def test_a_file_changed_just_before_the_scan_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within one step of the file system's clock, two contents can have the same times and size."""
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    print_of_file = Fingerprint.from_status(path.lstat())
    stored = {"a.py": FileRecord("a.py", b"", print_of_file, 1, 1, "python")}
    scope = RootScope(os.fsencode(tmp_path), IndexingSettings())
    assert Scan(scope, stored, lambda _: None).run([b""]).dirty == ["a.py"]
    later = time.time_ns() + 2 * RACY_NS
    monkeypatch.setattr("cocosearchd.watching.scans.scan.time.time_ns", lambda: later)
    assert Scan(scope, stored, lambda _: None).run([b""]).dirty == []


def test_a_file_that_goes_while_its_directory_is_listed_hides_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event tells of the others: they were there before the directory was watched."""
    folder = tmp_path / "new"
    folder.mkdir()
    for name in ("__init__.py", "kept.py", "lock"):
        (folder / name).touch()

    def listed(entries: list[os.DirEntry[bytes]]) -> bool:
        (folder / "lock").unlink()
        return is_bare(entries)

    monkeypatch.setattr("cocosearchd.watching.scans.scan.is_bare", listed)
    scope = RootScope(os.fsencode(tmp_path), IndexingSettings())
    assert sorted(Scan(scope, {}, lambda _: None).run([b""]).dirty) == [
        "new/__init__.py",
        "new/kept.py",
    ]
