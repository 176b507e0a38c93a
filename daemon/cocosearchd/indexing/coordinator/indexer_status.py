"""State of the indexing process, for people."""

from dataclasses import dataclass
from typing import Literal

WorkerState = Literal["stopped", "starting", "running", "recovering", "waiting", "unresponsive"]


@dataclass(frozen=True, slots=True)
class IndexerStatus:
    """The child, for people. `error` is how the last one ended; of one that is unresponsive, what
    happens next.
    """

    state: WorkerState
    pid: int | None
    deaths: int
    error: str | None
    computed: int = 0  # texts embedded since the daemon started
    reused: int = 0  # texts whose vectors were known
    parsed: int = 0  # contents that were parsed; what was found in others was known
    paused: str | None = None  # why bulk work waits
