"""Which project a client works in: its MCP roots, asked for in the way of the session's era.

Order of detection: an explicit argument, then the client's roots, then the directory that the stdio
bridge was given (by a flag or the environment), then the one it was started in; its first line says
which. Of what a client says about itself, the first directory that is in an index counts.
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
SILENT_S = 60.0  # a client that did not answer is not asked again before
# keys in a connection's memory
_ROOTS = "cocosearch roots"
_CHANGES = "cocosearch changes of roots"


@dataclass(frozen=True, slots=True)
class Bridge:
    """The directory that a stdio bridge was given, or (not `said`) just happens to run in. Empty
    for none.

    `connected` is False for clients that speak HTTP.
    """

    directory: str = ""
    said: bool = False
    connected: bool = False


@dataclass(frozen=True, slots=True)
class Project:
    """Candidate directories, nearest to the user's intent first. `said`: it is known that the user
    works there.
    """

    directories: tuple[str, ...]
    said: bool


BRIDGE: ContextVar[Bridge] = ContextVar("bridge", default=Bridge())  # noqa: B039 - frozen; of the connection served

Asked = Project | mcp_types.InputRequiredResult


async def detect(ctx: Context) -> Asked:
    """The client's directories; or the question to put to it, which the tool must return
    unchanged.
    """
    roots = await _roots(ctx)
    if isinstance(roots, mcp_types.InputRequiredResult):
        return roots
    found = tuple(path for uri in roots if (path := _local(uri)))
    bridge = BRIDGE.get()
    return Project(
        (*found, bridge.directory) if bridge.directory else found, said=bool(found) or bridge.said
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
    return await _listed(session)


async def _listed(session: ServerSession) -> list[str]:
    """The roots of a session that can be asked; those of a client that says when they change are
    kept until then.
    """
    announced = session.client_capabilities.roots if session.client_capabilities else None
    if announced is None:
        return []
    memory = session._connection.state
    roots, until = memory.get(_ROOTS, ([], 0.0))
    if anyio.current_time() < until:
        return list(roots)
    changes = memory.get(_CHANGES, 0)
    found, answered = await _ask(session)
    unchanged = memory.get(_CHANGES, 0) == changes  # else what was found may be of before
    if unchanged and (announced.list_changed or not answered):  # each call would cost the wait
        memory[_ROOTS] = found, math.inf if answered else anyio.current_time() + SILENT_S
    return found


async def _ask(session: ServerSession) -> tuple[list[str], bool]:
    with anyio.move_on_after(ROOTS_WAIT_S), warnings.catch_warnings():
        # roots are deprecated in the newest era and all there is in the others
        warnings.simplefilter("ignore")
        try:
            return [str(root.uri) for root in (await session.list_roots()).roots], True
        except MCPError:
            return [], False  # the client announced roots and does not give them
    return [], False


async def changed(
    context: ServerRequestContext[Any, Any],
    params: mcp_types.NotificationParams,  # noqa: ARG001
) -> None:
    """A client's roots are others now."""
    memory = context.session._connection.state
    memory.pop(_ROOTS, None)
    memory[_CHANGES] = memory.get(_CHANGES, 0) + 1


def bridge(preamble: object) -> Bridge | None:
    """What a bridge's first line `{"cocosearch": {"cwd": ..., "said": ...}}` says; None for any
    other line.
    """
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


def _local(uri: str) -> str | None:
    """The path of a file: URI of this machine."""
    parts = urllib.parse.urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = urllib.parse.unquote(parts.path, errors="surrogateescape")
    return path if path.startswith("/") and "\0" not in path else None
