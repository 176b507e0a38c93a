"""Health of the daemon's dependencies: probed in the background, so no answer waits for a probe.

A probe is cheap: it asks a server whether it answers, and costs no paid call. A probe that hangs is
abandoned, and the dependency counts as unresponsive. Outcomes of real calls can be reported too.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.errors import CocoSearchError
from cocosearchd.runtime.deadlines import ends_within
from cocosearchd.runtime.ticks import LIVENESS_TICK_S, REST_TICK_S, seconds_to_tick
from cocosearchd.store.connection.database import Database

log = logging.getLogger(__name__)

State = Literal["unknown", "up", "down", "unresponsive"]

# Probes at rest. A `status` has dependencies probed as well, so that a further one knows that a
# dependency has died; questions notice it by themselves.
PROBE_EVERY_S = REST_TICK_S
ASKED_PROBE_S = LIVENESS_TICK_S  # shortest time between two probes for callers that do not wait
PROBE_WITHIN_S = 4.0
# Longer than two seconds: after that time the pool distinguishes an absent and a frozen server.
STORE_PROBE_S = 3.0
REPROBE_S = 1.0  # between probes of a dependency that is not up: waiting work should soon go on
# Some calls cannot be cancelled: hanging probes are abandoned, at most this many at a time.
HANGING_PROBES = 2


@dataclass(frozen=True, slots=True)
class PartHealth:
    """The state of a dependency, since the time `since`.

    `reason` and `hint` are None while the dependency is up.
    """

    state: State
    since: datetime
    reason: str | None = None
    hint: str | None = None

    def fields(self) -> dict[str, Any]:
        """Return fields of the reply of `status`."""
        state = {"state": self.state, "since": self.since.isoformat(timespec="seconds")}
        problem = {"reason": self.reason, "hint": self.hint} if self.reason else {}
        return state | problem


class Health:
    """Probes one dependency, and calls `on_up` when it is back."""

    def __init__(
        self,
        name: str,
        probe: Callable[[], Awaitable[object]],
        *,
        hint: str,
        within_s: float = PROBE_WITHIN_S,
    ) -> None:
        """`probe` raises `CocoSearchError` if the dependency is down; `hint` helps if it hangs."""
        self.name = name
        self._probe = probe
        self._hint = hint
        self._within_s = within_s
        self._probed_at = -math.inf
        self._asked: asyncio.Task[PartHealth] | None = None  # the last probe for a caller
        self._hanging = set[asyncio.Future[object]]()
        self.condition = PartHealth("unknown", datetime.now(UTC))
        self.on_up: Callable[[], None] = lambda: None

    async def watch(self) -> None:
        """Probe for ever; to be supervised."""
        while True:
            await self.probe()
            pause_s = REPROBE_S if self.condition.reason else PROBE_EVERY_S
            await asyncio.sleep(seconds_to_tick(pause_s))

    async def probe_within(self, within_s: float) -> PartHealth:
        """Return the new condition, or the last one if the probe takes longer than `within_s`.

        The probe then goes on: a later call returns what it finds out.
        """
        probing = self._start_probe()
        await asyncio.wait({probing}, timeout=within_s)
        return probing.result() if probing.done() else self.condition

    def probe_soon(self) -> PartHealth:
        """Return the condition, and probe in the background if the last probe was not just now."""
        if time.monotonic() - self._probed_at > ASKED_PROBE_S:
            self._start_probe()
        return self.condition

    def _start_probe(self) -> "asyncio.Task[PartHealth]":
        """Return the probe for callers that is running, or a new one."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self.probe())
        return self._asked

    async def probe(self) -> PartHealth:
        """Probe and return the condition; while too many probes hang, return the last condition."""
        if len(self._hanging) >= HANGING_PROBES:
            return self.condition
        self._probed_at = time.monotonic()
        task: asyncio.Future[object] = asyncio.ensure_future(self._probe())
        if not await ends_within(task, self._within_s):
            self._hanging.add(task)
            task.add_done_callback(self._hanging.discard)
            self.report_unresponsive(self._within_s)
        elif (error := task.exception()) is None:
            self.report(None)
        elif isinstance(error, CocoSearchError):
            self.report(error)
        else:
            raise error
        return self.condition

    def report(self, error: CocoSearchError | None) -> None:
        """Report the outcome of a call to the dependency: None is success."""
        if error is None:
            self._set_state("up")
        else:
            self._set_state(
                "unresponsive" if error.unresponsive else "down",
                error.message,
                error.hint or self._hint,
            )

    def report_unresponsive(self, seconds: float) -> None:
        """Report that the dependency has not answered a request for `seconds`."""
        self._set_state(
            "unresponsive", f"the {self.name} has not answered for {seconds:g} s", self._hint
        )

    def _set_state(self, state: State, reason: str | None = None, hint: str | None = None) -> None:
        previous = self.condition
        since = previous.since if previous.state == state else datetime.now(UTC)
        self.condition = PartHealth(state, since, reason, hint)
        if previous.state == state:
            return
        level = logging.INFO if state == "up" else logging.WARNING
        log.log(
            level,
            "part_health",
            extra={"part": self.name, "state": state, "reason": reason, "hint": hint},
        )
        if state == "up" and previous.state != "unknown":
            self.on_up()


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The dependencies of answers that are outside of this process."""

    store: Health
    embedder: Health


def make_dependencies(
    db: Database, embedder: LazyEmbedder, on_up: Callable[[], None]
) -> Dependencies:
    """Return the health of the database and of the embedder; the caller has to watch both.

    `on_up` runs when one of them is back.
    """
    dependencies = Dependencies(
        store=Health(
            "store",
            partial(db.reach, STORE_PROBE_S),
            hint="look at the processes, the disk and the network of PostgreSQL",
        ),
        embedder=Health("embedder", embedder.ping, hint="look at the model server and its log"),
    )
    dependencies.store.on_up = on_up
    dependencies.embedder.on_up = on_up
    return dependencies
