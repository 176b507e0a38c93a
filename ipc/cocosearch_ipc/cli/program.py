"""Where the daemon's program is, and the files that are shipped with it."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path


def command(env: Mapping[str, str]) -> list[str]:
    """The daemon's program: the one installed beside this one, else the one on PATH, else its
    module.
    """
    beside = Path(sys.executable).with_name("cocosearchd")
    if beside.exists():
        return [str(beside)]
    found = shutil.which("cocosearchd", path=env.get("PATH"))
    return [found] if found else [sys.executable, "-m", "cocosearchd"]


def own(env: Mapping[str, str]) -> str:
    """The path of `cocosearchctl` itself, for the configuration of others."""
    beside = Path(sys.executable).with_name("cocosearchctl")
    return (
        str(beside)
        if beside.exists()
        else shutil.which("cocosearchctl", path=env.get("PATH")) or "cocosearchctl"
    )


def shipped(folder: str) -> Path:
    """`systemd` or `launchd`: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "shipped" / folder
    return installed if installed.exists() else package.parent.parent / folder
