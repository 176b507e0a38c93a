"""State of the indexer process, for people."""

from dataclasses import dataclass
from typing import Literal

IndexerState = Literal["stopped", "starting", "running", "recovering", "waiting", "unresponsive"]


@dataclass(frozen=True, slots=True)
class IndexerStatus:
    """State and counters of the indexer process.

    `error` describes the end of the last process. While the process is unresponsive, it says what
    happens next.
    """

    state: IndexerState
    pid: int | None
    deaths: int
    error: str | None
    computed: int = 0  # texts embedded since the daemon started
    reused: int = 0  # texts whose vectors were in the cache
    parsed: int = 0  # parsed files; other files were in the manifest cache
    paused: str | None = None  # the reason why bulk work waits
