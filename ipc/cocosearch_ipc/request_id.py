"""The id of the request that is being answered, for log records, replies and spans."""

import os
from contextvars import ContextVar

# The log's formatter puts context variables of this prefix into every record of a request, also
# those of libraries.
REQUEST_ID: ContextVar[str] = ContextVar("structlog_request_id")


def new_request_id() -> str:
    """Return eight hexadecimal digits: enough to find a request in a log."""
    return os.urandom(4).hex()
