"""Reports the state of the daemon to systemd over its datagram socket, if there is one.

The protocol is that of sd_notify(3): lines of NAME=value to the socket that NOTIFY_SOCKET names. A
leading `@` stands for the NUL of an abstract socket.
"""

import socket
import time
from dataclasses import dataclass

START_STEP_S = 60  # longest time between two steps of a start


@dataclass(frozen=True, slots=True)
class Notifier:
    """Sends notifications to `address`, which is NOTIFY_SOCKET or empty.

    `watchdog_s` is half of WatchdogSec, None without a watchdog.
    """

    address: str = ""
    watchdog_s: float | None = None

    def ready(self, status: str) -> None:
        """Report that clients are served now."""
        self._send(f"READY=1\nSTATUS={status}")

    def starting(self, status: str) -> None:
        """Report a step of the start: the manager waits `START_STEP_S` for the next one.

        TimeoutStartSec is for a daemon with a few indexes; 1,000 take longer on a busy machine.
        """
        self._send(f"STATUS={status}\nEXTEND_TIMEOUT_USEC={START_STEP_S * 1_000_000}")

    def status(self, text: str) -> None:
        """Send one line for `systemctl status`."""
        self._send(f"STATUS={text}")

    def reloading(self) -> None:
        """Report that settings are being read again; `ready` ends this state."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Report that the stop has begun."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Report that the event loop and the store have just answered."""
        self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        if not self.address:
            return
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as s:
            try:
                s.connect(address)
                s.sendall(text.encode())
            except OSError:
                return  # the manager has gone
