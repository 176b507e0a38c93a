"""A server-side cursor that is also closed in a cancelled task."""

from typing import Any

import anyio
import psycopg

# To close a cursor is one exchange with the server.
CLOSE_TIMEOUT_S = 2.0


class ServerCursor(psycopg.AsyncServerCursor[tuple[Any, ...]]):
    """A server-side cursor whose `close` a cancellation does not interrupt.

    A cancelled task is interrupted again at each wait. The driver would leave the cursor open.
    """

    async def close(self) -> None:
        """Close the cursor, within `CLOSE_TIMEOUT_S`."""
        with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            await super().close()
