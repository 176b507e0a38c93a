"""JSON-RPC 2.0 over bytes: parse a body, call the engine's method, return bytes.

The module knows nothing about HTTP. The calls of a batch run concurrently, and a notification gets
no answer. A method that yields progress is either streamed (`Dispatcher.stream`) or run to its end
and answered with the last value.
"""

import errno
import json
import logging
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeGuard

import anyio

from cocosearch_ipc import spans
from cocosearch_ipc.error_codes import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REFUSED,
    TIMED_OUT,
    UNAVAILABLE,
)
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.protocol import Engine
from cocosearch_ipc.request_id import REQUEST_ID
from cocosearch_ipc.rpc import openrpc, shapes
from cocosearch_ipc.rpc.client_names import MAX_NAME, find_nearest, quote_name
from cocosearch_ipc.rpc.methods import METHODS

log = logging.getLogger(__name__)

MAX_BATCH = 100
# Replies of a batch are kept until the last one is there. A reply of a call has some ten megabytes
# at most.
MAX_BATCH_REPLY_BYTES = 16 << 20
# No caller reaches this deadline by accident. The longest call is `follow`, which is streamed and has
# no deadline.
DEFAULT_DEADLINE_S = 600.0
DISCOVER = "rpc.discover"

Id = str | int | float | None


@dataclass(frozen=True, slots=True)
class Call:
    """One request object. `wants_reply` is False for a notification."""

    id: Id
    method: str
    params: Any
    wants_reply: bool

    @property
    def label(self) -> str:
        """Its method for logs and spans, which may be no name of ours."""
        return self.method[:MAX_NAME]


class Dispatcher:
    """Answers request bodies with the results of an engine.

    While `draining` is set, every call fails with UNAVAILABLE, because the daemon stops. `only`
    restricts the methods.
    """

    def __init__(self, engine: Engine, only: frozenset[str] | None = None) -> None:
        self.engine = engine
        self._only = only
        self.draining = False

    async def answer(self, body: bytes, deadline_s: float = DEFAULT_DEADLINE_S) -> bytes | None:
        """Return the response to a request or a batch; None if there are only notifications."""
        try:
            message = _loads(body)
        except Failure as unreadable:
            return shapes.to_json(_error(None, unreadable))
        if not isinstance(message, list):
            return await self._answer_call(message, deadline_s)
        if not 1 <= len(message) <= MAX_BATCH:
            failure = Failure(
                f"a batch has 1 to {MAX_BATCH} calls", "split it", code=INVALID_REQUEST
            )
            return shapes.to_json(_error(None, failure))
        replies: list[bytes | None] = [None] * len(message)
        room = _ReplyRoom()

        async def run(position: int) -> None:
            replies[position] = await self._answer_call(message[position], deadline_s, room)

        async with anyio.create_task_group() as group:
            for position in range(len(message)):
                group.start_soon(run, position)
        answered = [reply for reply in replies if reply is not None]
        return b"[%s]" % b",".join(answered) if answered else None

    async def stream(self, body: bytes) -> AsyncGenerator[bytes, None]:
        """Yield lines of JSON for one call: `$/progress` notifications, then the response.

        Each value has one notification. The response carries the last value.
        """
        call: Call | None = None
        try:
            call = _call(_loads(body))
            last: Any = None
            async with aclosing(self._values(call)) as values:
                async for last in values:
                    yield _progress(call.id, last)
            yield _result(call, last) + b"\n"
        except Exception as error:  # noqa: BLE001 - becomes an error reply, see _failure
            yield shapes.to_json(_error(call.id if call else None, _failure(error, call))) + b"\n"

    async def _answer_call(
        self, message: Any, deadline_s: float, room: "_ReplyRoom | None" = None
    ) -> bytes | None:
        """Return the reply to a call; None for a notification. A batch has `room` for replies."""
        call: Call | None = None
        try:
            call = _call(message)
            attributes = _span_attributes(call)
            if room is not None:  # else a call is carried out whose reply is a refusal
                room.check()
            with anyio.fail_after(deadline_s), spans.span(f"rpc {call.label}", **attributes):
                result = await self._last_value(call)
            if room is not None:
                room.check()
            reply = _result(call, result)
            if room is not None:
                room.take(reply)
        except Exception as error:  # noqa: BLE001 - becomes an error reply, see _failure
            reply = shapes.to_json(
                _error(call.id if call else _id_of(message), _failure(error, call))
            )
        return reply if call is None or call.wants_reply else None

    async def _last_value(self, call: Call) -> Any:
        last: Any = None
        async with aclosing(self._values(call)) as values:
            async for value in values:
                last = value
        return last

    async def _values(self, call: Call) -> AsyncGenerator[Any, None]:
        """Yield the values of the engine's method, or its single result."""
        if call.method == DISCOVER:
            yield openrpc.encoded_document()
            return
        if self.draining:
            raise Failure(
                "cocosearchd is stopping", "start it with `cocosearchctl up PATH`", code=UNAVAILABLE
            )
        name, kind = _method(call.method)
        if self._only is not None and call.method not in self._only:
            raise Failure(
                f"{call.method} is not available here", "call it over the Unix socket", code=REFUSED
            )
        outcome = getattr(self.engine, name)(shapes.decode(kind, call.params))
        if hasattr(outcome, "__aiter__"):
            async with aclosing(outcome):
                async for value in outcome:
                    yield value
        else:
            yield await outcome


