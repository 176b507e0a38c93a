"""The worker's end of a worker process: `python -P -m MODULE FD PARENT CODE LIMITS`.

The module calls `run_worker` with a function that opens the request handler.
"""

import contextlib
import io
import os
import signal
import socket
import sys
from collections.abc import Callable

from cocosearchd.runtime import interpreter
from cocosearchd.sandbox.code_digest import installed_code_digest
from cocosearchd.sandbox.frames import encode_frame, read_frame
from cocosearchd.sandbox.limits import ResourceLimits, allow_cpu, apply_limits
from cocosearchd.sandbox.process_priority import (
    die_with_parent,
    lower_io_priority,
    offer_to_oom_killer,
)

# Exit codes of a worker.
CODE_MISMATCH = 3  # the installed code is not the code that the parent runs
OUT_OF_MEMORY = 4

Handler = Callable[[bytes], bytes]


def run_worker(open_handler: Callable[[], Handler]) -> None:
    """Serve the parent until it hangs up.

    `open_handler` loads the handler after the limits are set. A `MemoryError` of the handler ends
    the process with `OUT_OF_MEMORY`.
    """
    # Ctrl-C reaches the whole process group; the parent decides when to stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    descriptor, parent = map(int, sys.argv[1:3])
    code, limits_argument = sys.argv[3:5]
    limits = ResourceLimits.from_argument(limits_argument)
    die_with_parent(parent)
    offer_to_oom_killer()
    apply_limits(limits)
    lower_io_priority()
    if code != installed_code_digest():
        sys.exit(CODE_MISMATCH)
    handler = open_handler()
    interpreter.configure_interpreter()
    connection = socket.socket(fileno=descriptor)
    try:
        with contextlib.suppress(ConnectionError), connection, connection.makefile("rwb") as stream:
            serve_requests(stream, handler, limits)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # no cleanup: it may need memory as well


def serve_requests(stream: io.BufferedRWPair, handler: Handler, limits: ResourceLimits) -> None:
    """Write an empty frame, then a response to each request of the stream, until its end."""
    _send(stream, b"")
    while (request := read_frame(stream)) is not None:
        allow_cpu(limits)
        _send(stream, handler(request))


def _send(stream: io.BufferedRWPair, body: bytes) -> None:
    stream.write(encode_frame(body))
    stream.flush()
