"""A running daemon is lent to another test only if the test before left it unchanged."""

from pathlib import Path

import pytest

from tests.daemon import Daemon, DaemonPool


def assert_removed(daemon: Daemon) -> None:
    assert daemon.process is not None
    assert daemon.process.poll() is not None
    assert daemon.postgres() == []
    assert not daemon.home.exists()


def test_a_daemon_is_lent_again_until_a_test_fails(cluster: Path) -> None:
    pool = DaemonPool(cluster)
    failures = 0
    with pool.daemon(lambda: failures) as first:
        process = first.process
    with pool.daemon(lambda: failures) as second:
        assert (second, second.process) == (first, process)
        failures += 1
    assert_removed(second)
    pool.close()


def test_a_daemon_of_an_interrupted_test_is_removed(cluster: Path) -> None:
    pool = DaemonPool(cluster)
    lent = list[Daemon]()

    def interrupt_its_test() -> None:
        with pool.daemon(lambda: 0) as daemon:
            lent.append(daemon)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt_its_test()
    assert_removed(lent[0])
    pool.close()
