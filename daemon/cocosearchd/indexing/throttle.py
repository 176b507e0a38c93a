"""When bulk work has to wait: too little room on the disk, or a computer that lives from its
battery.
"""

import os
from pathlib import Path

from cocosearchd.config.settings import IndexingSettings

DISK_FULL = "the disk of the state directory is full; free some space, work goes on by itself"
# Less than this is none. A file of CocoIndex grows when it is written to, and who writes where it
# cannot is killed.
FULL_DISK_BYTES = 1 << 20
POWER_SUPPLIES = Path(
    "/sys/class/power_supply"
)  # Linux; elsewhere nothing is known, and nothing waits


class Throttle:
    """Looks at the machine. What a person has just saved never waits for this."""

    def __init__(
        self, state_dir: Path, settings: IndexingSettings, supplies: Path = POWER_SUPPLIES
    ) -> None:
        self._state_dir, self._settings, self._supplies = state_dir, settings, supplies

    def pause_reason(self) -> str | None:
        """Why bulk work waits now, for people; None: it need not. Blocks for a few reads of kernel
        files.
        """
        found = free_bytes(self._state_dir)
        if found is not None and found < self._settings.min_free_bytes:
            wanted = self._settings.min_free_bytes >> 20
            return f"indexing waits: {found >> 20} MiB are free in {self._state_dir}, {wanted} are wanted"
        if self._settings.pause_on_battery and on_battery(self._supplies):
            return "indexing waits: the computer runs on its battery (indexing.pause_on_battery)"
        return None

    def disk_full(self) -> bool:
        """Whether nothing can be written to the state directory, as far as is known. Blocks for a
        system call.
        """
        found = free_bytes(self._state_dir)
        return found is not None and found < FULL_DISK_BYTES


def free_bytes(directory: Path) -> int | None:
    """What this user may still write where `directory` is, or will be; None where that is not
    known.
    """
    there = next((path for path in (directory, *directory.parents) if path.exists()), None)
    try:
        status = os.statvfs(there) if there is not None else None
    except OSError:
        return None
    return status.f_bavail * status.f_frsize if status is not None else None


def on_battery(supplies: Path) -> bool:
    """Whether no mains is online while a battery of the computer itself is being used up."""
    found = [supply for supply in sorted(supplies.glob("*")) if _line(supply, "scope") != "Device"]
    if any(
        _line(supply, "type") in ("Mains", "USB") and _line(supply, "online") == "1"
        for supply in found
    ):
        return False
    return any(
        _line(supply, "type") == "Battery" and _line(supply, "status") == "Discharging"
        for supply in found
    )


def _line(supply: Path, name: str) -> str:
    try:
        return (supply / name).read_text("ascii", "replace").strip()
    except OSError:
        return ""
