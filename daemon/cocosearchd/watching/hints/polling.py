"""A backend without events, for network and container mounts, and where all others fail.

It notices nothing: `WatchedRoot` scans the root instead, `watching.poll_s` seconds after the last
scan, or `watched_root.POLL_REST` times the length of that scan if this is more.
"""

from cocosearchd.watching.hints.base import Sink


class PollingHints:
    """The `Hints` of a polled root: it is unwatched everywhere, so every sync is a scan."""

    name = "polling"
    exact = False
    trouble: str | None = None

    def start(self, sink: Sink) -> None:
        """Do nothing."""

    def watch(self, directory: bytes) -> None:
        """Do nothing."""

    def unwatched(self) -> tuple[bytes, ...]:
        """Return the whole root."""
        return (b"",)

    def batches_sent(self) -> int | None:
        """Return None: only a cookie tells."""
        return None

    def close(self) -> None:
        """Do nothing."""
