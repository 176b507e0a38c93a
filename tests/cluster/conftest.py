"""Tests of a cluster of Citus: `make cluster` starts one. Without it they are skipped."""

import os
from pathlib import Path

import pytest

from tests.cluster.nodes import Cluster
from tests.schemas import CITUS, HOME_VARIABLE, WITHOUT_CITUS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of this folder without a cluster."""
    for item in items:
        if not CITUS and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=WITHOUT_CITUS))


@pytest.fixture(scope="session")
def nodes() -> Cluster:
    """The nodes of the cluster, which a test may kill and start."""
    home = os.environ.get(HOME_VARIABLE)
    if not home:
        pytest.skip(f"{HOME_VARIABLE} names no directory of nodes: see `make cluster`")
    return Cluster.open(Path(home))
