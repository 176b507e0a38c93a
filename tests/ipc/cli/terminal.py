"""Runs a program on a pseudo-terminal: sends keys, and waits for output."""

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x1b\x07]*(?:\x07|\x1b\\)|[=>])")
CTRL_C = b"\x03"
CTRL_D = b"\x04"
TAB = b"\t"
UP = b"\x1b[A"
ENTER = b"\r"


class Terminal:
    """Use as a context: the program is killed at the end if it still runs."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], rows: int = 40, columns: int = 100
    ) -> None:
        # No answer comes to the question where the cursor is: nothing here draws.
        variables = {
            "TERM": "xterm",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "LINES": str(rows),
            "COLUMNS": str(columns),
        }
        self._main, worker = pty.openpty()
        self.process = subprocess.Popen(
            command,
            env={**env, **variables},
            stdin=worker,
            stdout=worker,
            stderr=worker,
            start_new_session=True,
        )
        os.close(worker)
        self.raw = ""
        self._seen = 0

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._main)

    def keys(self, *keys: str | bytes) -> None:
        """Type."""
        for key in keys:
            os.write(self._main, key.encode() if isinstance(key, str) else key)

    def until(self, text: str, limit_s: float = 60.0) -> str:
        """Wait until `text` is shown after what was waited for before; what came till then, without
        escapes.
        """
        end = time.monotonic() + limit_s
        while True:
            output = ESCAPES.sub("", self.raw).replace("\r\n", "\n")
            position = output.find(text, self._seen)
            if position >= 0:
                part = output[self._seen : position + len(text)]
                self._seen = position + len(text)
                return part
            assert time.monotonic() < end, f"{text!r} was not shown: {output[-2000:]!r}"
            self._read(0.1)

    def ended(self, limit_s: float = 60.0) -> int:
        """The exit code; what is shown till then is read."""
        end = time.monotonic() + limit_s
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it goes on: {self.raw[-2000:]!r}"
            self._read(0.05)
        self._read(0.05)
        return self.process.returncode

    def interrupt(self) -> None:
        """Send SIGINT, as the terminal does on Ctrl-C while the program does not read keys."""
        os.kill(self.process.pid, signal.SIGINT)

    def _read(self, wait_s: float) -> None:
        if select.select([self._main], [], [], wait_s)[0]:
            try:
                self.raw += os.read(self._main, 65536).decode("utf-8", "replace")
            except OSError:  # EIO: the program has closed it
                time.sleep(wait_s)
