"""Fixtures of the tests of searching."""

from collections.abc import AsyncIterator

import pytest

from cocosearchd.indexing.pool.overlay_parser import OverlayParser


@pytest.fixture
async def outliner() -> AsyncIterator[OverlayParser]:
    one = OverlayParser()
    yield one
    await one.aclose()
