"""Paths of the daemon's files and sockets, for both ends.

Only this module of the package reads the environment. Each function takes the environment as a
mapping and returns an absolute path as text, because `pathlib` would take a quarter of the command
line's start. The order is: our own variable, the XDG variable, the platform's default. An instance
with its own `COCOSEARCH_STATE_DIR` also has its own runtime directory, so that instances can run
side by side.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

# sockaddr_un: 108 bytes on Linux, 104 on macOS and the BSDs, one of them for the final NUL.
SOCKET_PATH_BYTES = 107 if sys.platform == "linux" else 103
_LONGEST_NAME = "rpc.sock"


def environment() -> Mapping[str, str]:
    """Return the variables of this process."""
    return os.environ


def forget(prefix: str) -> None:
    """Remove all variables with this prefix: libraries and child processes must not see them."""
    for name in [name for name in os.environ if name.startswith(prefix)]:
        del os.environ[name]


def state_dir(env: Mapping[str, str]) -> str:
    """Return the directory that survives a restart: database, CocoIndex state, token, log."""
    if configured := env.get("COCOSEARCH_STATE_DIR"):
        return _absolute(configured)
    if base := xdg(env, "XDG_STATE_HOME"):
        return os.path.join(base, "cocosearch")
    if system := _system_service_dir("/var/lib"):
        return system
    # not below /root: PostgreSQL drops root's rights and must still reach its data
    if os.geteuid() == 0:
        return "/var/lib/cocosearch"
    if sys.platform == "darwin":
        return os.path.join(home(env), "Library", "Application Support", "cocosearch")
    return os.path.join(home(env), ".local", "state", "cocosearch")


def runtime_dir(env: Mapping[str, str]) -> str:
    """Return the directory of the sockets. It is private; on most systems a reboot empties it."""
    if configured := env.get("COCOSEARCH_RUNTIME_DIR"):
        return _absolute(configured)
    if env.get("COCOSEARCH_STATE_DIR"):
        return os.path.join(state_dir(env), "run")
    uid = os.geteuid()
    usual = f"/run/user/{uid}"
    base = xdg(env, "XDG_RUNTIME_DIR")
    if base and base != usual:
        return os.path.join(base, "cocosearch")
    if system := _system_service_dir("/run"):
        return system
    if base or _is_own_dir(usual, uid):  # shells of cron, sudo and su lack the variable
        return f"{usual}/cocosearch"
    if sys.platform == "darwin":
        return os.path.join(home(env), "Library", "Caches", "cocosearch", "run")
    # not in /tmp: another user could take the name first, and nobody but that user could remove it
    return "/run/cocosearch" if uid == 0 else os.path.join(state_dir(env), "run")


def config_file(env: Mapping[str, str]) -> str:
    """Return the path of the settings file, which need not exist."""
    if configured := env.get("COCOSEARCH_CONFIG"):
        return _absolute(configured)
    if base := xdg(env, "XDG_CONFIG_HOME"):
        return os.path.join(base, "cocosearch", "config.yaml")
    if os.geteuid() == 0:
        return "/etc/cocosearch/config.yaml"
    return os.path.join(home(env), ".config", "cocosearch", "config.yaml")


def rpc_socket(env: Mapping[str, str]) -> str:
    """Return the socket for JSON-RPC, streamable MCP, metrics and health over HTTP."""
    return os.path.join(socket_dir(runtime_dir(env)), "rpc.sock")


def bridge_socket(env: Mapping[str, str]) -> str:
    """Return the socket for MCP in stdio framing, one session per connection.

    `cocosearchctl mcp` relays to it.
    """
    return os.path.join(socket_dir(runtime_dir(env)), "mcp.sock")


def socket_dir(runtime: str) -> str:
    """Return `runtime`, or a short directory instead if the socket path would exceed the limit."""
    if len(os.fsencode(os.path.join(runtime, _LONGEST_NAME))) <= SOCKET_PATH_BYTES:
        return runtime
    digest = f"{_fnv1a(os.fsencode(runtime)):016x}"
    return f"/tmp/cocosearch-{os.geteuid()}-{digest}"  # noqa: S108 - checked at bind


def token_file(env: Mapping[str, str]) -> str:
    """Return the file of the TCP listener's bearer token."""
    return os.path.join(state_dir(env), "token")


def log_file(env: Mapping[str, str]) -> str:
    """Return the file for the standard error of a detached daemon."""
    return os.path.join(state_dir(env), "cocosearchd.log")


def xdg(env: Mapping[str, str], name: str) -> str:
    """Return an XDG variable, or "" if it is relative: its specification ignores relative paths."""
    path = env.get(name, "")
    return path if path.startswith("/") else ""


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def home(env: Mapping[str, str]) -> str:
    """Return the user's home directory; for an unknown user, a path that cannot be created."""
    path = env.get("HOME") or os.path.expanduser("~")
    return path if path.startswith("/") else "/nonexistent"


def _system_service_dir(base: str) -> str:
    """Return the directory that the system service cocosearchd@UID created for this user, or ""."""
    uid = os.geteuid()
    path = f"{base}/cocosearch/{uid}"
    return path if _is_own_dir(path, uid) else ""


def _is_own_dir(path: str, uid: int) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == uid


def _fnv1a(data: bytes) -> int:
    """Return the 64-bit FNV-1a hash (draft-eastlake-fnv).

    No secret depends on it, and `hashlib` would load OpenSSL on the hot path.
    """
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
