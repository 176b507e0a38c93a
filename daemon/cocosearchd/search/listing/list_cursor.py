"""Positions in a list of symbols, and cursors that continue it. Pure."""

import base64
import json
from dataclasses import dataclass
from typing import NamedTuple

from cocosearchd.errors import InvalidInput
from cocosearchd.search.listing.cursors import MAX_CURSOR, invalid_cursor, read_cursor


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


_KINDS = ((str,), (bool,), (bool,), (str,), (int,), (str,))


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
        # base64 is a third longer than what it encodes
        padded = text[: 2 * MAX_CURSOR] + "=" * (-len(text) % 4)
        data = base64.b64decode(padded, altchars=b"-_", validate=True)
        values = read_cursor(data.decode("ascii"), _KINDS)
    except (ValueError, InvalidInput):
        raise invalid_cursor(text) from None
    index, *position = values
    return ListCursor(index, ListPosition(*position))
