"""Two rounds of the soak: one with a kill, one with an overflow. `make soak` runs a thousand."""

from pathlib import Path

import pytest

from tests.flows.soak import QUEUE, run, soaking


@pytest.mark.skipif(not QUEUE.exists(), reason="inotify exists on Linux only")
@pytest.mark.timeout(180)
def test_rounds_of_changes_kills_and_overflows_leave_no_difference(cluster: Path) -> None:
    with soaking(20261121, 90, cluster=cluster) as soak:
        run(soak, 3)  # an ordinary one, `kill -9` of the daemon, an overflow
        assert soak.tally.divergences == []
        assert soak.tally.counts["kill -9 daemon"] == 1
        assert soak.tally.counts["overflows seen"] >= 1
