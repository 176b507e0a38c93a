"""Positions in a list of symbols, and cursors that continue the list. Pure."""

import base64
import json
from dataclasses import dataclass
from typing import NamedTuple

from cocosearchd.errors import InvalidInput
from cocosearchd.search.listing.cursors import MAX_CURSOR, invalid_cursor, read_page_cursor


class ListPosition(NamedTuple):
    """The position of a symbol in the list of an index. Positions ascend in the list.

    If the filter has a name, symbols with the name as written come first. Within both groups,
    symbols in tests come last. Then the order is by path.
    """

    is_other: bool  # the name differs from the filter's, in case or leading underscores
    is_in_test: bool
    path: str
    start_byte: int
    name: str


_KINDS = ((str,), (bool,), (bool,), (str,), (int,), (str,))


@dataclass(frozen=True, slots=True)
class ListCursor:
    """The last symbol of a page: the next page begins after it. Indexes are ordered by name.

    `generation` is the one that the index had on that page.
    """

    index: str
    position: ListPosition
    generation: int

    def encode(self) -> str:
        """Return the cursor as a text that needs no quotes in a shell."""
        values = json.dumps([self.index, *self.position, self.generation])
        return base64.urlsafe_b64encode(values.encode()).decode().rstrip("=")


def decode_cursor(text: str) -> ListCursor:
    """Read the text of a cursor. Raises `InvalidInput`."""
    try:
        # base64 is a third longer than the encoded text
        padded = text[: 2 * MAX_CURSOR] + "=" * (-len(text) % 4)
        data = base64.b64decode(padded, altchars=b"-_", validate=True)
        values, generation = read_page_cursor(data.decode("ascii"), _KINDS)
    except (ValueError, InvalidInput):
        raise invalid_cursor(text) from None
    index, *position = values
    return ListCursor(index, ListPosition(*position), generation)
