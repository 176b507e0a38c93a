"""The pace of checks of roots at rest, and the stamps that they share."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from cocosearchd.watching.scans import root_group
from cocosearchd.watching.scans.root_group import PACED_ROOTS, RootGroup


def test_many_roots_together_are_checked_no_more_often_than_a_few() -> None:
    group = RootGroup()
    with ExitStack() as roots:
        assert group.rest_s(5.0) == 5.0
        for count in range(1, 201):
            roots.enter_context(group.member())
            assert group.rest_s(5.0) >= 5.0
            assert count / group.rest_s(5.0) <= PACED_ROOTS / 5.0
        assert group.rest_s(5.0) == 5.0 * 200 / PACED_ROOTS
    assert group.rest_s(5.0) == 5.0, "a root that has ended does not count"


def test_roots_side_by_side_share_stamps_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = RootGroup()
    root = bytes(tmp_path / "root")
    earlier = group.recent_stamps().read(root, lambda: b"")
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert group.recent_stamps().read(root, lambda: b"") == earlier
    monkeypatch.setattr(root_group, "STAMPS_S", 0.0)
    assert group.recent_stamps().read(root, lambda: b"") != earlier
