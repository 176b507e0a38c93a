"""The pause after a save: none after a write in place that has ended."""

import pytest

from cocosearchd.watching.hints.base import DirtyHint, DirtyTreeHint
from cocosearchd.watching.hints.save_settling import BURST_S, SAVE_SETTLE_S, SaveSettling

WRITE = DirtyHint(b"a.py", "write")
CLOSE = DirtyHint(b"a.py", "close")
NOW = 100.0


def pause(*batches: list[DirtyHint | DirtyTreeHint]) -> float:
    """Return the pause after batches of hints that came within a millisecond of each other."""
    settling = SaveSettling()
    for number, hints in enumerate(batches):
        settling.record(hints, NOW + number * 1e-4)
    return settling.pause(NOW + (len(batches) - 1) * 1e-4)


def test_nothing_waits_before_the_first_hint() -> None:
    assert SaveSettling().pause(NOW) == 0


def test_a_file_that_was_written_and_closed_does_not_wait() -> None:
    assert pause([WRITE, CLOSE]) == pause([WRITE], [CLOSE]) == pause([CLOSE]) == 0


@pytest.mark.parametrize(
    "batches",
    [
        [[WRITE]],
        [[WRITE, CLOSE, WRITE]],
        [[DirtyHint(b"a.py"), CLOSE]],
        [[DirtyHint(b"a.py")], [WRITE], [CLOSE]],
        [[CLOSE, DirtyHint(b"b.py", "close")]],
        [[CLOSE], [DirtyHint(b"b.py", "close")]],
        [[DirtyTreeHint(b"a.py")], [CLOSE]],
    ],
)
def test_any_other_save_waits(batches: list[list[DirtyHint | DirtyTreeHint]]) -> None:
    assert pause(*batches) == pytest.approx(SAVE_SETTLE_S)


def test_the_pause_runs_from_the_last_hint() -> None:
    settling = SaveSettling()
    settling.record([WRITE], NOW)
    settling.record([WRITE], NOW + SAVE_SETTLE_S / 2)
    assert settling.pause(NOW + SAVE_SETTLE_S) == pytest.approx(SAVE_SETTLE_S / 2)
    assert settling.pause(NOW + 2 * SAVE_SETTLE_S) == 0


def test_saves_with_a_pause_between_them_are_each_alone() -> None:
    settling = SaveSettling()
    settling.record([DirtyHint(b"b.py")], NOW)
    settling.record([WRITE, CLOSE], NOW + BURST_S / 2)
    assert settling.pause(NOW + BURST_S / 2) > 0
    settling.record([WRITE, CLOSE], NOW + 2 * BURST_S)
    assert settling.pause(NOW + 2 * BURST_S) == 0
