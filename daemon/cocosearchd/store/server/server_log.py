"""The embedded server's own log file: what it complains about there, and how long it may get."""

import logging
import os
import re
from pathlib import Path

# As `log_line_prefix` makes them: time, zone, process, then the severity.
_LINE = re.compile(r"\[\d+\] (WARNING|ERROR|FATAL|PANIC):\s+(.+)")
# FATAL ends one connection; what ends the server is PANIC.
_LEVELS = {
    "WARNING": logging.WARNING,
    "ERROR": logging.WARNING,
    "FATAL": logging.WARNING,
    "PANIC": logging.ERROR,
}
MAX_BYTES = 1 << 16  # of one look: a flood is told by its end
LOG_LIMIT, LOG_TAIL = 4 << 20, 1 << 20  # bytes


def trim_log(path: Path) -> bool:
    """Keep the end of a long log; whether it was one. The server appends, so cutting below its feet
    is safe.
    """
    if not path.exists() or path.stat().st_size <= LOG_LIMIT:
        return False
    with path.open("r+b") as output:
        output.seek(-LOG_TAIL, os.SEEK_END)
        kept = output.read()
        output.seek(0)
        output.truncate()
        output.write(kept)
    return True


class ServerLog:
    """Reads on from where the file ended when this was made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = self._size()

    def unread(self) -> list[tuple[int, str]]:
        """(level of logging, text) of each complaint since the last call."""
        size = self._size()
        if size == self._read:
            return []
        # it is cut when it is too long
        begin = 0 if size < self._read else max(self._read, size - MAX_BYTES)
        try:
            with self._path.open("rb") as file:
                file.seek(begin)
                text = file.read(size - begin)
        except FileNotFoundError:
            text = b""
        whole = text.rpartition(b"\n")[0]
        self._read = begin + len(whole) + 1 if whole else begin
        found = (_LINE.search(line) for line in whole.decode("utf-8", "replace").splitlines())
        return [(_LEVELS[match[1]], f"{match[1]}: {match[2]}") for match in found if match]

    def trim(self) -> None:
        """As the function; to be called after `unread`, since what is kept counts as read."""
        if trim_log(self._path):
            self._read = self._size()

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0
