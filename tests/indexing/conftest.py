"""Roots with real files, and the settings of an indexer process for a test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cocosearchd.indexing.indexer.row_target import FileTarget
from cocosearchd.indexing.indexer.work_priority import WorkPriority
from cocosearchd.indexing.indexer_messages import IndexerSpec
from cocosearchd.indexing.pipeline.manifest_cache import open_manifest_file
from cocosearchd.runtime.disk_cache import DiskCache

PYTHON = '''"""Where {name} is decided."""


def {name}(count: int) -> int:
    """Return {name}, counted."""
    total = 0
    for step in range(count):
        total += step * {number}
    return total


class {title}:
    """A holder of {name}."""

    def apply(self, value: int) -> int:
        return {name}(value)
'''


def python(name: str, number: int = 1) -> str:
    """A module with two definitions."""
    return PYTHON.format(name=name, title=name.title(), number=number)


@pytest.fixture
def disk_cache(tmp_path: Path) -> Iterator[DiskCache]:
    """The disk cache of manifests."""
    cache = open_manifest_file(tmp_path, 1 << 24)
    assert cache is not None
    yield cache
    cache.close()


@pytest.fixture
async def cacheable(tmp_path: Path) -> AsyncIterator[DiskCache]:
    """Like `disk_cache`, but written soon."""
    cache = open_manifest_file(tmp_path, 1 << 24)
    assert cache is not None
    yield cache
    await cache.aclose()


@pytest.fixture(scope="session")
def target() -> FileTarget:
    """The target of this process: CocoIndex registers one only."""
    return FileTarget(WorkPriority())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Ten small files in three folders."""
    root = tmp_path / "root"
    for number, name in enumerate(
        ["retry", "backoff", "socket", "parser", "cache", "limit", "token", "route", "queue"]
    ):
        path = root / ("src" if number % 2 else "lib") / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(python(name, number))
    (root / "README.md").write_text("# A project\n\nRetries are decided in `retry`.\n")
    return root


@pytest.fixture
def spec(dsn: str, tmp_path: Path) -> IndexerSpec:
    """The specification of an indexer process: the test's own database and state."""
    return IndexerSpec(dsn, str(tmp_path / "state"))
