"""The daemon's parser: a mate of its own, for text that no file has. Native code that crashes or hangs ends that alone.

It is started for the first text, and ended when there has been none for a while.
"""

import asyncio
import logging
from collections.abc import Sequence

from cocosearchd.indexing.chunk import Limits
from cocosearchd.indexing.installed import installed
from cocosearchd.indexing.mates import COMMAND, Lost, Mate, started
from cocosearchd.indexing.outline import Outline, unpacked_outline
from cocosearchd.indexing.portion import Asked, Made, Order
from cocosearchd.languages.parse import QueryOverrides

log = logging.getLogger(__name__)

IDLE_S = 60.0  # somebody types: a mate takes 0.16 s of CPU to start
PATIENCE_S = 20.0  # for one text: a parser gives up after three seconds of CPU


class Outliner:
    """At most one mate, which has one text at a time: what ends it is that one. For one event loop."""

    def __init__(
        self, command: Sequence[str] = COMMAND, patience_s: float = PATIENCE_S, idle_s: float = IDLE_S
    ) -> None:
        self._command, self._patience_s, self._idle_s = command, patience_s, idle_s
        self._installed = installed()
        self._turn = asyncio.Lock()
        self._mate: Mate | None = None
        self._lives: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None

    async def outline(
        self, path: str, language: str, data: bytes, limits: Limits, overrides: QueryOverrides
    ) -> Outline | None:
        """What parsing finds out of a text; None where it gives up, ends its process or does not come back in time."""
        order = Order(limits, overrides, (), (Asked(path, language, data, b""),))
        async with self._turn:
            self._stay()
            try:
                (made,) = await self._asked(order)
            except (Lost, OSError):
                return None
            finally:
                self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._dismiss)
        return None if made is None else unpacked_outline(made.outline)

    async def aclose(self) -> None:
        """End the mate. What is asked after this starts another."""
        self._stay()
        self._dismiss()
        if self._lives:
            await asyncio.wait(self._lives)

    async def _asked(self, order: Order) -> Sequence[Made | None]:
        mate = self._mate
        if mate is None or mate.ended:
            mate = self._mate = await started(self._command, self._installed)
            self._lives.add(life := asyncio.create_task(self._live(mate)))
            life.add_done_callback(self._lives.discard)
        if not await mate.came_up():
            raise Lost
        try:
            return await mate.ask(order, self._patience_s)
        except asyncio.CancelledError:
            self._dismiss()  # it may be at what nobody waits for any more
            raise

    async def _live(self, mate: Mate) -> None:
        why = await mate.live()
        if why is not None:
            log.warning("parser_ended", extra={"how": why})

    def _stay(self) -> None:
        if self._idle is not None:
            self._idle.cancel()

    def _dismiss(self) -> None:
        if self._mate is not None:
            self._mate.tell_to_end()
            self._mate = None
