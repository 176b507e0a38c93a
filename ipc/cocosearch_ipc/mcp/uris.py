"""The URIs of resources. Pure."""

import urllib.parse

INDEXES = "cocosearch://indexes"
STATS = "cocosearch://index/{name}/stats"
FILE = "cocosearch://index/{name}/file/{path*}"


def stats(index: str) -> str:
    """Return the URI of an index's numbers."""
    return STATS.replace("{name}", urllib.parse.quote(index, safe=""))


def file(index: str, path: str) -> str:
    """Return the URI of a file. A name that is not UTF-8 keeps its bytes."""
    quoted = urllib.parse.quote(path.encode("utf-8", "surrogateescape"))
    return f"cocosearch://index/{urllib.parse.quote(index, safe='')}/file/{quoted}"


def normal(uri: str) -> str:
    """Normalise a URI to the quoting of `file`: clients may quote other characters."""
    scheme, mark, rest = uri.partition("://")
    return scheme + mark + urllib.parse.quote(urllib.parse.unquote_to_bytes(rest))


def is_file(uri: str) -> bool:
    """Tell if a URI names a file."""
    return uri.startswith("cocosearch://index/") and "/file/" in uri
