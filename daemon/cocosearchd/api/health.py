"""Health of a part that the daemon depends on: looked at in the background, so that no answer waits
for a look.

A look is cheap: it asks a server whether it is there, and costs no call that somebody pays for. One
that hangs is given up, and the part is then unresponsive. What a real call came to can be reported
as well.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import CocoSearchError
from cocosearchd.runtime.deadlines import ended
from cocosearchd.store.connection.database import Database

log = logging.getLogger(__name__)

State = Literal["unknown", "up", "down", "unresponsive"]

# What has died is known after the pause and the look, so within seven seconds.
LOOK_EVERY_S, LOOK_WITHIN_S = 3.0, 4.0
# A server that is away is told from one that is silent, of which the pool knows after two seconds.
STORE_PATIENCE_S = 3.0
AGAIN_S = 1.0  # between looks at a part that is not up: what waits for it goes on when it is back
# Looks that hang are left behind, as some calls cannot be cancelled; no more than so many at a
# time.
HANGING_LOOKS = 2


@dataclass(frozen=True, slots=True)
class PartHealth:
    """A part at a moment. `since` is when it was first known to be so; `reason` and `hint` are None
    while it is up.
    """

    state: State
    since: datetime
    reason: str | None = None
    hint: str | None = None

    def fields(self) -> dict[str, Any]:
        """As `status` shows it."""
        shown = {"state": self.state, "since": self.since.isoformat(timespec="seconds")}
        trouble = {"reason": self.reason, "hint": self.hint} if self.reason else {}
        return shown | trouble


class Health:
    """The condition of one part, and who is told when it changes."""

    def __init__(
        self,
        name: str,
        look: Callable[[], Awaitable[object]],
        *,
        hint: str,
        every_s: float = LOOK_EVERY_S,
        within_s: float = LOOK_WITHIN_S,
    ) -> None:
        """`look` raises `CocoSearchError` where the part is down; `hint` is what to do when it
        hangs.
        """
        self.name, self._look, self._hint = name, look, hint
        self._every_s, self._within_s = every_s, within_s
        self._hanging = set[asyncio.Future[object]]()
        self.condition = PartHealth("unknown", datetime.now(UTC))
        self.on_up: Callable[[], None] = lambda: None  # called when the part is back

    async def watch(self) -> None:
        """Look again and again, for ever; to be supervised."""
        while True:
            await self.look()
            await asyncio.sleep(
                min(self._every_s, AGAIN_S) if self.condition.reason else self._every_s
            )

    async def look_soon(self, within_s: float) -> PartHealth:
        """The condition of now where that is known in such a time; else that of the last look."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                return await self.look()
        return self.condition

    async def look(self) -> PartHealth:
        """The condition of now, or of before where looks are under way that hang."""
        if len(self._hanging) >= HANGING_LOOKS:
            return self.condition
        task: asyncio.Future[object] = asyncio.ensure_future(self._look())
        if not await ended(task, self._within_s):
            self._hanging.add(task)
            task.add_done_callback(self._hanging.discard)
            self.report_silence(self._within_s)
        elif (error := task.exception()) is None:
            self.report(None)
        elif isinstance(error, CocoSearchError):
            self.report(error)
        else:
            raise error
        return self.condition

    def report(self, error: CocoSearchError | None) -> None:
        """What a call of the part came to."""
        if error is None:
            self._become("up")
        else:
            self._become(
                "unresponsive" if error.silent else "down", error.message, error.hint or self._hint
            )

    def report_silence(self, seconds: float) -> None:
        """The part has been asked, and has not answered for so long."""
        self._become(
            "unresponsive", f"the {self.name} has not answered for {seconds:g} s", self._hint
        )

    def _become(self, state: State, reason: str | None = None, hint: str | None = None) -> None:
        before = self.condition
        since = before.since if before.state == state else datetime.now(UTC)
        self.condition = PartHealth(state, since, reason, hint)
        if before.state == state:
            return
        level = logging.INFO if state == "up" else logging.WARNING
        log.log(
            level,
            "part_health",
            extra={"part": self.name, "state": state, "reason": reason, "hint": hint},
        )
        if state == "up" and before.state != "unknown":
            self.on_up()


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What answers depend on outside of this process."""

    store: Health
    embedder: Health


def parts_of(db: Database, embedder: LazyEmbedder, on_up: Callable[[], None]) -> Dependencies:
    """The health of a database and of an embedder, not watched yet; `on_up` is called when one of
    them is back.
    """
    look_at_store = partial(db.reach, STORE_PATIENCE_S)
    parts = Dependencies(
        store=Health(
            "store",
            look_at_store,
            hint="look at the processes, the disk and the network of PostgreSQL",
        ),
        embedder=Health("embedder", embedder.ping, hint="look at the model server and its log"),
    )
    parts.store.on_up = parts.embedder.on_up = on_up
    return parts
