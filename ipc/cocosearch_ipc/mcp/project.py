"""Which project a client works in: its MCP roots, asked for in the way of the session's era.

Order of detection: an explicit argument, then the client's roots, then the directory the stdio bridge was started in
(its first line says so), then none, and the engine decides: the only index, or a list to choose from.
"""

import urllib.parse
import warnings
from contextvars import ContextVar
from dataclasses import dataclass

import anyio
import mcp_types
from fastmcp import Context
from mcp.shared.exceptions import MCPError

MODERN = "2026-07-28"
ROOTS_WAIT_S = 2.0
BRIDGE_DIRECTORY: ContextVar[str] = ContextVar("bridge_directory", default="")  # of the connection being served


@dataclass(frozen=True, slots=True)
class Project:
    """Candidate directories, nearest to the user's intent first. May be empty."""

    directories: tuple[str, ...]


Asked = Project | mcp_types.InputRequiredResult


async def detect(ctx: Context) -> Asked:
    """The client's directories; or the question to put to it, which the tool must return unchanged."""
    roots = await _roots(ctx)
    if isinstance(roots, mcp_types.InputRequiredResult):
        return roots
    found = [path for uri in roots if (path := _local(uri))]
    directory = BRIDGE_DIRECTORY.get()
    return Project((*found, directory) if directory else tuple(found))


async def _roots(ctx: Context) -> list[str] | mcp_types.InputRequiredResult:
    session = ctx.session
    if session.protocol_version == MODERN:
        capabilities = session.client_capabilities
        if capabilities is None or capabilities.roots is None:
            return []
        if ctx.input_responses is None:
            return mcp_types.InputRequiredResult(input_requests={"roots": mcp_types.ListRootsRequest()})
        reply = ctx.input_responses.get("roots")
        return [str(root.uri) for root in reply.roots] if isinstance(reply, mcp_types.ListRootsResult) else []
    if session.check_client_capability(mcp_types.ClientCapabilities(roots=mcp_types.RootsCapability())):
        with anyio.move_on_after(ROOTS_WAIT_S), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # roots are deprecated in the newest era and all there is in the others
            try:
                return [str(root.uri) for root in (await session.list_roots()).roots]
            except MCPError:
                return []  # the client announced roots and does not give them
    return []


def bridge_directory(preamble: object) -> str:
    """The absolute directory in a bridge's first line `{"cocosearch": {"cwd": ...}}`; empty for anything else."""
    inner = preamble.get("cocosearch") if isinstance(preamble, dict) else None
    directory = inner.get("cwd") if isinstance(inner, dict) else None
    return directory if isinstance(directory, str) and directory.startswith("/") and "\0" not in directory else ""


def _local(uri: str) -> str | None:
    """The path of a file: URI of this machine."""
    parts = urllib.parse.urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = urllib.parse.unquote(parts.path)
    return path if path.startswith("/") and "\0" not in path else None
