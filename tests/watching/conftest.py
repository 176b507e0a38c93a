"""Fixtures of the tests of watching."""

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make an empty directory to be a root."""
    root = tmp_path / "root"
    root.mkdir()
    return root
