"""Quarantine of contents that ended or stalled a parser process. They are not parsed again.

Entries survive restarts. Their key consists of the content, its language and the version of the
parsers: a file is parsed again after a change of the file or of the parsers. Copies of a content are
quarantined too, and a renamed file stays quarantined.
"""

import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from cocosearchd.model import ParseReport
from cocosearchd.runtime.disk_cache import DiskCache

log = logging.getLogger(__name__)

FILE_NAME = "quarantine.sqlite"
# some thousand entries; beyond that the least recently used contents are parsed again
LIMIT_BYTES = 1 << 20
MAX_REASON = 200  # characters
# Prefix of the parse report of a quarantined file: `status` finds the file in PostgreSQL by it.
NOT_PARSED = "not parsed: "


def is_quarantined(report: ParseReport) -> bool:
    """Return true if a parse report belongs to a quarantined file."""
    return (report.error_message or "").startswith(NOT_PARSED)


class Quarantine:
    """Reasons by key. For any thread; `add` blocks. Without a file, it ends with the process."""

    def __init__(self, cache: DiskCache | None) -> None:
        self._cache = cache
        self._recent: dict[bytes, str] = {}  # valid even if the disk is full

    @classmethod
    def open(cls, state_dir: Path) -> "Quarantine":
        """Open or create the file in the state directory; blocking."""
        try:
            return cls(DiskCache(state_dir / FILE_NAME, LIMIT_BYTES))
        except (OSError, sqlite3.Error) as error:
            log.warning(
                "quarantine_not_saved",
                extra={"path": str(state_dir / FILE_NAME), "error": str(error)},
            )
            return cls(None)

    def reasons(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the reasons of quarantined contents, by key. Other keys are absent."""
        stored = self._cache.get(keys) if self._cache is not None else {}
        reasons = {key: raw.decode("utf-8", "replace") for key, raw in stored.items()}
        return reasons | {key: self._recent[key] for key in keys if key in self._recent}

    def add(self, key: bytes, reason: str) -> None:
        """Quarantine a content. After the return it is on disk, or an error is logged."""
        self._recent[key] = reason[:MAX_REASON]
        if self._cache is not None:
            self._cache.put([(key, reason[:MAX_REASON].encode())])
            self._cache.flush()

    def close(self) -> None:
        """Close the file; blocking."""
        if self._cache is not None:
            self._cache.close()
