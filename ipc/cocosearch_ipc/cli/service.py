"""The daemon as a service: a systemd unit of the user or of the system, or a launchd agent; every verb idempotent."""

import argparse
import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits, program
from cocosearch_ipc.render import out

Env = Mapping[str, str]

LABEL = "org.cocosearch.cocosearchd"
# What the unit files name as the program, to be replaced by the one that is installed.
PLACEHOLDERS = ("%h/.local/bin/cocosearchd", "/usr/local/bin/cocosearchd")


@dataclass(frozen=True, slots=True)
class Manager:
    """A service manager: where its files go, what they hold, and which commands do what."""

    files: dict[Path, bytes]
    commands: dict[str, tuple[tuple[str, ...], ...]]

    def installed(self) -> bool:
        """Whether every file is there, of whatever version."""
        return all(path.exists() for path in self.files)


def is_installed(env: Env) -> bool:
    """Whether a service would start the very daemon that `env` means. One with directories of its own is never it."""
    if env.get("COCOSEARCH_STATE_DIR") or env.get("COCOSEARCH_RUNTIME_DIR"):
        return False
    try:
        return manager(env, system=False).installed()
    except client.CallFailed:
        return False


def outdated(env: Env) -> tuple[Path, ...]:
    """Installed files that are not what `service install` would write now."""
    files = manager(env, system=False).files
    return tuple(path for path, content in files.items() if path.read_bytes() != content)


def state(env: Env) -> str:
    """What systemd says of the user's service (active, inactive, failed, ...); empty elsewhere."""
    if sys.platform == "darwin":
        return ""
    command = ("systemctl", "--user", "is-active", "cocosearchd.service")
    return subprocess.run(command, check=False, capture_output=True, text=True, env=dict(env)).stdout.strip()


def start(env: Env) -> None:
    """Start the user's service. Raises `client.CallFailed`."""
    _do(manager(env, system=False), "start")


def journal(env: Env, lines: int, *, follow: bool) -> tuple[str, ...] | None:
    """The command that prints the installed service's records, as the daemon wrote them; None without systemd's."""
    if sys.platform == "darwin" or not is_installed(env):
        return None
    command = ("journalctl", "--user", "--unit", "cocosearchd", "--output", "cat", "--lines", str(lines))
    return (*command, "--follow") if follow else command


def run(args: argparse.Namespace, env: Env) -> int:
    """`service install|uninstall|start|stop|status [--system]`."""
    found = manager(env, system=args.system)
    changed = _install(found) if args.what == "install" else False
    if args.what != "install" and not found.installed():
        if args.what == "uninstall":
            out.line("no service is installed")
            return exits.OK
        raise client.CallFailed("no service is installed", "cocosearchctl service install", code=0)
    code = _do(found, args.what, check=args.what != "status")
    if args.what == "uninstall":
        for path in found.files:
            path.unlink(missing_ok=True)
        _do(found, "reload")
    if args.what != "status":
        files = ", ".join(str(path) for path in found.files)
        past = {"install": "installed" if changed else "already installed", "uninstall": "removed"}
        out.line(f"{past.get(args.what, args.what + ': done')} ({files})")
    return code


def manager(env: Env, *, system: bool) -> Manager:
    """The service manager of this machine. Raises `client.CallFailed` where there is none we know."""
    if sys.platform == "darwin":
        return _launchd(env)
    if shutil.which("systemctl", path=env.get("PATH")) is None:
        hint = "start the daemon with `cocosearchctl up PATH`, or from your own service manager"
        raise client.CallFailed("there is no systemd on this machine", hint, code=0)
    return _systemd_system(env) if system else _systemd_user(env)


def _systemd_user(env: Env) -> Manager:
    home = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "~")).expanduser() / ".config") / "systemd" / "user"
    names = ("cocosearchd.socket", "cocosearchd-mcp.socket", "cocosearchd.service")
    return _systemd(home, program.shipped("systemd") / "user", names, names, ("systemctl", "--user"), env)


def _systemd_system(env: Env) -> Manager:
    uid = int(env.get("SUDO_UID") or os.getuid())
    if uid == 0:
        raise client.CallFailed("the system service runs as a user, not as root", "use sudo as that user", code=0)
    names = ("cocosearchd@.socket", "cocosearchd@.service")
    units = tuple(name.replace("@", f"@{uid}") for name in names)
    return _systemd(
        Path("/etc/systemd/system"), program.shipped("systemd") / "system", names, units, ("systemctl",), env
    )


def _systemd(
    target: Path, source: Path, names: Sequence[str], units: tuple[str, ...], ctl: tuple[str, ...], env: Env
) -> Manager:
    files = {target / name: _filled((source / name).read_text("utf-8"), program.command(env)) for name in names}
    reload = (*ctl, "daemon-reload")
    return Manager(
        files,
        {
            "install": (reload, (*ctl, "enable", "--now", *units)),
            "uninstall": ((*ctl, "disable", "--now", *units),),
            "reload": (reload,),
            "start": ((*ctl, "start", *units),),
            "stop": ((*ctl, "stop", *units),),
            "status": ((*ctl, "--no-pager", "status", units[-1]),),
        },
    )


def _filled(unit: str, command: Sequence[str]) -> bytes:
    line = " ".join(f'"{word}"' if " " in word else word for word in command).replace("%", "%%")
    for placeholder in PLACEHOLDERS:
        unit = unit.replace(f"ExecStart={placeholder}", f"ExecStart={line}")
    return unit.encode()


def _launchd(env: Env) -> Manager:
    path = Path(env.get("HOME", "~")).expanduser() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    domain = f"gui/{os.getuid()}"
    return Manager(
        {path: agent((program.shipped("launchd") / f"{LABEL}.plist").read_bytes(), env)},
        {
            "install": (("launchctl", "bootstrap", domain, str(path)),),
            "uninstall": (("launchctl", "bootout", f"{domain}/{LABEL}"),),
            "reload": (),
            "start": (("launchctl", "kickstart", f"{domain}/{LABEL}"),),
            "stop": (("launchctl", "kill", "SIGTERM", f"{domain}/{LABEL}"),),
            "status": (("launchctl", "print", f"{domain}/{LABEL}"),),
        },
    )


def agent(shipped: bytes, env: Env) -> bytes:
    """The launchd agent with this user's paths."""
    plist = plistlib.loads(shipped)
    plist["ProgramArguments"] = program.command(env)
    plist["StandardErrorPath"] = address.log_file(env)
    plist["Sockets"]["rpc"]["SockPathName"] = address.rpc_socket(env)
    return plistlib.dumps(plist)


def _install(found: Manager) -> bool:
    """Write what differs; returns whether anything did."""
    changed = False
    for path, content in found.files.items():
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            changed = True
    return changed


def _do(found: Manager, verb: str, *, check: bool = True) -> int:
    code = 0
    for command in found.commands[verb]:
        code = subprocess.run(command, check=False).returncode
        if code and check:
            hint = "run it yourself to see why; without a login session: loginctl enable-linger"
            raise client.CallFailed(f"`{' '.join(command)}` failed ({code})", hint, code=0)
    return code
