"""File systems that find a file under other names: upper case, or another normal form."""

import contextlib
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.scans.scan import compare_paths
from tests.unresponsive_files import UnresponsiveFileSystem
from tests.watching.support import following, in_sync


def fold(path: bytes) -> str:
    return unicodedata.normalize("NFC", path.decode()).casefold()


class FoldingFileSystem(UnresponsiveFileSystem):
    """Finds files as APFS does."""

    def _find(self, path: bytes) -> bytes:
        folded = (entry for entry in sorted(self._entries) if fold(entry) == fold(path))
        return next(folded, path)


BEFORE = {b"Foo.py": b"x = 1\n", b"Dir/Bar.py": b"y = 1\n", b"1.py": b"", b"same.py": b"z = 1\n"}
AFTER = {b"foo.py": b"x = 2\n", b"dir/Bar.py": b"y = 1\n", b"1.py": b"", b"same.py": b"z = 1\n"}


@pytest.fixture
def folding(tmp_path: Path) -> Iterator[tuple[Path, FoldingFileSystem]]:
    """A mounted root, and its server."""
    directory = tmp_path / "folding"
    directory.mkdir()
    server = FoldingFileSystem(BEFORE)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(server.mounted(directory))
        except OSError as error:
            pytest.skip(f"nothing can be mounted here: {error}")
        yield directory, server


async def test_a_name_that_changes_its_case_leaves_no_other_file(
    folding: tuple[Path, FoldingFileSystem], tmp_path: Path
) -> None:
    root, server = folding
    async with following(root, tmp_path / "sync", "auto") as (live, index):
        await in_sync(live)
        assert index.files.keys() == {path.decode() for path in BEFORE}
        server.replace(AFTER)
        await in_sync(live)
        assert index.files.keys() == {path.decode() for path in AFTER}


def test_a_file_is_only_where_its_directory_lists_it(
    folding: tuple[Path, FoldingFileSystem],
) -> None:
    """The listed path is named, since an event may have another: it is the one that is indexed."""
    root, server = folding
    composed, decomposed = "caf\N{LATIN SMALL LETTER E WITH ACUTE}.py", "cafe\u0301.py"
    server.replace(AFTER | {decomposed.encode(): b"w = 1\n"})
    scope = RootScope(os.fsencode(root), IndexingSettings())
    paths = ["Foo.py", "foo.py", "DIR/bar.py", "dir/Bar.py", "1.py", composed, decomposed, "no.py"]
    compared = compare_paths(scope, {path: path.encode() for path in paths})
    assert compared.present == ["foo.py", "dir/Bar.py", "1.py", decomposed]
    assert compared.gone == ["Foo.py", "DIR/bar.py", composed, "no.py"]
    assert compared.respelled == {
        "Foo.py": "foo.py",
        "DIR/bar.py": "dir/Bar.py",
        composed: decomposed,
    }


def test_two_names_of_one_file_are_both_names(tmp_path: Path) -> None:
    """Where names do not fold, both are listed."""
    (tmp_path / "Foo.py").write_text("x = 1\n")
    if (tmp_path / "foo.py").exists():
        pytest.skip("names fold here")
    (tmp_path / "foo.py").hardlink_to(tmp_path / "Foo.py")
    scope = RootScope(os.fsencode(tmp_path), IndexingSettings())
    compared = compare_paths(scope, {path: path.encode() for path in ("Foo.py", "foo.py")})
    assert compared.present == ["Foo.py", "foo.py"]
