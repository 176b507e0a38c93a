"""A real daemon with a hostile root beside a neighbour, whose saves must stay fresh meanwhile."""

from pathlib import Path

import pytest

from tests.hostile.neighbour import Neighbour


@pytest.fixture
def hostile_root(tmp_path: Path) -> Path:
    """An empty directory for what an attacker writes."""
    root = tmp_path / "hostile"
    root.mkdir()
    return root


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """An executable script that leaves a file `canary.ran` beside itself; no attack may run it."""
    script = tmp_path / "canary"
    script.write_text(f'#!/bin/sh\necho "$0 $@" >> "{tmp_path}/canary.ran"\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def neighbour(tmp_path: Path) -> Neighbour:
    """A second root; `watch` it in the test's daemon, then `assert_fresh` while the attack goes
    on.
    """
    root = tmp_path / "neighbour"
    root.mkdir()
    (root / "main.py").write_text("def neighbour_main():\n    return 1\n")
    return Neighbour(root)
