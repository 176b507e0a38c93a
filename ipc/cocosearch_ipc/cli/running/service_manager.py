"""The daemon as a service: a systemd user or system unit, or a launchd agent. Idempotent."""

import argparse
import os
import plistlib
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits, program
from cocosearch_ipc.cli.running import unit_files
from cocosearch_ipc.cli.running.unit_files import ExistingUnit
from cocosearch_ipc.render import output

Env = Mapping[str, str]

STOP_S = 40.0  # for all steps of a stop: tests/service_files/test_units.py adds them up
MAY_FAIL = "-"  # prefix of a command that fails if there is nothing to do
LABEL = "org.cocosearch.cocosearchd"
_PROPERTIES = ("ActiveState", "SubState", "Result", "ExecMainStatus")
# Program paths in the unit files. `install` replaces them by the path of the installed program.
PLACEHOLDERS = ("%h/.local/bin/cocosearchd", "/usr/local/bin/cocosearchd")


@dataclass(frozen=True, slots=True)
class ServiceManager:
    """A service manager: its files with their content, and its commands by verb."""

    files: dict[Path, bytes]
    commands: dict[str, tuple[tuple[str, ...], ...]]
    drop_in: Path | None = None  # where the environment of the service goes
    units: tuple[str, ...] = ()  # the unit of each file

    def installed(self) -> bool:
        """Return True if all files exist, of any version."""
        return all(path.exists() for path in self.files)


def is_installed(env: Env) -> bool:
    """Return True if a service starts the daemon of `env`; never if `env` sets its directories."""
    if env.get("COCOSEARCH_STATE_DIR") or env.get("COCOSEARCH_RUNTIME_DIR"):
        return False
    try:
        return manager(env, system=False).installed()
    except client.CallFailed:
        return False


def outdated(env: Env) -> tuple[Path, ...]:
    """Return the installed files that `service install` would replace."""
    files = manager(env, system=False).files
    current = (ExistingUnit.CURRENT, ExistingUnit.CHANGED)
    return tuple(
        path
        for path, content in files.items()
        if unit_files.compare_file(path, content) not in current
    )


def state(env: Env) -> str:
    """Return systemd's state of the user's service (active, failed, ...); "" elsewhere."""
    if sys.platform == "darwin":
        return ""
    command = ("systemctl", "--user", "is-active", "cocosearchd.service")
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env=dict(env)
    ).stdout.strip()


def require_healthy(env: Env) -> None:
    """Raise `client.CallFailed` if the installed service has failed: nobody reads from its socket.

    A service that waits for a restart has failed too, unless it waits for its database.
    """
    if sys.platform == "darwin" or not is_installed(env):
        return
    active, sub, result, code = _unit_properties(env, _PROPERTIES)
    is_restarting = (
        sub == "auto-restart" and result == "exit-code" and code != str(exits.NOT_RUNNING)
    )
    if active == "failed" or is_restarting:
        exit_code = f", exit code {code}" if code not in ("", "0") else ""
        message = f"the service cocosearchd has failed ({result}{exit_code})"
        hint = "journalctl --user -u cocosearchd says why; then cocosearchctl service start"
        raise client.CallFailed(message, hint, reason=client.NOT_RUNNING)


def _unit_properties(env: Env, names: Sequence[str]) -> tuple[str, ...]:
    """Return properties of the user's unit; "" for those that systemd does not report."""
    command = ("systemctl", "--user", "show", "--property", ",".join(names), "cocosearchd.service")
    listing = subprocess.run(
        command, check=False, capture_output=True, text=True, env=dict(env)
    ).stdout
    properties = dict(line.split("=", 1) for line in listing.splitlines() if "=" in line)
    return tuple(properties.get(name, "") for name in names)


def announce_stop(env: Env) -> None:
    """Stop the installed service: its manager must not start another daemon."""
    if sys.platform != "darwin" and is_installed(env):
        _run_silently(("systemctl", "--user", "stop", "--no-block", "cocosearchd.service"), env)


def start(env: Env) -> None:
    """Start the user's service. Raises `client.CallFailed`."""
    _run_commands(manager(env, system=False), "start")


def journal(env: Env, lines: int, *, follow: bool) -> tuple[str, ...] | None:
    """Return the command that prints the records of the installed service; None without systemd."""
    if sys.platform == "darwin" or not is_installed(env):
        return None
    command = (
        "journalctl",
        "--user",
        "--unit",
        "cocosearchd",
        "--output",
        "cat",
        "--lines",
        str(lines),
    )
    return (*command, "--follow") if follow else command


