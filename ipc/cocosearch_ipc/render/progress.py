"""Progress of long work: one updated line on a terminal, plain lines at intervals on a pipe."""

import shutil
import sys
import time
from typing import Any, TextIO

from cocosearch_ipc.render import output, tables

PLAIN_EVERY_S = 2.0
BAR = 20  # columns


def _bar(value: dict[str, Any]) -> str:
    """Return a progress bar, or "" if the total is unknown."""
    if not value["total"]:
        return ""
    done = round(BAR * min(1.0, int(value["done"]) / int(value["total"])))
    return "━" * done + "╌" * (BAR - done) + " "


class Progress:
    """Shows `IndexProgress` values on a stream.

    The default is standard error, so that standard output has only results.
    """

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self.stream = stream
        self.live = stream.isatty()
        self.began = time.monotonic()
        self._first: tuple[float, int] | None = None
        self._shown_at = 0.0
        self._last = ""

    def show(self, value: dict[str, Any]) -> None:
        """Show one progress value."""
        text = self._text(value)
        moment = time.monotonic()
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write("\r\x1b[K" + (_bar(value) + text)[:width])
        elif text != self._last and moment - self._shown_at >= PLAIN_EVERY_S:
            self.stream.write(text + "\n")
            self._shown_at = moment
            self._last = text
        self.stream.flush()

    def say(self, text: str) -> None:
        """Print a sentence in place of the progress line."""
        self.close()
        self.stream.write(text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Clear the progress line of a terminal."""
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
        """Return files per second since the first value; 0 if the time span is too short."""
        moment = time.monotonic()
        if self._first is None:
            self._first = (moment, done)
        elapsed = moment - self._first[0]
        return (done - self._first[1]) / elapsed if elapsed > 0.5 else 0.0
