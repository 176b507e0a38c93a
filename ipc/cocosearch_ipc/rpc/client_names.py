"""Names that clients send: of methods, parameters, arguments. In errors they are short.

A request has a megabyte, and may be one name: an echo of it, or a comparison with the known names,
would hold the event loop.
"""

import difflib
from collections.abc import Iterable

MAX_NAME = 100  # characters: no method, parameter or argument is longer


def quote_name(name: str) -> str:
    """Return a name in quotes for an error, or its start."""
    return repr(name) if len(name) <= MAX_NAME else f"{name[:MAX_NAME]!r}…"


def find_nearest(name: str, valid_names: Iterable[str]) -> str | None:
    """Return the valid name that is most similar, or None."""
    if len(name) > MAX_NAME:
        return None
    return next(iter(difflib.get_close_matches(name, valid_names, 1)), None)
