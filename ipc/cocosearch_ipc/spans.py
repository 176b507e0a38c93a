"""OpenTelemetry spans, if the SDK is loaded; otherwise no span and no import.

    opentelemetry-instrument cocosearchd

loads and configures the SDK. Other libraries may load only the API; without an SDK, no span is
exported.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_SDK = "opentelemetry.sdk.trace"
_API = "opentelemetry.trace"
_NOTHING = nullcontext()


def span(name: str, **attributes: str | int | float | bool) -> AbstractContextManager[Any]:
    """Return a context manager for a span below the current one. Without an SDK: 0.2 µs."""
    if _SDK not in sys.modules:
        return _NOTHING
    tracer = sys.modules[_API].get_tracer("cocosearchd")
    context: AbstractContextManager[Any] = tracer.start_as_current_span(name, attributes=attributes)
    return context
