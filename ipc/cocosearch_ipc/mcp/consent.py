"""Asks the user before a tool adds or removes an index, if the client supports elicitation.

Up to protocol version 2025-11-25, the server sends `elicitation/create` while the tool runs; from
2026-07-28 on, the tool returns the question and is called again with the answer (SEP-2322).
"""

import logging
from typing import Any

import anyio
import mcp_types
from fastmcp import Context
from fastmcp.exceptions import ToolError
from mcp.shared.exceptions import MCPError

from cocosearch_ipc.mcp.client_project import MODERN
from cocosearch_ipc.render.visible import visible

ANSWER_S = 300.0  # without an answer in this time, nothing is changed
KEY = "consent"
FIELD = "confirm"


async def require_consent(
    ctx: Context, question: str, button: str, state: str = ""
) -> mcp_types.InputRequiredResult | None:
    """Return None after the user's consent, or a question that the tool must return unchanged.

    Also return None if the client cannot ask. `state` comes back with the answer, as
    `ctx.request_state`: an answer to a question of another state does not count. Raises `ToolError`
    if the user does not agree.
    """
    if not _can_ask(ctx):
        return None
    params = mcp_types.ElicitRequestFormParams(
        message=visible(question, keep=""), requested_schema=_schema(button)
    )
    if ctx.session.protocol_version == MODERN:
        answer = (ctx.input_responses or {}).get(KEY)
        if answer is None or (ctx.request_state or "") != state:
            requests: mcp_types.InputRequests = {KEY: mcp_types.ElicitRequest(params=params)}
            return mcp_types.InputRequiredResult(input_requests=requests, request_state=state)
    else:
        answer = await _ask(ctx, params)
    if not _has_agreed(answer):
        raise ToolError(
            f"The user did not agree: {visible(question, keep='')}", log_level=logging.DEBUG
        )
    return None


def _can_ask(ctx: Context) -> bool:
    """Return True if the client supports forms.

    A client that announces no mode supports forms; a client that announces only URLs does not.
    """
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


async def _ask(
    ctx: Context, params: mcp_types.ElicitRequestFormParams
) -> mcp_types.ElicitResult | None:
    with anyio.move_on_after(ANSWER_S):
        try:
            return await ctx.session.elicit_form(
                params.message, params.requested_schema, ctx.request_id
            )
        except MCPError:
            return None  # the client announced elicitation but does not support it
    return None


def _schema(button: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {FIELD: {"type": "boolean", "title": button, "default": False}},
        "required": [FIELD],
    }


def _has_agreed(answer: object) -> bool:
    if not isinstance(answer, mcp_types.ElicitResult) or answer.action != "accept":
        return False
    return (answer.content or {}).get(FIELD) is True
