"""The rotation of full reads reaches every file in time, from any start."""

import pytest

from cocosearchd.watching.scans.audit_rotation import AuditRotation


@pytest.mark.parametrize("shares", [1, 2, 7, 10, 144])
@pytest.mark.parametrize("files", [1, 2, 9, 39, 40, 41, 143, 144, 145, 1000])
def test_all_files_are_in_the_shares(shares: int, files: int) -> None:
    for files_at_first in range(0, files, 3):
        rotation = AuditRotation(shares)
        rotation.next_share(files_at_first)
        listed = list(range(files))
        audited = {
            file for _ in range(shares + 1) for file in listed[rotation.next_share(len(listed))]
        }
        assert audited == set(listed), files_at_first


def test_a_share_of_no_files_is_empty() -> None:
    rotation = AuditRotation(144)
    assert [][rotation.next_share(0)] == []
