"""The embedded server's log file: reads warnings and errors from it, and limits its length."""

import logging
import os
import re
from pathlib import Path

# Lines with our `log_line_prefix`: time, zone, process, then the severity.
_LINE = re.compile(r"\[\d+\] (WARNING|ERROR|FATAL|PANIC):\s+(.+)")
# FATAL ends one connection, PANIC the server.
_LEVELS = {
    "WARNING": logging.WARNING,
    "ERROR": logging.WARNING,
    "FATAL": logging.WARNING,
    "PANIC": logging.ERROR,
}
MAX_READ_BYTES = 1 << 16  # of one read: of many new lines, only the last are reported
LOG_LIMIT = 4 << 20  # in bytes
LOG_TAIL = 1 << 20  # in bytes


def trim_log(path: Path) -> bool:
    """Cut a long log to its last `LOG_TAIL` bytes; return True if it was too long.

    The server appends to the file, so cutting it while the server runs is safe.
    """
    if not path.exists() or path.stat().st_size <= LOG_LIMIT:
        return False
    with path.open("r+b") as output:
        output.seek(-LOG_TAIL, os.SEEK_END)
        tail = output.read()
        output.seek(0)
        output.truncate()
        output.write(tail)
    return True


class ServerLog:
    """Reads what was appended to the log since this object was created."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = self._size()

    def unread(self) -> list[tuple[int, str]]:
        """Return (logging level, text) of each warning and error since the last call."""
        size = self._size()
        if size == self._read:
            return []
        # a shorter file has been cut
        begin = 0 if size < self._read else max(self._read, size - MAX_READ_BYTES)
        try:
            with self._path.open("rb") as file:
                file.seek(begin)
                text = file.read(size - begin)
        except FileNotFoundError:
            text = b""
        complete = text.rpartition(b"\n")[0]
        self._read = begin + len(complete) + 1 if complete else begin
        lines = complete.decode("utf-8", "replace").splitlines()
        matches = (_LINE.search(line) for line in lines)
        return [(_LEVELS[match[1]], f"{match[1]}: {match[2]}") for match in matches if match]

    def is_too_long(self) -> bool:
        """Return whether `trim` would cut the log."""
        return self._size() > LOG_LIMIT

    def trim(self) -> None:
        """Cut the log. Call it after `unread`: the rest of the log counts as read."""
        if trim_log(self._path):
            self._read = self._size()

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0
