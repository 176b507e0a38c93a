"""The measure of the hostile tests: `neighbour` tells a fresh root from one of a stopped daemon."""

import pytest

from cocosearch_ipc.client import CallFailed
from tests.daemon import Daemon
from tests.hostile.neighbour import Neighbour


def test_a_neighbour_of_a_running_daemon_is_fresh(shared: Daemon, neighbour: Neighbour) -> None:
    neighbour.watch(shared)
    neighbour.assert_fresh(shared)


def test_a_neighbour_of_a_daemon_that_is_gone_is_not(daemon: Daemon, neighbour: Neighbour) -> None:
    neighbour.watch(daemon)
    daemon.kill()
    with pytest.raises(CallFailed):
        neighbour.assert_fresh(daemon)
