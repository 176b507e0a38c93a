"""The official conformance suite against our own listener. Needs Node and `make conformance`, which
fetches it.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio.from_thread
import pytest

from cocosearch_ipc.trust.credentials import TokenFile
from tests.ipc.clients import fixtures, node
from tests.ipc.conftest import SDK_LEAVES_STREAMS, Served, start

SUITE = node.MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

pytestmark = [
    *SDK_LEAVES_STREAMS,
    pytest.mark.timeout(170),
    # Logging and sampling are deprecated in the newest era; the suite tests the one before.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
    pytest.mark.skipif(
        node.PROGRAM is None or not SUITE.exists(),
        reason="no conformance suite: `make conformance`",
    ),
]


class Anyone(TokenFile):
    """Lets everybody in, because the suite cannot send a token; all else of the guard stays."""

    def accepts(self, presented: bytes) -> bool:
        return True


@pytest.fixture
def fixture_server(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "state").mkdir()
    with anyio.from_thread.start_blocking_portal() as portal:
        served = start(
            tmp_path / "run", tmp_path / "state", portal, token=Anyone(tmp_path / "state" / "token")
        )
        loaded = portal.call(served.front._mcp.loaded)
        portal.call(fixtures.register, loaded.server.fastmcp)
        yield served
        served.stop()


def test_the_default_suite_has_no_failure(fixture_server: Served, tmp_path: Path) -> None:
    command = [
        str(node.PROGRAM),
        str(SUITE),
        "server",
        "--url",
        f"{fixture_server.url}/mcp",
        "-o",
        str(tmp_path),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=160, env=os.environ | {"NO_COLOR": "1"}
    )
    print(done.stdout)
    totals = re.search(r"Total: (\d+) passed, (\d+) failed", done.stdout)
    assert totals is not None, done.stdout[-3000:] + done.stderr[-3000:]
    assert int(totals[1]) >= 30
    assert (int(totals[2]), done.returncode) == (0, 0), done.stdout[-6000:]
