"""A file for an assistant: `path:12-40` as hits name it, and no more at once than a context window
takes.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from cocosearch_ipc import protocol as p
from cocosearch_ipc.render.line_range import in_results, place
from cocosearch_ipc.workspace_protocol import FindRelatedRequest, GetFileReply, GetFileRequest

# some 12,000 tokens: clients refuse or cut answers of 25,000, and one often reads several files
MOST_CHARS = 40_000


Request = TypeVar("Request", GetFileRequest, FindRelatedRequest)
Reply = TypeVar("Reply")


async def read(engine: Any, request: GetFileRequest) -> GetFileReply:
    """The file, or its first lines that are not too much together. Raises `Failure`."""
    try:
        return bounded(await by_shown_path(engine.get_file, request))
    except p.Failure as failure:
        path, first, last = place(request.path)
        if failure.code != p.NOT_FOUND or first is None or request.start_line or request.end_line:
            raise
    request = replace(request, path=path, start_line=first, end_line=last)
    return bounded(await by_shown_path(engine.get_file, request))


async def by_shown_path(ask: Callable[[Request], Awaitable[Reply]], request: Request) -> Reply:
    """The answer about a path as results have it, or as the text of an answer showed it. Raises
    `Failure`.
    """
    try:
        return await ask(request)
    except p.Failure as failure:
        path = in_results(request.path)
        if failure.code != p.NOT_FOUND or path == request.path or "\0" in path:
            raise
    return await ask(replace(request, path=path))


def bounded(reply: GetFileReply) -> GetFileReply:
    """The first lines that are no more than `MOST_CHARS` together, but at least one."""
    if len(reply.content) <= MOST_CHARS:
        return reply
    end = reply.content.rfind("\n", 0, MOST_CHARS) + 1 or reply.content.find("\n") + 1
    content = reply.content[:end] if end else reply.content
    return replace(
        reply, content=content, end_line=reply.start_line + content.removesuffix("\n").count("\n")
    )
