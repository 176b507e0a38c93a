"""What the daemon's values are as replies."""

import pytest

from cocosearchd.api import replies
from cocosearchd.model import Clock, IndexRecord
from cocosearchd.store.index_records import Counts
from cocosearchd.watching.root_status import RootStatus
from tests.store.support import IDENTITY

RECORD = IndexRecord(1, "code", "code", b"/code", (), 8, IDENTITY, 3)


@pytest.mark.parametrize(
    ("done", "total", "stored", "shown"),
    [
        (0, None, Counts(40, 90, (("binary", 2),)), 42),  # reopened, and not scanned yet
        (0, None, Counts(0, 0), 0),
        (0, None, Counts(-1, -1), 0),  # PostgreSQL is away
        (7, 50, Counts(40, 90), 7),
    ],
)
def test_progress_begins_with_what_is_stored(
    done: int, total: int | None, stored: Counts, shown: int
) -> None:
    status = RootStatus("cold", done, total, 0, (), "inotify", None, Clock("e", 1))
    assert replies.progress(RECORD, status, stored).done == shown
