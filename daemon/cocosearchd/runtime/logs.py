"""Log records of the daemon and its libraries: JSON lines, or coloured text on a terminal.

Modules use `logging.getLogger(__name__)` with an event name and `extra` fields; this module decides
their format.

Under systemd standard error is the journal, which has its own bounds. A daemon that `cocosearchctl
up` or launchd started writes to a file that no other program rotates: it bounds that file itself.
"""

import contextlib
import contextvars
import fcntl
import json
import logging
import os
import shutil
import stat
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TextIO

from cocosearchd.runtime.masking import mask_secrets, mask_urls

# Libraries whose INFO is our DEBUG.
QUIET = ("httpx", "httpcore", "mcp", "fastmcp", "uvicorn.access", "watchfiles", "sse_starlette")
# Warn at each attempt to reach an absent server, twice a second; the log has its absence already.
REPEATS = ("psycopg.pool",)


# Context variables with this prefix are fields of every record, also of records of libraries.
CONTEXT_PREFIX = "log_"
_OWN_FIELDS = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
# Escape sequences of a terminal (ECMA-48, SGR).
_RESET, _BOLD, _DIM, _CYAN = "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[36m"
_LEVEL_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_OTHER_LEVELS = "\x1b[32m"

# The log and its previous file together take at most twice this, and one record.
MAX_BYTES = 8 << 20


class BoundedHandler(logging.StreamHandler[TextIO]):
    """Writes to `stream`, the file `path`, and rotates it when it exceeds `max_bytes`.

    The file is copied and truncated, not renamed: libraries and a crash handler have it open, and
    go on writing to it.
    """

    def __init__(self, stream: TextIO, path: Path, max_bytes: int) -> None:
        super().__init__(stream)
        self.path = path
        self.max_bytes = max_bytes
        descriptor = stream.fileno()
        # launchd does not open its file for appending: after a truncation, writes would go on at
        # their old offset.
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
        with contextlib.suppress(OSError):  # no such file, or a stream that is none
            status = os.fstat(stream.fileno())
            if stat.S_ISREG(status.st_mode) and os.path.samestat(status, file.stat()):
                return BoundedHandler(stream, file, MAX_BYTES)
    return logging.StreamHandler(stream)


def context_fields() -> dict[str, object]:
    """Return the context variables that belong to each record, without their prefix."""
    return {
        variable.name.removeprefix(CONTEXT_PREFIX): value
        for variable, value in contextvars.copy_context().items()
        if variable.name.startswith(CONTEXT_PREFIX)
    }


def record_fields(record: logging.LogRecord) -> dict[str, object]:
    """Return the event of a record, its context, its level, its logger, its extras and its time."""
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
    return {
        "event": record.getMessage(),
        **context_fields(),
        "level": record.levelname.lower(),
        "logger": record.name,
        **{name: value for name, value in vars(record).items() if name not in _OWN_FIELDS},
        "timestamp": time.replace("+00:00", "Z"),
    }


# Fields of a record and its traceback, "" without one -> what is written of it.
Render = Callable[[dict[str, object], str], str]


class _Scrubbing(logging.Formatter):
    """Masks secrets in all output, also in tracebacks and in records of libraries.

    Tracebacks have no local values, which may be source code, queries or secrets.
    """

    def __init__(self, secrets: Sequence[str], render: Render) -> None:
        super().__init__()
        self._secrets = tuple(secrets)
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        info = record.exc_info
        error = self.formatException(info) if info is not None and info[0] is not None else ""
        return mask_urls(mask_secrets(self._render(record_fields(record), error), self._secrets))


def _json_line(fields: dict[str, object], error: str) -> str:
    return json.dumps(fields | ({"exception": error} if error else {}), default=repr)


def _terminal_lines(fields: dict[str, object], error: str) -> str:
    time, level, event, logger = map(
        str, map(fields.pop, ("timestamp", "level", "event", "logger"))
    )
    parts = [
        f"{_DIM}{time}{_RESET}",
        f"[{_LEVEL_COLOURS.get(level, _OTHER_LEVELS)}{level:<8}{_RESET}]",
        f"{_BOLD}{event:<30}{_RESET}",
        f"[{_BOLD}{logger}{_RESET}]",
        *(f"{_CYAN}{name}{_RESET}={_plain(value)}" for name, value in fields.items()),
    ]
    return "\n".join(filter(None, [" ".join(parts), error]))


def _plain(value: object) -> str:
    """Return a value on one line, without characters that drive a terminal."""
    return value if isinstance(value, str) and value.isprintable() else repr(value)


def configure(
    level: str,
    style: Literal["auto", "json", "console"],
    file: Path | None = None,
    stream: TextIO = sys.stderr,
    *,
    secrets: Sequence[str] = (),
) -> None:
    """Replace the root logger's handlers by one that writes to `stream`, at the program's entry.

    `file` is bounded in size if `stream` writes to it. Records show neither `secrets` nor secrets of
    URLs.
    """
    console = style == "console" or (style == "auto" and stream.isatty())
    handler = _handler(stream, file)
    handler.setFormatter(_Scrubbing(secrets, _terminal_lines if console else _json_line))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    for name in REPEATS:
        logging.getLogger(name).setLevel(
            logging.DEBUG if root.level <= logging.DEBUG else logging.ERROR
        )
