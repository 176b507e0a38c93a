"""Pauses bulk work while the disk is almost full or the computer runs on its battery."""

import os
from pathlib import Path

from cocosearchd.config.settings import IndexingSettings

DISK_FULL = (
    "the disk of the state directory is full; free some space, indexing then goes on by itself"
)
# Less than this counts as a full disk. CocoIndex grows its file on write, and a write past a full
# disk kills the process.
FULL_DISK_BYTES = 1 << 20
# Linux only; elsewhere the power supply is unknown, and bulk work never waits for it
POWER_SUPPLIES = Path("/sys/class/power_supply")


class Throttle:
    """Checks disk and battery for bulk work. Saved files are never paused."""

    def __init__(
        self, state_dir: Path, settings: IndexingSettings, supplies: Path = POWER_SUPPLIES
    ) -> None:
        self._state_dir = state_dir
        self._settings = settings
        self._supplies = supplies

    def pause_reason(self) -> str | None:
        """Return the reason why bulk work waits, for people; None if it may run.

        Blocks for a few reads of kernel files.
        """
        free = free_bytes(self._state_dir)
        if free is not None and free < self._settings.min_free_bytes:
            minimum = self._settings.min_free_bytes >> 20
            return f"indexing waits: {free >> 20} MiB are free in {self._state_dir}, {minimum} are needed"
        if self._settings.pause_on_battery and on_battery(self._supplies):
            return "indexing waits: the computer runs on its battery (indexing.pause_on_battery)"
        return None

    def disk_full(self) -> bool:
        """Return true if the state directory is known to be full. Blocks for a system call."""
        free = free_bytes(self._state_dir)
        return free is not None and free < FULL_DISK_BYTES


def free_bytes(directory: Path) -> int | None:
    """Return the bytes that this user may still write at `directory`; None if unknown.

    `directory` need not exist yet.
    """
    existing = next((path for path in (directory, *directory.parents) if path.exists()), None)
    try:
        status = os.statvfs(existing) if existing is not None else None
    except OSError:
        return None
    return status.f_bavail * status.f_frsize if status is not None else None


def on_battery(supplies: Path) -> bool:
    """Return true if no mains is online while a battery of the computer itself discharges."""
    own_supplies = [
        supply for supply in sorted(supplies.glob("*")) if _line(supply, "scope") != "Device"
    ]
    if any(
        _line(supply, "type") in ("Mains", "USB") and _line(supply, "online") == "1"
        for supply in own_supplies
    ):
        return False
    return any(
        _line(supply, "type") == "Battery" and _line(supply, "status") == "Discharging"
        for supply in own_supplies
    )


def _line(supply: Path, name: str) -> str:
    try:
        return (supply / name).read_text("ascii", "replace").strip()
    except OSError:
        return ""
