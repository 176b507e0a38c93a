"""Reads files for an assistant: accepts `path:12-40`, and limits the size of one answer."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from cocosearch_ipc import protocol as p
from cocosearch_ipc.render.line_range import in_results, parse_location
from cocosearch_ipc.workspace_protocol import FindRelatedRequest, GetFileReply, GetFileRequest

# About 12,000 tokens: clients refuse or truncate answers of 25,000 tokens, and an assistant often
# reads several files.
MOST_CHARS = 40_000


Request = TypeVar("Request", GetFileRequest, FindRelatedRequest)
Reply = TypeVar("Reply")


async def read(engine: Any, request: GetFileRequest) -> GetFileReply:
    """Return the file, or its first lines up to the limit. Raises `Failure`."""
    try:
        return truncate(await by_shown_path(engine.get_file, request))
    except p.Failure as failure:
        path, first, last = parse_location(request.path)
        if failure.code != p.NOT_FOUND or first is None or request.start_line or request.end_line:
            raise
    request = replace(request, path=path, start_line=first, end_line=last)
    return truncate(await by_shown_path(engine.get_file, request))


async def by_shown_path(ask: Callable[[Request], Awaitable[Reply]], request: Request) -> Reply:
    """Look up a path in the notation of results, else of an answer's text. Raises `Failure`."""
    try:
        return await ask(request)
    except p.Failure as failure:
        path = in_results(request.path)
        if failure.code != p.NOT_FOUND or path == request.path or "\0" in path:
            raise
    return await ask(replace(request, path=path))


def truncate(reply: GetFileReply) -> GetFileReply:
    """Return the first lines within `MOST_CHARS`, but at least one line."""
    if len(reply.content) <= MOST_CHARS:
        return reply
    end = reply.content.rfind("\n", 0, MOST_CHARS) + 1 or reply.content.find("\n") + 1
    content = reply.content[:end] if end else reply.content
    return replace(
        reply, content=content, end_line=reply.start_line + content.removesuffix("\n").count("\n")
    )
