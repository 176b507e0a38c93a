"""The URIs of resources. Pure."""

import urllib.parse

INDEXES = "cocosearch://indexes"
STATS = "cocosearch://index/{name}/stats"
FILE = "cocosearch://index/{name}/file/{path*}"


def stats(index: str) -> str:
    """Return the URI of the statistics of an index."""
    return STATS.replace("{name}", urllib.parse.quote(index, safe=""))


def file(index: str, path: str) -> str:
    """Return the URI of a file. Bytes of its name that are not UTF-8 are kept."""
    quoted = urllib.parse.quote(path.encode("utf-8", "surrogateescape"))
    return f"cocosearch://index/{urllib.parse.quote(index, safe='')}/file/{quoted}"


def normal(uri: str) -> str:
    """Quote a URI as `file` does: clients may quote other characters."""
    scheme, mark, rest = uri.partition("://")
    return scheme + mark + urllib.parse.quote(urllib.parse.unquote_to_bytes(rest))


def is_file(uri: str) -> bool:
    """Return True if a URI names a file."""
    return uri.startswith("cocosearch://index/") and "/file/" in uri
