"""The addresses of resources. Pure."""

import urllib.parse

INDEXES = "cocosearch://indexes"
STATS = "cocosearch://index/{name}/stats"
FILE = "cocosearch://index/{name}/file/{path*}"


def stats(index: str) -> str:
    """Of one index's numbers."""
    return STATS.replace("{name}", urllib.parse.quote(index, safe=""))


def file(index: str, path: str) -> str:
    """Of a file as it is now. A name that is no UTF-8 keeps its bytes."""
    quoted = urllib.parse.quote(path.encode("utf-8", "surrogateescape"))
    return f"cocosearch://index/{urllib.parse.quote(index, safe='')}/file/{quoted}"


def normal(uri: str) -> str:
    """An address as `file` writes it: clients that fill in a template quote other characters than
    we do.
    """
    scheme, mark, rest = uri.partition("://")
    return scheme + mark + urllib.parse.quote(urllib.parse.unquote_to_bytes(rest))


def is_file(uri: str) -> bool:
    """Whether a URI is one of a file."""
    return uri.startswith("cocosearch://index/") and "/file/" in uri
