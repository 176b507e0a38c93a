"""Describes the JSON-RPC methods from `protocol`: the OpenRPC document of `rpc.discover`, and
docs/rpc.md.

Nothing is written twice: texts are the docstrings of `Engine`, shapes are the dataclasses.
"""

import difflib
import functools
import inspect
import json
import sys
import typing
from typing import Any

from cocosearch_ipc import protocol
from cocosearch_ipc.rpc import shapes
from cocosearch_ipc.rpc.methods import METHODS, verb

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


# Parameters of a typical call; a method that is not here is called without any.
EXAMPLES: dict[str, dict[str, Any]] = {
    "search": {"query": "where are retries decided", "languages": ["python"], "limit": 3},
    "index_codebase": {"path": "/home/me/code/project", "name": "project"},
    "follow": {"index": "project"},
    "index_stats": {"index": "project"},
    "clear_index": {"index": "project"},
    "reindex": {"index": "project"},
    "list_files": {"index": "project", "under": "src", "pattern": "**/*.py"},
    "get_file": {"index": "project", "path": "src/retry.py", "start_line": 10, "end_line": 40},
    "find_related": {"index": "project", "path": "src/retry.py", "line": 12},
    "locate": {"paths": ["/home/me/code/project/src"]},
    "watch": {"index": "project", "lifecycle": True},
    "overlay.put": {
        "session": "6f1c",
        "path": "/home/me/code/project/src/retry.py",
        "text": "TIMES = 4\n",
    },
    "overlay.clear": {"session": "6f1c"},
    "sync": {"index": "project", "timeout_ms": 2000},
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
        "components": {
            "errors": {text: {"code": code, "message": text} for code, text in ERRORS.items()}
        },
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
        "examples": [
            {
                "name": method,
                "params": [
                    {"name": name, "value": value}
                    for name, value in EXAMPLES.get(method, {}).items()
                ],
            }
        ],
    }


def reference() -> str:
    """docs/rpc.md: every method with parameters, result and an example, as Markdown."""
    parts = [_HEAD, *(_section(name) for name in METHODS), _types(), _errors()]
    return "\n".join(parts)


_HEAD = """\
# JSON-RPC reference

Made from the code by `python -m cocosearch_ipc.rpc.openrpc > docs/rpc.md`; a test keeps it current. The
same as a document for programs: the method `rpc.discover` (OpenRPC 1.3.2).

JSON-RPC 2.0, `POST /rpc` on the Unix socket `rpc.sock` of the runtime directory. Whoever may open the socket may ask.

    SOCKET="$XDG_RUNTIME_DIR/cocosearch/rpc.sock"
    curl -sS --unix-socket "$SOCKET" http://localhost/rpc --json \\
      '{"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": "where are retries decided"}}'

Several at once; progress as it comes; at most half a second of work; the schema of everything:

    curl -sS --unix-socket "$SOCKET" http://localhost/rpc --json \\
      '[{"jsonrpc": "2.0", "id": 1, "method": "status"}, {"jsonrpc": "2.0", "id": 2, "method": "list_indexes"}]'
    curl -sSN --unix-socket "$SOCKET" http://localhost/rpc --json \\
      '{"jsonrpc": "2.0", "id": 1, "method": "follow"}' -H "Accept: application/x-ndjson"
    curl -sS --unix-socket "$SOCKET" http://localhost/rpc -H "X-Cocosearch-Deadline-Ms: 500" --json \\
      '{"jsonrpc": "2.0", "id": 1, "method": "sync"}'
    curl -sS --unix-socket "$SOCKET" http://localhost/rpc --json '{"jsonrpc": "2.0", "id": 1, "method": "rpc.discover"}'
    curl -sS --unix-socket "$SOCKET" http://localhost/readyz

Programs in Python may copy `cocosearch_ipc/client.py`: it needs the standard library only.

- A batch has at most 100 calls, a body 1 MiB. A call without `id` is a notification and gets no answer (HTTP 204).
- Closing the connection cancels the call. `X-Cocosearch-Deadline-Ms` limits how long the daemon works on it.
- With `Accept: application/x-ndjson` a call answers in lines: a `$/progress` notification with `{"id", "value"}` for
  each value as it comes, then the response with the last one.
- `X-Cocosearch-Protocol` in an answer is the version of this protocol. A new field always has a default: send only
  what you mean, ignore what you do not know.
- A daemon that stops answers HTTP 503 with error -32001.
- An editor's unsaved text is searched in place of the disk by calls that name a session (`overlay.open`, a stream that
  the editor leaves open); it is forgotten when that connection ends. In Python:

      from cocosearch_ipc import address, client

      with client.ClientSession(address.rpc_socket(address.environment())) as session:
          session.put("/home/me/project/app.py", buffer)  # at each pause in typing
          session.call("search", {"query": "where are retries decided", "cwd": "/home/me/project"})
          session.clear("/home/me/project/app.py")  # when it is saved or closed
- File names that are no UTF-8 carry their bytes as lone surrogates U+DC80 to U+DCFF (PEP 383).
"""


