"""Describes the JSON-RPC methods: the OpenRPC document of `rpc.discover`, and docs/rpc.md.

The texts come from the docstrings of `Engine`, the types from the dataclasses. So nothing is written
twice.
"""

import functools
import inspect
import json
import sys
import typing
from typing import Any

from cocosearch_ipc import error_codes
from cocosearch_ipc.protocol import PROTOCOL_VERSION
from cocosearch_ipc.rpc import shapes
from cocosearch_ipc.rpc.methods import METHODS, verb

ERRORS = {
    error_codes.PARSE_ERROR: "the body is not JSON",
    error_codes.INVALID_REQUEST: "not a JSON-RPC 2.0 request, or a batch of more than 100",
    error_codes.METHOD_NOT_FOUND: "no such method",
    error_codes.INVALID_PARAMS: "a parameter is unknown, missing or of the wrong type; the hint "
    "names the nearest one",
    error_codes.INTERNAL_ERROR: "a defect of the daemon; its log has the details",
    error_codes.UNAVAILABLE: "the daemon is stopping, or its store or embedder does not answer",
    error_codes.NOT_FOUND: "no index, file or directory of that name",
    error_codes.CONFLICT: "something else already holds the name or the root",
    error_codes.REFUSED: "the request is valid but not allowed",
    error_codes.MISMATCH: "the index was built with another embedder, chunker or header",
    error_codes.TIMED_OUT: "the call exceeded its deadline",
}


# Parameters of a typical call; a method without an entry is called without parameters.
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
    "grep": {"index": "project", "pattern": "retr(y|ies)", "languages": ["python"]},
    "definition": {"index": "project", "target": "src/retry.py:12:9"},
    "references": {"index": "project", "target": "Client.retry", "kinds": ["call"]},
    "callers": {"index": "project", "target": "Client.retry", "depth": 3},
    "callees": {"index": "project", "target": "Client.retry"},
    "scip": {"index": "project", "path": "/home/me/code/project/index.scip"},
    "impact": {"index": "project", "target": "Client.retry", "depth": 3},
    "changes": {"index": "project", "revisions": "main...HEAD"},
    "dependencies": {"index": "project", "target": "src/retry.py", "direction": "importers"},
    "outline": {"index": "project", "target": "src", "budget_tokens": 1000},
    "map": {"index": "project", "budget_tokens": 1000},
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


@functools.cache
def document() -> dict[str, Any]:
    """Return the OpenRPC 1.3.2 document. Callers must not change it."""
    return {
        "openrpc": "1.3.2",
        "info": {"title": "cocosearchd", "version": str(PROTOCOL_VERSION)},
        "methods": [_describe_method(name) for name in METHODS],
        "components": {
            "errors": {text: {"code": code, "message": text} for code, text in ERRORS.items()}
        },
    }


@functools.cache
def encoded_document() -> bytes:
    """Return the document as JSON: encoding its 87 kB takes some milliseconds."""
    return shapes.to_json(document())


def result_type(method: str) -> Any:
    """Return the type that a method returns or yields."""
    returned = typing.get_type_hints(verb(method))["return"]
    arguments = typing.get_args(returned)
    return arguments[0] if arguments else returned


def streams(method: str) -> bool:
    """Return True if a method yields progress."""
    return bool(typing.get_args(typing.get_type_hints(verb(method))["return"]))


def _summary(method: str) -> str:
    return inspect.getdoc(verb(method)) or ""


def _describe_method(method: str) -> dict[str, Any]:
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
    """Return docs/rpc.md as Markdown: parameters, result and an example of every method."""
    parts = [_HEAD, *(_section(name) for name in METHODS), _types(), _errors()]
    return "\n".join(parts)


