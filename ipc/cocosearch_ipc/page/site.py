"""The files of the status page, with the headers they are sent with. Standard library only."""

from dataclasses import dataclass
from pathlib import Path

PREFIX = "/status"
RPC = f"{PREFIX}/rpc"
# What the page may ask: it looks, and changes nothing.
METHODS = frozenset({"status", "index_stats", "search"})

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PAGE = "index.html"
_NAMES = (_PAGE, "page.css", "page.js", "charts.js", "daemon.js", "icon.svg")
PATHS = frozenset({PREFIX, *(f"{PREFIX}/{name}" for name in _NAMES if name != _PAGE)})

# Nothing but our own files, and nobody may frame them.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
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
    """The file at a path of the listener; read anew each time, a few kilobytes. None where there is
    none.
    """
    if path not in PATHS:
        return None
    file = Path(__file__).with_name(_PAGE if path == PREFIX else path.removeprefix(f"{PREFIX}/"))
    return Asset(file.read_bytes(), _KINDS[file.suffix])
