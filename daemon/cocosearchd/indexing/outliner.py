"""The daemon's parser: a worker process of its own, for text that no file has.

Native code that crashes or hangs ends that process alone. It is started for the first text, and ended when there has
been none for a while.
"""

from collections.abc import Sequence

from cocosearchd.indexing import portion
from cocosearchd.indexing.chunk import Limits
from cocosearchd.indexing.crew import COMMAND, LIMITS
from cocosearchd.indexing.outline import Outline, unpacked_outline
from cocosearchd.indexing.portion import Asked, Order
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.sandbox.installed import installed_code
from cocosearchd.sandbox.pool import PoolSize, WorkerPool
from cocosearchd.sandbox.process import WorkerLost, WorkerUnavailable

IDLE_S = 60.0  # somebody types: a process takes 0.16 s of CPU to start
PATIENCE_S = 20.0  # for one text: a parser gives up after three seconds of CPU


class Outliner:
    """At most one process, which has one text at a time: what ends it is that one. For one event loop."""

    def __init__(
        self, command: Sequence[str] = COMMAND, patience_s: float = PATIENCE_S, idle_s: float = IDLE_S
    ) -> None:
        self._patience_s = patience_s
        self._pool = WorkerPool("parser", command, installed_code(), LIMITS, PoolSize(idle_s=idle_s))

    async def outline(
        self, path: str, language: str, data: bytes, limits: Limits, overrides: QueryOverrides
    ) -> Outline | None:
        """What parsing finds out of a text; None where it gives up, ends its process or does not come back in time."""
        order = Order(limits, overrides, (), (Asked(path, language, data, b""),))
        try:
            response = await self._pool.request(portion.order_to_bytes(order), self._patience_s)
        except (WorkerLost, WorkerUnavailable):
            return None
        (made,) = portion.made_of(response, 1)
        return None if made is None else unpacked_outline(made.outline)

    async def aclose(self) -> None:
        """End the process."""
        await self._pool.aclose()
