"""Detects the project of a client from its MCP roots or its bridge.

The order is: an explicit argument; the client's roots; the directory that a flag or the environment
gave the stdio bridge; the directory where the bridge was started. The bridge's first line tells the
last two apart. The first directory that is in an index counts.
"""

import math
import urllib.parse
import warnings
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types
from fastmcp import Context
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError

MODERN = "2026-07-28"
ROOTS_WAIT_S = 2.0
SILENT_S = 60.0  # pause before a client that did not answer is asked again
# Keys in the state of a connection.
_ROOTS = "cocosearch roots"
_CHANGES = "cocosearch changes of roots"


@dataclass(frozen=True, slots=True)
class Bridge:
    """The directory of a stdio bridge, "" for none. `is_chosen`: the user chose the directory.

    `connected` is False for clients that use HTTP.
    """

    directory: str = ""
    is_chosen: bool = False
    connected: bool = False


@dataclass(frozen=True, slots=True)
class Project:
    """Candidate directories, most relevant first. `is_chosen`: the user is known to work there."""

    directories: tuple[str, ...]
    is_chosen: bool


BRIDGE: ContextVar[Bridge] = ContextVar("bridge", default=Bridge())  # noqa: B039 - frozen; of the connection served

Asked = Project | mcp_types.InputRequiredResult


async def detect(ctx: Context) -> Asked:
    """Return the client's directories, or a question that the tool must return unchanged."""
    roots = await _roots(ctx)
    if isinstance(roots, mcp_types.InputRequiredResult):
        return roots
    local_roots = tuple(path for uri in roots if (path := _local_path(uri)))
    bridge = BRIDGE.get()
    return Project(
        (*local_roots, bridge.directory) if bridge.directory else local_roots,
        is_chosen=bool(local_roots) or bridge.is_chosen,
    )


async def _roots(ctx: Context) -> list[str] | mcp_types.InputRequiredResult:
    session = ctx.session
    if session.protocol_version == MODERN:
        capabilities = session.client_capabilities
        if capabilities is None or capabilities.roots is None:
            return []
        if ctx.input_responses is None:
            return mcp_types.InputRequiredResult(
                input_requests={"roots": mcp_types.ListRootsRequest()}
            )
        reply = ctx.input_responses.get("roots")
        return (
            [str(root.uri) for root in reply.roots]
            if isinstance(reply, mcp_types.ListRootsResult)
            else []
        )
    return await _list_roots(session)


async def _list_roots(session: ServerSession) -> list[str]:
    """Return the roots of a client that can be asked.

    They are cached until the client announces a change, if it announces changes.
    """
    announced = session.client_capabilities.roots if session.client_capabilities else None
    if announced is None:
        return []
    memory = session._connection.state
    roots, until = memory.get(_ROOTS, ([], 0.0))
    if anyio.current_time() < until:
        return list(roots)
    changes = memory.get(_CHANGES, 0)
    answer, answered = await _ask(session)
    unchanged = memory.get(_CHANGES, 0) == changes  # otherwise the answer may be outdated
    if unchanged and (announced.list_changed or not answered):  # without a cache each call waits
        memory[_ROOTS] = answer, math.inf if answered else anyio.current_time() + SILENT_S
    return answer


async def _ask(session: ServerSession) -> tuple[list[str], bool]:
    with anyio.move_on_after(ROOTS_WAIT_S), warnings.catch_warnings():
        # roots are deprecated in the newest protocol version and the only way in older ones
        warnings.simplefilter("ignore")
        try:
            return [str(root.uri) for root in (await session.list_roots()).roots], True
        except MCPError:
            return [], False  # the client announced roots but does not return them
    return [], False


async def changed(
    context: ServerRequestContext[Any, Any],
    params: mcp_types.NotificationParams,  # noqa: ARG001
) -> None:
    """Drop the cached roots of a client."""
    memory = context.session._connection.state
    memory.pop(_ROOTS, None)
    memory[_CHANGES] = memory.get(_CHANGES, 0) + 1


def bridge(preamble: object) -> Bridge | None:
    """Parse a bridge's first line `{"cocosearch": {"cwd": ..., "said": ...}}`; None for others."""
    inner = preamble.get("cocosearch") if isinstance(preamble, dict) else None
    if not isinstance(inner, dict):
        return None
    directory = inner.get("cwd")
    usable = isinstance(directory, str) and directory.startswith("/") and "\0" not in directory
    return (
        Bridge(str(directory), inner.get("said") is True, True)
        if usable
        else Bridge(connected=True)
    )


def _local_path(uri: str) -> str | None:
    """Return the path of a file: URI on this machine, or None."""
    parts = urllib.parse.urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = urllib.parse.unquote(parts.path, errors="surrogateescape")
    return path if path.startswith("/") and "\0" not in path else None