class _ReplyRoom:
    """The bytes that the replies of a batch may still take."""

    def __init__(self) -> None:
        self._left = MAX_BATCH_REPLY_BYTES

    def check(self) -> None:
        """Raise `Failure` if nothing is left, before another reply is encoded."""
        if self._left <= 0:
            raise Failure(
                f"the replies of the batch have more than {MAX_BATCH_REPLY_BYTES >> 20} MiB",
                "split it, or request less",
                code=INVALID_REQUEST,
            )

    def take(self, reply: bytes) -> None:
        """Count a reply."""
        self._left -= len(reply)


def _result(call: Call, result: Any) -> bytes:
    """Encode the response to a call."""
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (shapes.to_json(call.id), _encode(result))


def _encode(value: Any) -> bytes:
    """Encode a value. Bytes are JSON already."""
    return value if isinstance(value, bytes) else shapes.to_json(value)


def _span_attributes(call: Call) -> dict[str, str]:
    """Return the attributes of a call's span. The log records carry the same request id."""
    return {
        "rpc.system.name": "jsonrpc",
        "rpc.method": call.label,
        "cocosearch.request_id": REQUEST_ID.get(""),
    }


def _method(name: str) -> tuple[str, type]:
    if name not in METHODS:
        near = find_nearest(name, METHODS)
        hint = f"did you mean {near!r}?" if near else f"`{DISCOVER}` lists the methods"
        raise Failure(f"no method {quote_name(name)}", hint, code=METHOD_NOT_FOUND)
    return METHODS[name]


def _loads(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Failure(f"the body is not JSON: {error}", "", code=PARSE_ERROR) from None


def _no_number(literal: str) -> Any:
    raise ValueError(f"{literal} is not a JSON number")


def _call(message: Any) -> Call:
    if (
        not isinstance(message, dict)
        or message.get("jsonrpc") != "2.0"
        or not isinstance(message.get("method"), str)
    ):
        hint = 'write {"jsonrpc": "2.0", "id": 1, "method": "...", "params": {...}}'
        raise Failure("not a JSON-RPC 2.0 request", hint, code=INVALID_REQUEST)
    rid = message.get("id")
    if not _is_id(rid):
        raise Failure("id is neither a string nor a number", "", code=INVALID_REQUEST)
    return Call(rid, message["method"], message.get("params", {}), "id" in message)


def _id_of(message: Any) -> Id:
    rid = message.get("id") if isinstance(message, dict) else None
    return rid if _is_id(rid) else None


def _is_id(rid: Any) -> TypeGuard[Id]:
    # Python reads 1e999 as infinity, and JSON has no infinity
    finite = not isinstance(rid, float) or math.isfinite(rid)
    return isinstance(rid, str | int | float | None) and not isinstance(rid, bool) and finite


def _failure(error: Exception, call: Call | None) -> Failure:
    """Convert `error` to a `Failure` for the caller; log an unexpected error."""
    if isinstance(error, Failure):
        return error
    method = call.label if call else ""
    if isinstance(error, TimeoutError):
        return Failure(
            f"{method} exceeded its deadline",
            "request less, or allow more time",
            code=TIMED_OUT,
        )
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        hint = "raise the daemon's limit (ulimit -n, LimitNOFILE= in its unit)"
        return Failure("no file handles are left", hint, code=UNAVAILABLE)
    log.error("rpc_failed", exc_info=error, extra={"method": method})
    return Failure("internal error", "see `cocosearchctl logs`", code=INTERNAL_ERROR)


def _error(rid: Id, failure: Failure) -> dict[str, Any]:
    error: dict[str, Any] = {"code": failure.code, "message": failure.message}
    if failure.hint:
        error["data"] = {"hint": failure.hint}
    return {"jsonrpc": "2.0", "id": rid, "error": error}


def _progress(rid: Id, value: Any) -> bytes:
    params = b'{"id":%s,"value":%s}' % (shapes.to_json(rid), _encode(value))
    return b'{"jsonrpc":"2.0","method":"$/progress","params":%s}\n' % params