def run(args: argparse.Namespace, env: Env) -> int:
    """Run `service install|uninstall|start|stop|status [--system]`. Idempotent."""
    service = manager(env, system=args.system)
    if args.what == "status":
        return _status(args, service, env)
    was_installed = service.installed()
    if args.what in ("start", "stop") and not was_installed:
        raise client.CallFailed("no service is installed", "cocosearchctl service install", code=0)
    changed = was_installed
    if args.what == "uninstall":
        changed = _uninstall(service, env)
    else:
        if args.what == "install":
            # first: if the manager is unreachable, no file changes and no daemon stops
            _run_commands(service, "reload")
            changed = _install(service, env)
            _stop_unmanaged_daemon(env)
        _run_commands(service, args.what)
    _print_outcome(args, service, changed=changed)
    return exits.OK


def _print_outcome(args: argparse.Namespace, service: ServiceManager, *, changed: bool) -> None:
    if args.json:
        output.document(
            {"done": args.what, "changed": changed, "files": [str(path) for path in service.files]}
        )
        return
    done = {
        "install": ("already installed", "installed"),
        "uninstall": ("no service is installed", "removed"),
    }
    text = done[args.what][changed] if args.what in done else f"{args.what}: done"
    files = ", ".join(str(path) for path in service.files)
    output.line(text if text == "no service is installed" else f"{text} ({files})")


def _status(args: argparse.Namespace, service: ServiceManager, env: Env) -> int:
    """Print the manager's status; exit code 69 unless the service runs."""
    installed = service.installed()
    running = installed and _run_silently(service.commands["running"][0], env) == 0
    if args.json:
        output.document(
            {
                "installed": installed,
                "running": running,
                "files": [str(path) for path in service.files],
            }
        )
    elif not installed:
        output.line("no service is installed: cocosearchctl service install")
    else:
        output.flush()
        subprocess.run(service.commands["status"][0], check=False)
    return exits.OK if running else exits.NOT_RUNNING


def _stop_unmanaged_daemon(env: Env) -> None:
    """Stop a daemon that runs outside the service: it holds the locks that the service needs."""
    path = address.rpc_socket(env)
    if _run_silently(
        manager(env, system=False).commands["running"][0], env
    ) == 0 or not client.reachable(path):
        return
    pid = int(client.call(path, "shutdown")["pid"])
    output.note(f"stopping the daemon that `up` started (pid {pid}) ...")
    end = time.monotonic() + STOP_S
    while _alive(pid) and time.monotonic() < end:
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def manager(env: Env, *, system: bool) -> ServiceManager:
    """Return the service manager of this machine. Raises `client.CallFailed` if it is unknown."""
    if sys.platform == "darwin":
        return _launchd(env)
    if shutil.which("systemctl", path=env.get("PATH")) is None:
        hint = "start the daemon with `cocosearchctl up PATH`, or from your own service manager"
        raise client.CallFailed("there is no systemd on this machine", hint, code=0)
    return _systemd_system(env) if system else _systemd_user(env)


def _systemd_user(env: Env) -> ServiceManager:
    home = (
        Path(address.xdg(env, "XDG_CONFIG_HOME") or Path(address.home(env), ".config"))
        / "systemd"
        / "user"
    )
    names = ("cocosearchd.socket", "cocosearchd-mcp.socket", "cocosearchd.service")
    return _systemd(
        home, program.shipped_folder("systemd") / "user", names, names, ("systemctl", "--user"), env
    )


def _systemd_system(env: Env) -> ServiceManager:
    uid = int(env.get("SUDO_UID") or os.getuid())
    if uid == 0:
        raise client.CallFailed(
            "the system service runs as a user, not as root", "use sudo as that user", code=0
        )
    names = ("cocosearchd@.socket", "cocosearchd@.service")
    units = tuple(name.replace("@", f"@{uid}") for name in names)
    return _systemd(
        Path("/etc/systemd/system"),
        program.shipped_folder("systemd") / "system",
        names,
        units,
        ("systemctl",),
        env,
    )


def _systemd(
    target: Path,
    source: Path,
    names: Sequence[str],
    units: tuple[str, ...],
    ctl: tuple[str, ...],
    env: Env,
) -> ServiceManager:
    command = program.command(env)
    files = {
        target / name: unit_files.add_mark(_fill_unit((source / name).read_text("utf-8"), command))
        for name in names
    }
    reload = (*ctl, "daemon-reload")
    return ServiceManager(
        files,
        {
            "install": (reload, (*ctl, "enable", "--now", *units)),
            "uninstall": ((*ctl, "disable", "--now", *units),),
            "reload": (reload,),
            "start": ((*ctl, "start", *units),),
            "stop": ((*ctl, "stop", *units),),
            "status": ((*ctl, "--no-pager", "status", units[-1]),),
            "running": ((*ctl, "is-active", units[-1]),),
        },
        target / f"{units[-1]}.d" / "environment.conf",
        units,
    )


def _fill_unit(unit: str, command: Sequence[str]) -> bytes:
    line = " ".join(f'"{word}"' if " " in word else word for word in command).replace("%", "%%")
    for placeholder in PLACEHOLDERS:
        unit = unit.replace(f"ExecStart={placeholder}", f"ExecStart={line}")
    return unit.encode()