_HEAD = """\
# JSON-RPC reference

`python -m cocosearch_ipc.rpc.openrpc > docs/rpc.md` generates this file from the code; a test keeps it current. The
method `rpc.discover` returns the same for programs (OpenRPC 1.3.2).

JSON-RPC 2.0, `POST /rpc` on the Unix socket `rpc.sock` of the runtime directory. Every process that may open the
socket may call.

    SOCKET="$XDG_RUNTIME_DIR/cocosearch/rpc.sock"
    curl -sS --unix-socket "$SOCKET" http://localhost/rpc --json \\
      '{"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": "where are retries decided"}}'

A batch; a stream of progress; a call with a deadline of half a second; the schema of all methods; readiness:

    curl -sS --unix-socket "$SOCKET" http://localhost/rpc --json \\
      '[{"jsonrpc": "2.0", "id": 1, "method": "status"}, {"jsonrpc": "2.0", "id": 2, "method": "list_indexes"}]'
    curl -sSN --unix-socket "$SOCKET" http://localhost/rpc --json \\
      '{"jsonrpc": "2.0", "id": 1, "method": "follow"}' -H "Accept: application/x-ndjson"
    curl -sS --unix-socket "$SOCKET" http://localhost/rpc -H "X-Cocosearch-Deadline-Ms: 500" --json \\
      '{"jsonrpc": "2.0", "id": 1, "method": "sync"}'
    curl -sS --unix-socket "$SOCKET" http://localhost/rpc --json '{"jsonrpc": "2.0", "id": 1, "method": "rpc.discover"}'
    curl -sS --unix-socket "$SOCKET" http://localhost/readyz

Python programs may copy `cocosearch_ipc/client.py`: it needs only the standard library.

- A batch has at most 100 calls, a body at most 1 MiB (`server.max_body_bytes`), a text other than `query` and `text` at
  most 32,768 characters. A call without `id` is a notification and gets no answer (HTTP 204).
- Closing the connection cancels the call. `X-Cocosearch-Deadline-Ms` limits the daemon's work on it, in milliseconds.
- With `Accept: application/x-ndjson` a call answers in lines: a `$/progress` notification with `{"id", "value"}` for
  each value, then the response with the last value.
- `X-Cocosearch-Protocol` in an answer is the version of this protocol. A new field always has a default: send only
  parameters that differ from their default, and ignore unknown fields.
- A daemon that is stopping answers HTTP 503 with error -32001.
- Calls that name a session search an editor's unsaved text instead of the content on disk. `overlay.open` opens a
  session; it is a stream that the editor leaves open. When that connection ends, the daemon forgets the text.
  In Python:

      from cocosearch_ipc import address, client

      with client.Session(address.rpc_socket(address.environment())) as session:
          session.put("/home/me/project/app.py", buffer)  # at each pause in typing
          session.call("search", {"query": "where are retries decided", "cwd": "/home/me/project"})
          session.clear("/home/me/project/app.py")  # when it is saved or closed
- File names that are not valid UTF-8 carry their bytes as lone surrogates U+DC80 to U+DCFF (PEP 383).
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
    """Return the section about objects inside results, sorted by name."""
    objects = dict[str, dict[str, Any]]()
    for name in METHODS:
        for schema in shapes.schema(result_type(name))["properties"].values():
            objects |= _find_nested(schema)
    lines = ["## Objects in results", ""]
    for title, properties in sorted(objects.items()):
        lines += [f"### {title}", "", "| field | type |", "|---|---|"]
        lines += [f"| `{field}` | {_type(described)} |" for field, described in properties.items()]
        lines.append("")
    return "\n".join(lines)


def _find_nested(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    objects = dict[str, dict[str, Any]]()
    for inner in (*schema.get("anyOf", ()), schema.get("items")):
        objects |= _find_nested(inner) if inner else {}
    if "properties" in schema:
        objects[schema["title"]] = schema["properties"]
        for inner in schema["properties"].values():
            objects |= _find_nested(inner)
    return objects


def _errors() -> str:
    lines = [
        "## Errors",
        "",
        "`error.data.hint` suggests a fix.",
        "",
        "| code | meaning |",
        "|---|---|",
    ]
    return "\n".join([*lines, *(f"| {code} | {text} |" for code, text in ERRORS.items()), ""])


if __name__ == "__main__":
    sys.stdout.write(reference())
