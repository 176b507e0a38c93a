"""Two rounds of the soak: one with a kill, one with an overflow. `make soak` runs a thousand."""

from pathlib import Path

import pytest

from tests.flows.soak import QUEUE, run, says, soaking


@pytest.mark.skipif(not QUEUE.exists(), reason="inotify exists on Linux only")
def test_rounds_of_changes_kills_and_overflows_leave_no_difference(cluster: Path) -> None:
    with soaking(20261121, 90, cluster=cluster) as soak:
        run(soak, 3)  # an ordinary one, `kill -9` of the daemon, an overflow
        assert soak.tally.divergences == []
        assert soak.tally.counts["kill -9 daemon"] == 1
        assert soak.tally.counts["overflows seen"] >= 1


def test_a_line_that_is_cut_is_no_difference(tmp_path: Path) -> None:
    line = "z" * 225  # a file of conflicts may grow so long, and then be one line
    (tmp_path / "a.py").write_text(f"{line}\n")
    content = f"{line[:197]}...\n"
    assert says(bytes(tmp_path), "a.py", 0, 226, content, as_shown=True)
    assert not says(bytes(tmp_path), "a.py", 0, 226, content)
    assert not says(bytes(tmp_path), "a.py", 0, 226, f"{line[:196]}y...\n", as_shown=True)
    assert not says(bytes(tmp_path), "gone.py", 0, 0, "", as_shown=True)
