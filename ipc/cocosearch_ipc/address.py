"""Where the daemon's files and sockets are, for both ends. The only reader of the environment in
this package.

Every function takes the environment as a mapping and returns an absolute path as text (`pathlib`
would cost the command line a quarter of its start). Order: our own variable, the XDG variable, the
platform's default. An instance with its own `COCOSEARCH_STATE_DIR` has its own runtime directory as
well, so that instances can live side by side.
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
    """The variables of this process; read here and passed on from here."""
    return os.environ


def forget(prefix: str) -> None:
    """Leave variables to no library of this process, and to nothing that it starts."""
    for name in [name for name in os.environ if name.startswith(prefix)]:
        del os.environ[name]


def state_dir(env: Mapping[str, str]) -> str:
    """What survives a restart: the embedded database, CocoIndex's memory, the token, the log."""
    if own := env.get("COCOSEARCH_STATE_DIR"):
        return _absolute(own)
    if base := xdg(env, "XDG_STATE_HOME"):
        return os.path.join(base, "cocosearch")
    if system := _of_system("/var/lib"):
        return system
    # not below /root: PostgreSQL gives up root's rights and must still reach it
    if os.geteuid() == 0:
        return "/var/lib/cocosearch"
    if sys.platform == "darwin":
        return os.path.join(home(env), "Library", "Application Support", "cocosearch")
    return os.path.join(home(env), ".local", "state", "cocosearch")


def runtime_dir(env: Mapping[str, str]) -> str:
    """Where the sockets are: private to the user, gone after a reboot."""
    if own := env.get("COCOSEARCH_RUNTIME_DIR"):
        return _absolute(own)
    if env.get("COCOSEARCH_STATE_DIR"):
        return os.path.join(state_dir(env), "run")
    uid = os.geteuid()
    usual = f"/run/user/{uid}"
    base = xdg(env, "XDG_RUNTIME_DIR")
    if base and base != usual:
        return os.path.join(base, "cocosearch")
    if system := _of_system("/run"):
        return system
    if base or _is_own_dir(usual, uid):  # without the variable: a shell of cron, sudo or su
        return f"{usual}/cocosearch"
    if sys.platform == "darwin":
        return os.path.join(home(env), "Library", "Caches", "cocosearch", "run")
    return "/run/cocosearch" if uid == 0 else f"/tmp/cocosearch-{uid}"  # noqa: S108 - owner and mode are checked at bind


def config_file(env: Mapping[str, str]) -> str:
    """The settings file; it need not exist."""
    if own := env.get("COCOSEARCH_CONFIG"):
        return _absolute(own)
    if base := xdg(env, "XDG_CONFIG_HOME"):
        return os.path.join(base, "cocosearch", "config.yaml")
    if os.geteuid() == 0:
        return "/etc/cocosearch/config.yaml"
    return os.path.join(home(env), ".config", "cocosearch", "config.yaml")


def rpc_socket(env: Mapping[str, str]) -> str:
    """JSON-RPC, streamable MCP, metrics and health over HTTP."""
    return os.path.join(socket_dir(runtime_dir(env)), "rpc.sock")


def bridge_socket(env: Mapping[str, str]) -> str:
    """MCP in stdio framing, one session a connection: what `cocosearchctl mcp` relays to."""
    return os.path.join(socket_dir(runtime_dir(env)), "mcp.sock")


def socket_dir(runtime: str) -> str:
    """`runtime`, or a short directory that stands for it where the socket's path would be too long
    for the kernel.
    """
    if len(os.fsencode(os.path.join(runtime, _LONGEST_NAME))) <= SOCKET_PATH_BYTES:
        return runtime
    return f"/tmp/cocosearch-{os.geteuid()}-{_fnv1a(os.fsencode(runtime)):016x}"  # noqa: S108 - checked at bind


def token_file(env: Mapping[str, str]) -> str:
    """The bearer token of the loopback listener."""
    return os.path.join(state_dir(env), "token")


def log_file(env: Mapping[str, str]) -> str:
    """What a detached daemon writes to standard error."""
    return os.path.join(state_dir(env), "cocosearchd.log")


def xdg(env: Mapping[str, str], name: str) -> str:
    """An XDG variable; one that is relative counts as not set, as its specification wants it."""
    found = env.get(name, "")
    return found if found.startswith("/") else ""


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def home(env: Mapping[str, str]) -> str:
    """The user's directory; for a user of whom nothing is known, one that cannot be made."""
    found = env.get("HOME") or os.path.expanduser("~")
    return found if found.startswith("/") else "/nonexistent"


def _of_system(base: str) -> str:
    """The directory that the system service cocosearchd@UID made for this user; empty where it
    never ran.
    """
    uid = os.geteuid()
    path = f"{base}/cocosearch/{uid}"
    return path if _is_own_dir(path, uid) else ""


def _is_own_dir(path: str, uid: int) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid


def _fnv1a(data: bytes) -> int:
    """FNV-1a, 64 bits (draft-eastlake-fnv): no secret depends on it, and `hashlib` costs the hot
    path OpenSSL.
    """
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
