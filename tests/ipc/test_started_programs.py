"""Programs that tests start with an environment of their own come from the tree of the tests."""

import subprocess
import sys
from pathlib import Path

from tests.daemon import make_daemon
from tests.ipc.conftest import Served

ROOT = Path(__file__).resolve().parents[2]
# Without site-packages (-S), in which a tree may be installed: it may be another one.
WHERE = [
    sys.executable,
    "-S",
    "-P",
    "-c",
    "import cocosearch_ipc as a, cocosearchd as b; print(a.__file__, b.__file__)",
]
EXPECTED = f"{ROOT}/ipc/cocosearch_ipc/__init__.py {ROOT}/daemon/cocosearchd/__init__.py\n"


def where(environment: dict[str, str]) -> str:
    done = subprocess.run(
        WHERE, env=environment, cwd="/", capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_a_daemon_of_the_tests_runs_this_tree() -> None:
    daemon = make_daemon()
    try:
        assert where(daemon.environment) == EXPECTED
    finally:
        daemon.home.rmdir()


def test_the_command_line_beside_a_served_engine_runs_this_tree(served: Served) -> None:
    assert where(served.environment) == EXPECTED
