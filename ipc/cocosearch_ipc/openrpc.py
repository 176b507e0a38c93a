"""Describes the JSON-RPC methods from `protocol`: the OpenRPC document of `rpc.discover`, and docs/rpc.md.

Nothing is written twice: texts are the docstrings of `Engine`, shapes are the dataclasses.
"""

import difflib
import functools
import inspect
import typing
from typing import Any

from cocosearch_ipc import protocol, shapes
from cocosearch_ipc.methods import METHODS, verb

ERRORS = {
    protocol.PARSE_ERROR: "the body is not JSON",
    protocol.INVALID_REQUEST: "not a JSON-RPC 2.0 request, or a batch of more than 100",
    protocol.METHOD_NOT_FOUND: "no such method",
    protocol.INVALID_PARAMS: "a parameter is unknown, missing or of the wrong type; the hint names the nearest one",
    protocol.INTERNAL_ERROR: "a defect of the daemon; its log says more",
    protocol.UNAVAILABLE: "the daemon stops, or its store or embedder does not answer",
    protocol.NOT_FOUND: "no index, file or directory of that name",
    protocol.CONFLICT: "something else already holds the name or the root",
    protocol.REFUSED: "understood and not allowed",
    protocol.MISMATCH: "the index was built with another embedder, chunker or header",
    protocol.TIMED_OUT: "the deadline has passed",
}


def nearest(method: str) -> str | None:
    """The known method that `method` was probably meant to be."""
    return next(iter(difflib.get_close_matches(method, METHODS, 1)), None)


@functools.cache
def document() -> dict[str, Any]:
    """The OpenRPC 1.3.2 document. Callers must not change it."""
    return {
        "openrpc": "1.3.2",
        "info": {"title": "cocosearchd", "version": str(protocol.PROTOCOL_VERSION)},
        "methods": [_described(name) for name in METHODS],
        "components": {"errors": {text: {"code": code, "message": text} for code, text in ERRORS.items()}},
    }


def result_type(method: str) -> Any:
    """What a method answers: the type its Engine method returns, or yields."""
    returned = typing.get_type_hints(verb(method))["return"]
    arguments = typing.get_args(returned)
    return arguments[0] if arguments else returned


def streams(method: str) -> bool:
    """Whether a method yields progress."""
    return bool(typing.get_args(typing.get_type_hints(verb(method))["return"]))


def _summary(method: str) -> str:
    return inspect.getdoc(verb(method)) or ""


def _described(method: str) -> dict[str, Any]:
    _, request = METHODS[method]
    parameters = shapes.schema(request)
    required = parameters.get("required", [])
    return {
        "name": method,
        "summary": _summary(method),
        "description": inspect.getdoc(request) or "",
        "paramStructure": "either",
        "params": [
            {"name": name, "required": name in required, "schema": schema}
            for name, schema in parameters["properties"].items()
        ],
        "result": {"name": "result", "schema": shapes.schema(result_type(method))},
    }
