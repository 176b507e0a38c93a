"""The daemon as a service of the user or of the system: systemd on Linux, launchd on macOS."""

from collections.abc import Mapping


def is_installed(env: Mapping[str, str]) -> bool:
    """Whether a service of ours would start the daemon."""
    return False


def start(env: Mapping[str, str]) -> None:
    """Start the service."""
