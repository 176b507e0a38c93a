"""Finds the program that listens on a TCP port, through /proc (proc(5)). Standard library only.

On other systems than Linux, `find_holder` returns None. For a program of another user, only the user
is known, unless this process has permission to inspect it.
"""

import contextlib
import ipaddress
import os
import pwd
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cocosearch_ipc.render.visible import printable

# TCP_ESTABLISHED, TCP_LISTEN of linux/include/net/tcp_states.h
ESTABLISHED = "01"
LISTENING = "0A"
PROC = Path("/proc")
TABLES = ("tcp", "tcp6")
MAX_TABLE_BYTES = 16 << 20  # 150 bytes per socket
COMMAND_BYTES = 4096
COMMAND_CHARS = 60

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class PortHolder:
    """A listening program. `pid` is None and `command` empty if this process may not see them."""

    uid: int
    pid: int | None = None
    command: str = ""

    def __str__(self) -> str:
        """Format the holder for a sentence: `python3 -m http.server` (pid 12, user alice)."""
        user = f"user {_user_name(self.uid)}"
        return f"`{self.command}` (pid {self.pid}, {user})" if self.pid else f"a program of {user}"


def describe_holder(host: str, port: int) -> str:
    """Return the end of "the port is held by ...": the holder, or a command to find it."""
    holder = find_holder(host, port)
    if holder is not None:
        return str(holder)
    command = "ss -ltnp" if sys.platform == "linux" else f"lsof -nP -iTCP:{port} -sTCP:LISTEN"
    return f"another program (`{command}` may name it)"


def find_holder(host: str, port: int) -> PortHolder | None:
    """Return the program that listens on `host` and `port`, or None if it is unknown."""
    address = _address_of(host)
    listeners = [
        row for row in _rows(LISTENING) if row.port == port and _overlap(row.address, address)
    ]
    listeners.sort(key=lambda row: row.address != address)
    if not listeners:
        return None
    row = listeners[0]
    pid = _owner_of(row.inode)
    if pid is None:
        return PortHolder(row.uid)
    return PortHolder(_uid_of(pid, row.uid), pid, _command_of(pid))


def client_pids() -> dict[tuple[str, int], int]:
    """Return the pids of visible TCP connections, by local address; none outside Linux."""
    inodes = {row.inode: (str(row.address), row.port) for row in _rows(ESTABLISHED)}
    pids = dict[tuple[str, int], int]()
    with contextlib.suppress(OSError):
        for pid in (entry.name for entry in PROC.iterdir() if entry.name.isdecimal()):
            for target in _open_files(PROC / pid / "fd"):
                if (
                    address := inodes.get(target.removeprefix("socket:[").removesuffix("]"))
                ) is not None:
                    pids[address] = int(pid)
    return pids


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of /proc/net/tcp."""

    address: IPAddress
    port: int
    uid: int
    inode: str


def _rows(state: str) -> Iterator[_Row]:
    for name in TABLES:
        with contextlib.suppress(OSError), (PROC / "net" / name).open("rb") as table:
            text = table.read(MAX_TABLE_BYTES).decode("ascii", "replace")
            for columns in map(str.split, text.splitlines()[1:]):
                if len(columns) > 9 and columns[3] == state:
                    address, _, port = columns[1].partition(":")
                    yield _Row(_unpack_address(address), int(port, 16), int(columns[7]), columns[9])


def _unpack_address(address: str) -> IPAddress:
    """Parse an address in the kernel's notation: words of 32 bits in the machine's byte order."""
    raw = bytes.fromhex(address)
    words = struct.unpack(f"={len(raw) // 4}I", raw)
    unpacked = ipaddress.ip_address(struct.pack(f">{len(words)}I", *words))
    mapped = unpacked.ipv4_mapped if isinstance(unpacked, ipaddress.IPv6Address) else None
    return mapped or unpacked


def _address_of(host: str) -> IPAddress:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host)
    with contextlib.suppress(OSError):
        return ipaddress.ip_address(socket.gethostbyname(host))
    return ipaddress.IPv4Address(0)


def _overlap(first: IPAddress, second: IPAddress) -> bool:
    """Return True if a listener on one address blocks one on the other; `[::]` includes IPv4."""
    return first == second or first.is_unspecified or second.is_unspecified


def _owner_of(inode: str) -> int | None:
    """Return the lowest visible process id that holds a socket, or None."""
    target = f"socket:[{inode}]"
    for pid in sorted(int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()):
        if target in _open_files(PROC / str(pid) / "fd"):
            return pid
    return None


def _open_files(folder: Path) -> Iterator[str]:
    """Yield the targets of a process's descriptors; none if the process is hidden or ends."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                yield os.readlink(entry)  # noqa: PTH115 - a Path for each of ten thousand descriptors


def _uid_of(pid: int, default: int) -> int:
    """Return the effective user id of a process.

    A socket has the user id of the process that created it. That process may have changed its user.
    """
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = (PROC / str(pid) / "status").read_text("utf-8", "replace").splitlines()
        return int(next(line.split()[2] for line in lines if line.startswith("Uid:")))
    return default


def _command_of(pid: int) -> str:
    """Return a command line as one short line, escaped: the program controls this text."""
    raw = b""
    with contextlib.suppress(OSError), (PROC / str(pid) / "cmdline").open("rb") as file:
        raw = file.read(COMMAND_BYTES)
    program, *arguments = raw.decode("utf-8", "replace").split("\0")
    text = " ".join([program.rpartition("/")[2], *arguments]).strip() or "?"
    line = printable(text, keep="").replace("`", "'")
    return line if len(line) <= COMMAND_CHARS else f"{line[: COMMAND_CHARS - 1]}…"


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