def _section(name: str) -> str:
    request = METHODS[name][1]
    lines = [f"## {name}", "", _summary(name), "", inspect.getdoc(request) or "", ""]
    schema = shapes.schema(request)
    if schema["properties"]:
        lines += ["| parameter | type | default |", "|---|---|---|"]
        for field, described in schema["properties"].items():
            default = (
                "required" if field in schema.get("required", ()) else f"`{_default(described)}`"
            )
            lines.append(f"| `{field}` | {_type(described)} | {default} |")
        lines.append("")
    lines += [f"    {json.dumps(_example(name))}", ""]
    kind = "Yields" if streams(name) else "Returns"
    lines += [f"{kind} {_result(result_type(name))}", ""]
    return "\n".join(lines)


def _example(method: str) -> dict[str, Any]:
    params = {"params": EXAMPLES[method]} if method in EXAMPLES else {}
    return {"jsonrpc": "2.0", "id": 1, "method": method} | params


def _result(kind: Any) -> str:
    described = shapes.schema(kind)
    lines = [f"`{kind.__name__}`: {inspect.getdoc(kind)}", "", "| field | type |", "|---|---|"]
    lines += [f"| `{name}` | {_type(schema)} |" for name, schema in described["properties"].items()]
    return "\n".join(lines)


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if schema.get("type") == "object" and "properties" in schema:
        return f"[{schema['title']}](#{schema['title'].lower()})"
    if schema.get("type") == "object":
        return f"object of {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def _default(schema: dict[str, Any]) -> str:
    return json.dumps(schema.get("default"))


def _types() -> str:
    """The objects inside of results, by name."""
    found = dict[str, dict[str, Any]]()
    for name in METHODS:
        for schema in shapes.schema(result_type(name))["properties"].values():
            found |= _nested(schema)
    lines = ["## Objects in results", ""]
    for title, properties in sorted(found.items()):
        lines += [f"### {title}", "", "| field | type |", "|---|---|"]
        lines += [f"| `{field}` | {_type(described)} |" for field, described in properties.items()]
        lines.append("")
    return "\n".join(lines)


def _nested(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = dict[str, dict[str, Any]]()
    for inner in (*schema.get("anyOf", ()), schema.get("items")):
        found |= _nested(inner) if inner else {}
    if "properties" in schema:
        found[schema["title"]] = schema["properties"]
        for inner in schema["properties"].values():
            found |= _nested(inner)
    return found


def _errors() -> str:
    lines = [
        "## Errors",
        "",
        "`error.data.hint` says what to do next.",
        "",
        "| code | means |",
        "|---|---|",
    ]
    return "\n".join([*lines, *(f"| {code} | {text} |" for code, text in ERRORS.items()), ""])


if __name__ == "__main__":
    sys.stdout.write(reference())
