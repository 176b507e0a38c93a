"""The files of the status page, with their HTTP headers. Standard library only."""

from dataclasses import dataclass
from pathlib import Path

PREFIX = "/status"
RPC = f"{PREFIX}/rpc"
# Methods that the page may call. None of them changes anything.
METHODS = frozenset({"status", "index_stats", "search", "callers", "callees", "dependencies"})

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PAGE = "index.html"
_NAMES = (
    _PAGE,
    "page.css",
    "page.js",
    "charts.js",
    "daemon.js",
    "graph_drawing.js",
    "graph_view.js",
    "icon.svg",
)
PATHS = frozenset({PREFIX, *(f"{PREFIX}/{name}" for name in _NAMES if name != _PAGE)})

# The headers let a browser load only our own files, and forbid framing.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
        "'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file and its media type."""

    content: bytes
    kind: str


def asset(path: str) -> Asset | None:
    """Return the file for a request path, or None.

    The file is read again each time; it has only a few kilobytes.
    """
    if path not in PATHS:
        return None
    file = Path(__file__).with_name(_PAGE if path == PREFIX else path.removeprefix(f"{PREFIX}/"))
    return Asset(file.read_bytes(), _KINDS[file.suffix])
