"""Messages of MCP, as a client writes them to a socket."""

import json
from typing import Any

INITIALIZE_PARAMS: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
# `_meta` of a call that shall be answered with structured content beside the text
STRUCTURED: dict[str, Any] = {"cocosearch/structured": True}
INITIALIZED = {"method": "notifications/initialized"}


def answer_text(answer: Any) -> str:
    """Return the text of the answer of a tool: all of its content blocks."""
    return "".join(block.text for block in answer.content)


def initialize_request(request_id: int | str = 1) -> dict[str, Any]:
    return {"id": request_id, "method": "initialize", "params": INITIALIZE_PARAMS}


def message_line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n"
