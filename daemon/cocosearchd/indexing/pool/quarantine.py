"""Contents that ended or stalled a parser process: remembered across restarts, and not parsed
again.

An entry is found by the content, its language and the version of the parsers, so a file is parsed
again when it changes, and by other parsers. Copies of a content are known as well; a renamed file
stays quarantined.
"""

import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from cocosearchd.model import ParseReport
from cocosearchd.runtime.disk_cache import DiskCache

log = logging.getLogger(__name__)

FILE_NAME = "quarantine.sqlite"
# some thousand entries; beyond that the ones not met for longest are parsed again
LIMIT_BYTES = 1 << 20
MAX_REASON = 200  # characters
# What the parse report of a quarantined file begins with: `status` finds the file in PostgreSQL by
# it.
NOT_PARSED = "not parsed: "


def is_quarantined(report: ParseReport) -> bool:
    """Return whether a parse report is that of a file in quarantine."""
    return (report.error_message or "").startswith(NOT_PARSED)


class Quarantine:
    """Reasons by key. For any thread; `add` blocks. Without a file it lasts as long as the
    process.
    """

    def __init__(self, kept: DiskCache | None) -> None:
        self._kept = kept
        self._recent: dict[bytes, str] = {}  # also when the disk is full

    @classmethod
    def open(cls, state_dir: Path) -> "Quarantine":
        """Open or make the file in the state directory; blocking."""
        try:
            return cls(DiskCache(state_dir / FILE_NAME, LIMIT_BYTES))
        except (OSError, sqlite3.Error) as error:
            log.warning(
                "quarantine_not_kept",
                extra={"path": str(state_dir / FILE_NAME), "error": str(error)},
            )
            return cls(None)

    def reasons(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return why contents are quarantined, by key; those that are not are left out."""
        stored = self._kept.get(keys) if self._kept is not None else {}
        reasons = {key: raw.decode("utf-8", "replace") for key, raw in stored.items()}
        return reasons | {key: self._recent[key] for key in keys if key in self._recent}

    def add(self, key: bytes, reason: str) -> None:
        """Quarantine a content. It is on disk when this returns, unless that fails (which is
        logged).
        """
        self._recent[key] = reason[:MAX_REASON]
        if self._kept is not None:
            self._kept.put([(key, reason[:MAX_REASON].encode())])
            self._kept.flush()

    def close(self) -> None:
        """Close the file; blocking."""
        if self._kept is not None:
            self._kept.close()
