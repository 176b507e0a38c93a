"""No events at all: network and container mounts, and where every other backend fails. The scanner
does the work.
"""

from cocosearchd.watching.hints.base import Sink


class PollingHints:
    """See `Hints`. Says nothing and is blind everywhere, so every sync is a scan."""

    name = "polling"
    exact = False
    trouble: str | None = None

    def start(self, sink: Sink) -> None:
        """Nothing to start."""

    def watch(self, directory: bytes) -> None:
        """Nothing to watch."""

    def blind(self) -> tuple[bytes, ...]:
        """The whole root."""
        return (b"",)

    def close(self) -> None:
        """Nothing to end."""
