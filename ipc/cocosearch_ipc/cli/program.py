"""Paths of the installed programs and of the files that ship with them."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path


def command(env: Mapping[str, str]) -> list[str]:
    """Return the daemon's command: installed beside this program, else on PATH, else its module."""
    neighbour = Path(sys.executable).with_name("cocosearchd")
    if neighbour.exists():
        return [str(neighbour)]
    path = shutil.which("cocosearchd", path=env.get("PATH"))
    return [path] if path else [sys.executable, "-m", "cocosearchd"]


def ctl_path(env: Mapping[str, str]) -> str:
    """Return the path of `cocosearchctl` itself, for the configuration of other programs."""
    neighbour = Path(sys.executable).with_name("cocosearchctl")
    return (
        str(neighbour)
        if neighbour.exists()
        else shutil.which("cocosearchctl", path=env.get("PATH")) or "cocosearchctl"
    )


def shipped_folder(folder: str) -> Path:
    """Return the folder `systemd` or `launchd` of the installed package, or of a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "shipped" / folder
    return installed if installed.exists() else package.parent.parent / folder