def _launchd(env: Env) -> ServiceManager:
    path = Path(address.home(env)) / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    domain = f"gui/{os.getuid()}"
    unload = ("launchctl", "bootout", f"{domain}/{LABEL}")
    return ServiceManager(
        {
            path: unit_files.add_mark(
                agent((program.shipped_folder("launchd") / f"{LABEL}.plist").read_bytes(), env)
            )
        },
        {
            # A loaded agent cannot be loaded again, and an unloaded agent cannot be unloaded.
            "install": ((MAY_FAIL, *unload), ("launchctl", "bootstrap", domain, str(path))),
            "uninstall": ((MAY_FAIL, *unload),),
            "reload": (),
            "start": (("launchctl", "kickstart", f"{domain}/{LABEL}"),),
            "stop": (("launchctl", "kill", "SIGTERM", f"{domain}/{LABEL}"),),
            "status": (("launchctl", "print", f"{domain}/{LABEL}"),),
            "running": (("launchctl", "print", f"{domain}/{LABEL}"),),
        },
        units=(LABEL,),
    )


def agent(shipped: bytes, env: Env) -> bytes:
    """Fill this user's paths into the launchd agent."""
    plist = plistlib.loads(shipped)
    plist["ProgramArguments"] = program.command(env)
    plist["StandardErrorPath"] = address.log_file(env)
    plist["Sockets"]["rpc"]["SockPathName"] = address.rpc_socket(env)
    return plistlib.dumps(plist)


def _install(service: ServiceManager, env: Env) -> bool:
    """Write the files that differ, and the environment; return True if anything changed."""
    runs = service.installed() and _run_silently(service.commands["running"][0], env) == 0
    changed = False
    for path, content in service.files.items():
        former = unit_files.write(path, content)
        changed |= former not in (ExistingUnit.CURRENT, ExistingUnit.CHANGED)
        if former is ExistingUnit.CHANGED:
            output.note(f"{path} has your own changes, which stay")
        elif former is ExistingUnit.UNKNOWN:
            drop_in = f": put them into a drop-in, {path}.d/NAME.conf" if service.drop_in else ""
            output.note(
                f"{path} had your own changes; its backup is "
                f"{path.name}{unit_files.BACKUP_SUFFIX}{drop_in}"
            )
    changed |= _environment(service, env)
    if changed and runs:
        output.note("the change takes effect after `cocosearchctl restart`")
    return changed


def _environment(service: ServiceManager, env: Env) -> bool:
    """Write the variables for the daemon to a file: a service manager has no shell variables."""
    directories = [
        name for name in sorted(unit_files.NOT_ITS) if name.endswith("_DIR") and env.get(name)
    ]
    if directories:
        output.note(
            f"the service does not use the directories of {', '.join(directories)}: "
            "start that daemon with `up`"
        )
    values = unit_files.variables(env)
    if service.drop_in is None or not unit_files.write_environment(service.drop_in, values):
        return False
    output.note(f"the service uses {', '.join(values)} of this shell ({service.drop_in})")
    return True


def _uninstall(service: ServiceManager, env: Env) -> bool:
    """Stop the service and remove its files; return True if there were any.

    If its manager is not reachable, only remove the files.
    """
    existing = [path for path in service.files if path.exists()]
    if not existing:
        return False
    reached = all(_run_silently(command, env) == 0 for command in service.commands["reload"])
    if reached or not os.access(existing[0].parent, os.W_OK):
        _run_commands(service, "uninstall")
    else:
        command = " ".join(service.commands["reload"][0])
        output.note(
            f"`{command}` failed: a running service continues until its manager ends, or until "
            "`cocosearchctl down`"
        )
    for path in unit_files.remove(
        dict(zip(service.files, service.units, strict=True)), service.drop_in
    ):
        output.note(f"{path} stays: services of other users need it")
    if reached:
        _run_commands(service, "reload")
    return True


def _run_commands(service: ServiceManager, verb: str) -> None:
    """Run the commands of a verb. Raises `client.CallFailed` for the first one that fails.

    Commands with the prefix `MAY_FAIL` may fail.
    """
    for command in service.commands[verb]:
        if command[0] == MAY_FAIL:
            subprocess.run(command[1:], check=False, capture_output=True)
        elif code := subprocess.run(command, check=False, stdout=2).returncode:
            hint = "run it yourself to see why; without a login session: loginctl enable-linger"
            if verb in ("install", "start"):  # its manager was reached
                hint = "cocosearchctl logs says why the daemon does not start, else run it yourself"
            raise client.CallFailed(f"`{' '.join(command)}` failed ({code})", hint, code=0)


def _run_silently(command: Sequence[str], env: Env) -> int:
    return subprocess.run(command, check=False, capture_output=True, env=dict(env)).returncode
