"""What tests of searching share."""

from collections.abc import AsyncIterator

import pytest

from cocosearchd.indexing.pool.overlay_parser import Outliner


@pytest.fixture
async def outliner() -> AsyncIterator[Outliner]:
    one = Outliner()
    yield one
    await one.aclose()
