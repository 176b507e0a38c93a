"""One stream of log records, ours and the libraries': JSON lines, or coloured text on a terminal.

Modules use `logging.getLogger(__name__)` with an event name and `extra` fields; how it looks is decided here.
"""

import logging
import sys
from typing import Literal, TextIO

import structlog
from structlog.typing import Processor

# Libraries whose INFO is our DEBUG.
QUIET = ("httpx", "httpcore", "mcp", "fastmcp", "uvicorn.access", "watchfiles", "psycopg.pool", "sse_starlette")


def configure(level: str, style: Literal["auto", "json", "console"], stream: TextIO = sys.stderr) -> None:
    """Replace the root logger's handlers by one that writes to `stream`. Call once, from the program's entry."""
    console = style == "console" or (style == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if console
        else [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(default=repr)]
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
