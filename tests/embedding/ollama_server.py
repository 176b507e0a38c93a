"""A loopback server that speaks Ollama's HTTP contract, because a real one needs a model of
hundreds of megabytes.

It answers over real sockets with the statuses, bodies and order of checks of the real server. Its
vectors are made from a hash of the text, L2-normalised as Ollama's are, so equal texts have equal
vectors and different prefixes differ.
"""

import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

MODEL_CONTEXT_CHARACTERS = 8000  # stands for the 2,048 tokens of nomic-embed-text
OVERLONG = (
    # a text that the real server refuses even with truncate: a single huge token
    "<<overlong after truncation>>"
)
# a text whose vector is not finite, which the real server cannot write as JSON: status 500
NOT_A_NUMBER = "<<nan>>"


def set_event() -> threading.Event:
    """An event that is set."""
    event = threading.Event()
    event.set()
    return event


@dataclass
class Script:
    """Contents and misbehaviour of the server. Tests change it while it runs."""

    models: dict[str, str] = field(
        default_factory=lambda: {"nomic-embed-text:latest": "sha256:0a109f42"}
    )
    dimension: int = 768
    status: int = 0  # answer every /api/embed with this
    raw: bytes | None = None  # answer every /api/embed with these bytes
    delay_s: float = 0.0
    # while it is clear, whoever asks anything waits
    answers: threading.Event = field(default_factory=set_event)
    # while it is clear, whoever asks for the list of models waits
    lists_models: threading.Event = field(default_factory=set_event)
    ignores_dimensions: bool = False  # as servers did before they knew them
    requests: list[dict[str, Any]] = field(default_factory=list)  # bodies of /api/embed
    # of /api/embed, names in lower case
    headers: list[dict[str, str]] = field(default_factory=list)


def vector_of(text: str, dimension: int) -> list[float]:
    """The vector that the server gives for a text, prefix included."""
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    vector = np.random.default_rng(seed).standard_normal(dimension)
    return [float(value) for value in vector / np.linalg.norm(vector)]


class Handler(BaseHTTPRequestHandler):
    """One request. The order of checks is the real server's: body, type of input, model, input."""

    protocol_version = "HTTP/1.1"
    # head and body are two writes: otherwise 40 ms pass between them
    disable_nagle_algorithm = True
    script: Script

    def do_GET(self) -> None:
        self.script.answers.wait()
        if self.path == "/":
            self._send(200, b"Ollama is running", "text/plain")
        elif self.path == "/api/version":
            self._json(200, {"version": "0.6.3"})
        elif self.path == "/api/tags":
            self.script.lists_models.wait()
            models = [
                {"name": name, "model": name, "digest": digest}
                for name, digest in self.script.models.items()
            ]
            self._json(200, {"models": models})
        else:
            self._send(404, b"404 page not found", "text/plain")

    def do_POST(self) -> None:
        self.script.answers.wait()
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path != "/api/embed":
            self._send(404, b"404 page not found", "text/plain")
            return
        try:
            body = json.loads(raw)
        except ValueError:
            self._json(400, {"error": "missing request body" if not raw else "invalid character"})
            return
        self.script.requests.append(body)
        self.script.headers.append({name.lower(): value for name, value in self.headers.items()})
        time.sleep(self.script.delay_s)
        if self.script.raw is not None:
            self._send(200, self.script.raw, "application/json")
        elif self.script.status:
            self._json(self.script.status, {"error": "server busy, please try again"})
        else:
            self._embed(body)

    def _embed(self, body: dict[str, Any]) -> None:
        documents = body.get("input", [])
        inputs = documents if isinstance(documents, list) else [documents] if documents else []
        model = body.get("model", "")
        if not all(isinstance(text, str) for text in inputs):
            self._json(400, {"error": "invalid input type"})
        elif (model if ":" in model else f"{model}:latest") not in self.script.models:
            self._json(404, {"error": f'model "{model}" not found, try pulling it first'})
        elif any(OVERLONG in text for text in inputs):
            self._json(400, {"error": "input after truncation exceeds maximum context length"})
        elif any(NOT_A_NUMBER in text for text in inputs):
            self._json(500, {"error": "failed to encode response: json: unsupported value: NaN"})
        elif not body.get("truncate", True) and any(
            len(text) > MODEL_CONTEXT_CHARACTERS for text in inputs
        ):
            self._json(400, {"error": "the input length exceeds the context length"})
        else:
            dimensions = None if self.script.ignores_dimensions else body.get("dimensions")
            dimension = dimensions or self.script.dimension
            rows = [vector_of(text[:MODEL_CONTEXT_CHARACTERS], dimension) for text in inputs]
            self._json(200, {"model": model, "embeddings": rows, "prompt_eval_count": 1})

    def _json(self, status: int, value: dict[str, Any]) -> None:
        self._send(status, json.dumps(value).encode(), "application/json; charset=utf-8")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Silent: the test's output is the report."""


class Server(ThreadingHTTPServer):
    """Ends kept-alive connections when it ends, as a process that dies does."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self._connections: list[socket.socket] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.append(request)
        super().process_request(request, client_address)

    def server_close(self) -> None:
        super().server_close()
        for connection in self._connections:
            with suppress(OSError):  # the client was first
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], port: int = 0) -> Iterator[str]:
    """The handler on a loopback port, 0: a free one; gives its URL."""
    server = Server(handler, port)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def ollama_server(script: Script, port: int = 0) -> Iterator[str]:
    """An Ollama that behaves as the script says, now and later."""
    with serving(type("ScriptedHandler", (Handler,), {"script": script}), port) as url:
        yield url
