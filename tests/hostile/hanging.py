"""A file system that never answers for some names, like an unreachable file server: FUSE without a
library.

Only root may mount it (`mount(2)`), and only where the kernel has FUSE; elsewhere tests that need
it are skipped. The protocol is <linux/fuse.h>, version 7.31: requests of a 40-byte header, replies
of a 16-byte one.
"""

import ctypes
import errno
import os
import select
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

LOOKUP, GETATTR, OPEN, READ, RELEASE, INIT, OPENDIR, READDIR, RELEASEDIR = (
    1,
    3,
    14,
    15,
    18,
    26,
    27,
    28,
    29,
)
FORGET, BATCH_FORGET, INTERRUPT = 2, 42, 36  # these have no reply
MNT_DETACH = 2
ROOT_NODE = 1
POLL_MS = 50  # between looks whether it is to end


class HangingDirectory:
    """One directory of files; whatever asks about a name in `hanging` waits for as long as this is
    mounted.
    """

    def __init__(self, directory: Path, files: dict[str, bytes]) -> None:
        self.place, self.files, self.hanging = directory, files, set[str]()
        self._waiting = list[int]()  # requests that are not answered
        self._names = dict(enumerate(files, ROOT_NODE + 1))
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        self._libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={self._device},rootmode=40755,user_id=0,group_id=0".encode()
        if self._libc.mount(b"hanging", os.fsencode(directory), b"fuse.sshfs", 0, options):
            os.close(self._device)
            raise OSError(ctypes.get_errno(), "mount")
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Return the number of requests that were not answered."""
        return len(self._waiting)

    def close(self) -> None:
        """Unmount: who waits gets an error."""
        self.hanging = set()
        for unique in self._waiting:
            with suppress(OSError):  # interrupted meanwhile
                os.write(self._device, struct.pack("<IiQ", 16, -errno.EIO, unique))
        self._libc.umount2(os.fsencode(self.place), MNT_DETACH)
        self._closing.set()
        # it would go on with the number of the descriptor, which is another's soon
        self._thread.join()
        os.close(self._device)

    def _serve(self) -> None:
        poller = select.poll()
        poller.register(self._device, select.POLLIN)
        with suppress(OSError):  # unmounted
            while not self._closing.is_set():
                if poller.poll(POLL_MS):
                    self._serve_request()

    def _serve_request(self) -> None:
        with suppress(BlockingIOError):  # taken back
            request = os.read(self._device, 1 << 18)
            _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
            self._answer(opcode, unique, node, request[40:])

    def _answer(self, opcode: int, unique: int, node: int, body: bytes) -> None:
        name = body.rstrip(b"\0").decode() if opcode == LOOKUP else self._names.get(node, "")
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            return
        if name in self.hanging:
            self._waiting.append(unique)
            return
        code, reply = self._reply(opcode, node, name, body)
        os.write(self._device, struct.pack("<IiQ", 16 + len(reply), -code, unique) + reply)

    def _reply(self, opcode: int, node: int, name: str, body: bytes) -> tuple[int, bytes]:
        if opcode == INIT:
            return 0, struct.pack("<IIIIHHIIHH28x", 7, 31, 1 << 16, 0, 12, 10, 1 << 16, 1, 0, 0)
        if opcode == LOOKUP:
            node_number = next(
                (number for number, known_name in self._names.items() if known_name == name), None
            )
            if node_number is None:
                return errno.ENOENT, b""
            return 0, struct.pack("<QQQQII", node_number, 0, 0, 0, 0, 0) + self._attributes(
                node_number
            )
        if opcode == GETATTR:
            return 0, struct.pack("<QII", 0, 0, 0) + self._attributes(node)
        if opcode in (OPEN, OPENDIR):
            return 0, struct.pack("<QII", 0, 0, 0)
        if opcode == READDIR:
            return 0, b"" if struct.unpack_from("<QQ", body)[1] else self._listing()
        if opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return 0, self.files[name][offset : offset + size]
        return (0, b"") if opcode in (RELEASE, RELEASEDIR) else (errno.ENOSYS, b"")

    def _attributes(self, node: int) -> bytes:
        is_root = node == ROOT_NODE
        size = 0 if is_root else len(self.files[self._names[node]])
        mode = stat.S_IFDIR | 0o755 if is_root else stat.S_IFREG | 0o644
        return struct.pack(
            "<QQQQQQIIIIIIIIII",
            node,
            size,
            1,
            0,
            0,
            0,
            0,
            0,
            0,
            mode,
            2 if is_root else 1,
            0,
            0,
            0,
            0,
            0,
        )

    def _listing(self) -> bytes:
        entries = b""
        for node, name in self._names.items():
            raw = name.encode()
            entry = struct.pack("<QQII", node, node, len(raw), stat.S_IFREG >> 12) + raw
            entries += entry + b"\0" * (-len(entry) % 8)
        return entries


@contextmanager
def hanging_directory(mount_point: Path, files: dict[str, bytes]) -> Iterator[HangingDirectory]:
    """Mounted at `mount_point`, answering at first; skips the test where it cannot be mounted."""
    try:
        directory = HangingDirectory(mount_point, files)
    except OSError as error:
        pytest.skip(f"FUSE cannot be mounted here: {error}")
    try:
        yield directory
    finally:
        directory.close()
