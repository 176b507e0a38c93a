"""Real front ends on real sockets, over an engine with fixed answers, in a thread with an event
loop of its own.
"""

import gc
import os
import ssl
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.from_thread
import pytest

from cocosearch_ipc.http.app import FrontEnd
from cocosearch_ipc.http.serve import serve
from cocosearch_ipc.http.sockets import BoundSockets, bind
from cocosearch_ipc.mcp.root_policy import RootPolicy
from cocosearch_ipc.trust.credentials import TokenFile
from tests.ipc.engine import SERVER, FixedEngine

# The SDK's SSE transports, of client and server, leave memory streams to the garbage collector.
SDK_LEAVES_STREAMS = [
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
    pytest.mark.usefixtures("collected"),
]


@pytest.fixture
def collected() -> Iterator[None]:
    """Collect the SDK's garbage here, not in a later test.

    Then set aside what lives, MCP's modules above all: the next collection takes milliseconds, not
    0.1 s.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.freeze()


@dataclass
class Served:
    """A running front end. `stop` drains it and returns when it has ended."""

    engine: FixedEngine
    front: FrontEnd
    bound: BoundSockets
    run: Path
    state: Path
    portal: anyio.from_thread.BlockingPortal
    stopping: anyio.Event
    ended: Future[None]

    @property
    def rpc(self) -> str:
        return str(self.run / "rpc.sock")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.bound.port}"

    @property
    def token(self) -> str:
        return (self.state / "token").read_text().strip()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "COCOSEARCH_STATE_DIR": str(self.state),
            "COCOSEARCH_RUNTIME_DIR": str(self.run),
            "COCOSEARCH_CONFIG": str(self.state / "config.yaml"),
            "PATH": "/usr/bin:/bin",
            # another work tree than the installed one
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "HOME": str(self.state),
        }

    def stop(self) -> None:
        self.portal.call(self.stopping.set)
        self.ended.result(10)


def start(
    run: Path,
    state: Path,
    portal: anyio.from_thread.BlockingPortal,
    engine: FixedEngine | None = None,
    version: str = "0.1.0",
    token: TokenFile | None = None,
    tls: ssl.SSLContext | None = None,
    hosts: tuple[str, ...] = (),
) -> Served:
    engine = engine or FixedEngine()
    token = token or TokenFile(state / "token")
    token.ensure()
    bound = bind(run / "rpc.sock", run / "mcp.sock", port=0, tls=tls is not None)
    front = FrontEnd(
        engine,
        token,
        roots=RootPolicy(("/srv",), "/home/nobody"),
        max_body_bytes=SERVER.max_body_bytes,
        answer_tokens=SERVER.answer_tokens,
        version=version,
        hosts=hosts,
        mcp_mark=state / "mcp.used",
    )
    engine.mcp = bound.urls()
    stopping = portal.call(anyio.Event)
    started = threading.Event()

    async def main() -> None:
        await serve(front, bound, started=started.set, stopping=stopping, tls=tls)

    ended = portal.start_task_soon(main)
    assert started.wait(30), ended.result(0)
    return Served(engine, front, bound, run, state, portal, stopping, ended)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "state").mkdir()
    with anyio.from_thread.start_blocking_portal() as portal:
        running = start(tmp_path / "run", tmp_path / "state", portal)
        yield running
        running.stop()
