"""Progress of long work: one line that is written over on a terminal, plain lines now and then on a
pipe.
"""

import shutil
import sys
import time
from typing import Any, TextIO

from cocosearch_ipc.render import output, tables

PLAIN_EVERY_S = 2.0
BAR = 20  # columns


def _bar(value: dict[str, Any]) -> str:
    """How far it is; empty until that is known."""
    if not value["total"]:
        return ""
    done = round(BAR * min(1.0, int(value["done"]) / int(value["total"])))
    return "━" * done + "╌" * (BAR - done) + " "


class Progress:
    """Shows `IndexProgress` values on `stream` (standard error, so that standard output stays for
    results).
    """

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self.stream = stream
        self.live = stream.isatty()
        self.began = time.monotonic()
        self._first: tuple[float, int] | None = None
        self._shown_at = 0.0
        self._last = ""

    def show(self, value: dict[str, Any]) -> None:
        """A moment of the work."""
        text = self._text(value)
        now = time.monotonic()
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write("\r\x1b[K" + (_bar(value) + text)[:width])
        elif text != self._last and now - self._shown_at >= PLAIN_EVERY_S:
            self.stream.write(text + "\n")
            self._shown_at = now
            self._last = text
        self.stream.flush()

    def say(self, text: str) -> None:
        """A sentence in place of the line."""
        self.close()
        self.stream.write(text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Leave the terminal's line empty."""
        if self.live:
            self.stream.write("\r\x1b[K")
            self.stream.flush()

    def _text(self, value: dict[str, Any]) -> str:
        done = value["done"]
        total = value["total"]
        parts = [f"{value['index']}: {value['state']}"]
        parts.append(f"{done:,} files" if total is None else f"{done:,} of {total:,} files")
        if value["chunks"] >= 0:  # PostgreSQL has answered
            parts.append(f"{value['chunks']:,} chunks")
        if (rate := self._rate(done)) > 0:
            parts.append(f"{rate:,.0f} files/s")
            if total is not None and total > done:
                parts.append(f"{tables.duration((total - done) / rate)} left")
        if value["failed"]:
            parts.append(f"{value['failed']} failed")
        if value.get("reason"):
            parts.append(output.printable(value["reason"], keep=""))
        return ", ".join(parts)

    def _rate(self, done: int) -> float:
        """Files a second since the first value; 0 while that says nothing."""
        now = time.monotonic()
        if self._first is None:
            self._first = (now, done)
        elapsed = now - self._first[0]
        return (done - self._first[1]) / elapsed if elapsed > 0.5 else 0.0
