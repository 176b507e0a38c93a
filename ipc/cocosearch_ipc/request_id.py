"""The id of the current request, for log records, replies and spans."""

import os
from contextvars import ContextVar

# The log formatter adds context variables with this prefix to every record of a request, also to
# records of libraries.
REQUEST_ID: ContextVar[str] = ContextVar("structlog_request_id")


def new_request_id() -> str:
    """Return eight hexadecimal digits: enough to find a request in a log."""
    return os.urandom(4).hex()
