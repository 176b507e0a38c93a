"""The TypeScript SDK over every transport. Needs Node and `make clients`, which fetches the SDK from npm."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ipc.conftest import SDK_LEAVES_STREAMS, Served

SDK = Path(sys.prefix) / "clients"
SCRIPT = Path(__file__).parent / "clients" / "session.mjs"
CTL = [sys.executable, "-c", "import sys; from cocosearch_ipc.cli.main import main; sys.exit(main())", "mcp"]
NODE = shutil.which("node")

pytestmark = [
    *SDK_LEAVES_STREAMS,
    pytest.mark.skipif(
        NODE is None or not (SDK / "node_modules" / "@modelcontextprotocol" / "sdk").exists(),
        reason="no TypeScript SDK: `make clients`",
    ),
]


@pytest.mark.parametrize("kind", ["http", "sse", "stdio"])
def test_a_session(served: Served, kind: str) -> None:
    # Modules are looked for beside the script.
    script = shutil.copy(SCRIPT, SDK / SCRIPT.name)
    done = subprocess.run(
        [str(NODE), script, kind, served.url, served.token, *CTL],
        env=served.environment,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert {"search_code", "index_codebase", "list_indexes", "index_stats", "clear_index"} <= set(seen["tools"])
    assert seen["path"] == "src/retry.py"
    assert seen["failed"] == [True, "no index 'nothing'\nHint: there are demo"]
    assert seen["resources"] == ["cocosearch://indexes"]
