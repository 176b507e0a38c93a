"""Reads files for an assistant: accepts `path:12-40`, and limits the tokens of one answer."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from cocosearch_ipc import error_codes
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.render.line_range import in_results, parse_location
from cocosearch_ipc.workspace_protocol import FindRelatedRequest, GetFileReply, GetFileRequest

# The limit for lines that the client names. Clients refuse or truncate answers of 25,000 tokens, and
# an assistant often reads several files.
MAX_RANGE_TOKENS = 12_000


Request = TypeVar("Request", GetFileRequest, FindRelatedRequest)
Reply = TypeVar("Reply")


async def read(engine: Any, request: GetFileRequest, page_tokens: int) -> GetFileReply:
    """Return the named lines, or a page of the file. Raises `Failure`."""
    try:
        return await by_shown_path(engine.get_file, _with_budget(request, page_tokens))
    except Failure as failure:
        path, first, last = parse_location(request.path)
        if (
            failure.code != error_codes.NOT_FOUND
            or first is None
            or request.start_line
            or request.end_line
        ):
            raise
    request = replace(request, path=path, start_line=first, end_line=last)
    return await by_shown_path(engine.get_file, _with_budget(request, page_tokens))


def _with_budget(request: GetFileRequest, page_tokens: int) -> GetFileRequest:
    if request.budget_tokens is not None:
        return request
    is_range = request.end_line is not None
    budget = max(page_tokens, MAX_RANGE_TOKENS) if is_range else page_tokens
    return replace(request, budget_tokens=budget)


async def by_shown_path(ask: Callable[[Request], Awaitable[Reply]], request: Request) -> Reply:
    """Call `ask` with the path as given; if it is not found, with its escapes converted.

    Results and the text of answers escape paths in different ways. Raises `Failure`.
    """
    try:
        return await ask(request)
    except Failure as failure:
        path = in_results(request.path)
        if failure.code != error_codes.NOT_FOUND or path == request.path or "\0" in path:
            raise
    return await ask(replace(request, path=path))
