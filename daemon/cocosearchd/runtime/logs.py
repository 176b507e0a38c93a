"""Log records, as JSON lines or as coloured text on a terminal, and the size limit of their file.

Modules use `logging.getLogger(__name__)` with an event name and `extra` fields; this module decides
their format.

Under systemd, standard error is the journal, which has its own limits. A daemon that `cocosearchctl
up` or launchd started writes to a file that no other program rotates: it limits that file itself.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import Processor

from cocosearchd.runtime.masking import mask_secrets, mask_urls

# Libraries that log at INFO what we log at DEBUG.
QUIET = ("httpx", "httpcore", "mcp", "fastmcp", "uvicorn.access", "watchfiles", "sse_starlette")
# Loggers that warn at each attempt to reach an absent server, twice a second; our log has its absence.
REPEATS = ("psycopg.pool",)


# The log and its previous file together take at most twice this, and one record.
MAX_LOG_BYTES = 8 << 20


class BoundedHandler(logging.StreamHandler[TextIO]):
    """Writes to `stream`, the file `path`, and rotates it when it exceeds `max_bytes`.

    The file is copied and truncated, not renamed: libraries and a crash handler have the file open,
    and go on writing to it.
    """

    def __init__(self, stream: TextIO, path: Path, max_bytes: int) -> None:
        super().__init__(stream)
        self.path = path
        self.max_bytes = max_bytes
        descriptor = stream.fileno()
        # launchd does not open the file for appending: after a truncation, writes would continue at
        # the old offset.
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, and rotate the file if it is full."""
        super().emit(record)
        if os.fstat(self.stream.fileno()).st_size > self.max_bytes:
            previous = self.path.with_name(self.path.name + ".1")
            with contextlib.suppress(OSError):  # a full disk: the truncation helps
                shutil.copy(self.path, previous)
            os.ftruncate(self.stream.fileno(), 0)


def _handler(stream: TextIO, file: Path | None) -> logging.Handler:
    if file is not None:
        with contextlib.suppress(OSError):  # the file is missing, or the stream is no file
            status = os.fstat(stream.fileno())
            if stat.S_ISREG(status.st_mode) and os.path.samestat(status, file.stat()):
                return BoundedHandler(stream, file, MAX_LOG_BYTES)
    return logging.StreamHandler(stream)


def _without_locals() -> structlog.tracebacks.ExceptionDictTransformer:
    """Make tracebacks without local values: these may be source code, queries or secrets."""
    return structlog.tracebacks.ExceptionDictTransformer(show_locals=False)


class _Scrubbing(structlog.stdlib.ProcessorFormatter):
    """Masks secrets in all output, also in tracebacks and in records of libraries."""

    def __init__(self, secrets: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        return mask_urls(mask_secrets(super().format(record), self._secrets))


def configure(
    level: str,
    style: Literal["auto", "json", "console"],
    file: Path | None = None,
    stream: TextIO = sys.stderr,
    *,
    secrets: Sequence[str] = (),
) -> None:
    """Replace the root logger's handlers by one that writes to `stream`, at the program's entry.

    If `stream` writes to `file`, the size of the file is limited. Records show neither `secrets` nor
    secrets in URLs.
    """
    console = style == "console" or (style == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [
            structlog.processors.ExceptionRenderer(_without_locals()),
            structlog.processors.JSONRenderer(default=repr),
        ]
    )
    handler = _handler(stream, file)
    handler.setFormatter(
        _Scrubbing(
            secrets,
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    for name in REPEATS:
        logging.getLogger(name).setLevel(
            logging.DEBUG if root.level <= logging.DEBUG else logging.ERROR
        )
