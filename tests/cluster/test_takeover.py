"""A daemon in a distributed schema that freezes in the middle of a write, as beside a plain schema."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.test_takeover import CHECKS, Check, Registry
from tests.schemas import CITUS, distributed_schema


@pytest.fixture
def registry() -> Iterator[Registry]:
    with distributed_schema(CITUS) as dsn:
        yield Registry(dsn, dsn)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("check", CHECKS)
def test_a_daemon_is_frozen_in_a_write(check: Check, registry: Registry, tmp_path: Path) -> None:
    check(registry, tmp_path)
