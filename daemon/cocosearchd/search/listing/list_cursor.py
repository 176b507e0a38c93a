"""Positions in a list of symbols, and cursors that continue it. Pure."""

import base64
import json
from dataclasses import dataclass
from typing import NamedTuple

from cocosearchd.errors import InvalidInput


class ListPosition(NamedTuple):
    """The position of a symbol in the list of an index; positions ascend.

    With a name in the filter, symbols that have it as written come first, and of these the ones in
    tests last; then the order is by path.
    """

    is_other: bool  # the name is not as written in the filter
    is_in_test: bool
    path: str
    start_byte: int
    name: str


_TYPES = (str, bool, bool, str, int, str)


@dataclass(frozen=True, slots=True)
class ListCursor:
    """The last symbol of a page, after which the next page begins. Indexes come by name."""

    index: str
    position: ListPosition

    def encode(self) -> str:
        """Return the cursor as a text that needs no quotes in a shell."""
        values = json.dumps([self.index, *self.position])
        return base64.urlsafe_b64encode(values.encode()).decode().rstrip("=")


def decode_cursor(text: str) -> ListCursor:
    """Read the text of a cursor. Raises `InvalidInput`."""
    try:
        padding = "=" * (-len(text) % 4)
        values = json.loads(base64.b64decode(text + padding, altchars=b"-_", validate=True))
        valid = all(isinstance(value, kind) for value, kind in zip(values, _TYPES, strict=True))
    except (ValueError, TypeError, RecursionError):
        valid = False
    if not valid:
        raise InvalidInput(
            f"{text[:40]!r} is no cursor of a list of symbols", "use that of the previous reply"
        )
    index, *position = values
    return ListCursor(index, ListPosition(*position))
