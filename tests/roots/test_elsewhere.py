"""Files that have a name outside of the root, or of what is indexed of it: what is written by that makes no event."""

import os
from pathlib import Path

import anyio
import pytest

from cocosearchd.roots import links
from cocosearchd.settings import IndexingSettings
from tests.roots.support import BACKENDS, following, in_sync, on_disk

PYTHON = IndexingSettings(include=("*.py",))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    for name in ("a", "b", "c"):
        (root / f"{name}.py").write_text(f"# {name}\n")
    return root


@pytest.mark.parametrize("backend", BACKENDS)
async def test_what_is_written_by_a_name_outside_is_seen_by_the_next_question(
    root: Path, tmp_path: Path, backend: str
) -> None:
    outside = tmp_path / "outside.py"
    outside.hardlink_to(root / "a.py")
    async with following(root, tmp_path / "sync", backend, indexing=PYTHON) as (live, index):
        await in_sync(live)
        for number in range(3):
            outside.write_text(f"# {number}\n")
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))


async def test_nothing_is_read_again_without_a_change(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.hardlink_to(root / "a.py")
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        outside.write_text("# other\n")
        await in_sync(live)
        index.batches.clear()
        await in_sync(live)
        assert not index.batches
        outside.unlink()
        await in_sync(live)
        index.batches.clear()
        await in_sync(live)
        assert not index.batches


async def test_a_name_that_is_moved_out_of_what_is_indexed_is_followed(root: Path, tmp_path: Path) -> None:
    (root / ".ignored").mkdir()
    (root / ".gitignore").write_text(".ignored/\n")
    os.link(root / "b.py", root / "b2.py")
    os.link(root / "c.py", root / "c2.py")
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        (root / "b2.py").rename(tmp_path / "out.py")
        (root / "c2.py").rename(root / ".ignored" / "c2.py")
        await in_sync(live)
        (tmp_path / "out.py").write_text("# written outside\n")
        (root / ".ignored" / "c2.py").write_text("# written where nothing is indexed\n")
        await in_sync(live)
        there = on_disk(os.fsencode(root))
        del there[b".ignored/c2.py"]
        assert index.contents() == there


async def test_it_is_seen_without_a_question(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.hardlink_to(root / "a.py")
    async with following(root, tmp_path / "sync", indexing=PYTHON) as (live, index):
        await in_sync(live)
        outside.write_text("# other\n")
        with anyio.fail_after(15):
            while index.contents() != on_disk(os.fsencode(root)):
                await anyio.sleep(0.05)


async def test_one_question_looks_at_so_many_files_at_most(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "FOLLOWED", 2)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.py").hardlink_to(root / f"{name}.py")
    seen = links.Links()
    seen.scanned(filter(None, (links.linked(path.name, path.lstat()) for path in sorted(root.iterdir()))))
    assert [path for path, _ in seen.suspects()] == ["a.py", "b.py"]
