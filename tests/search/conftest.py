"""Fixtures of the tests of searching."""

from collections.abc import AsyncIterator

import pytest

from cocosearchd.indexing.pool.overlay_parser import OverlayParser


@pytest.fixture
async def overlay_parser() -> AsyncIterator[OverlayParser]:
    parser = OverlayParser()
    yield parser
    await parser.aclose()
