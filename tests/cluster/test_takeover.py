"""A daemon in a distributed schema is frozen in the middle of a write, as one beside a plain schema."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.test_takeover import Registry, check_takeover, check_wake
from tests.schemas import CITUS, distributed_schema


@pytest.fixture
def registry() -> Iterator[Registry]:
    with distributed_schema(CITUS) as dsn:
        yield Registry(dsn, dsn)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_another_daemon_takes_over_from_one_that_is_frozen_in_a_write(
    registry: Registry, tmp_path: Path
) -> None:
    check_takeover(registry, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_daemon_that_was_frozen_in_a_write_writes_it_again(
    registry: Registry, tmp_path: Path
) -> None:
    check_wake(registry, tmp_path)
