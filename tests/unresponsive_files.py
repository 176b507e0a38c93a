"""A file system whose server can stop answering, like that of a network mount.

Speaks the kernel's protocol itself (`man 4 fuse`, <linux/fuse.h>, version 7.31): no library stops
in mid-request.
"""

import contextlib
import ctypes
import errno
import os
import stat
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

REQUEST = struct.Struct("<IIQQIIII")  # length, operation, number, node, and who asks
REPLY = struct.Struct("<IiQ")  # length, error, number
ATTRIBUTES = struct.Struct("<6Q10I")
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH = 1, 2, 3, 14, 15, 17, 18, 25
INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT, BATCH_FORGET = 26, 27, 28, 29, 34, 36, 42
NEVER_ANSWERED = {FORGET, BATCH_FORGET, INTERRUPT}
LARGEST, CHANGED_S, DETACH = 1 << 20, 1_000_000_000, 2
ROOT = 1

libc = ctypes.CDLL(None, use_errno=True)


class UnresponsiveFileSystem:
    """Holds `files` (path -> content). While `answers` is clear, whoever asks it anything waits."""

    def __init__(self, files: Mapping[bytes, bytes]) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self._paths = [b""]  # by node, less one; a path keeps its node
        self.replace(files)
        self._does: dict[int, Callable[[int, bytes], bytes]] = {
            INIT: lambda _, body: struct.pack(
                "<IIIIHHIIHHI28x", 7, 31, *struct.unpack_from("<8xI", body), *[0] * 8
            ),
            GETATTR: lambda node, _: bytes(16) + self._attributes(node),
            LOOKUP: self._lookup,
            OPEN: lambda _node, _body: bytes(16),
            OPENDIR: lambda _node, _body: bytes(16),
            READ: self._read,
            READDIR: self._list,
            STATFS: lambda _node, _body: struct.pack("<5Q4I24x", 1, 1, 1, 1, 1, 4096, 255, 4096, 0),
            **dict.fromkeys((RELEASE, FLUSH, RELEASEDIR, ACCESS), lambda _node, _body: b""),
        }

    def replace(self, files: Mapping[bytes, bytes]) -> None:
        """Hold these files and no others."""
        directories = {path.rpartition(b"/")[0] for path in files} - {b""}
        self._files, self._entries = files, {*files, *directories}
        self._paths += [path for path in sorted(self._entries) if path not in self._paths]

    @contextlib.contextmanager
    def mounted(self, directory: Path) -> Iterator[None]:
        """There, as what the name of its type says: reached over a network. Raises `OSError` where
        that may not be.
        """
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        try:
            options = f"fd={device},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()},allow_other"
            if libc.mount(b"silent", os.fsencode(directory), b"fuse.sshfs", 0, options.encode()):
                raise OSError(ctypes.get_errno(), "cannot be mounted")
            thread = threading.Thread(target=self._serve, args=(device,))
            thread.start()
            try:
                yield
            finally:
                self.answers.set()
                libc.umount2(os.fsencode(directory), DETACH)
                thread.join()
        finally:
            os.close(device)

    def _serve(self, device: int) -> None:
        while True:
            try:
                request = os.read(device, LARGEST)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return  # unmounted
                continue  # who asked has given up
            _, operation, number, node, *_ = REQUEST.unpack_from(request)
            self.answers.wait()
            if operation not in NEVER_ANSWERED:
                self._answer(device, number, operation, node, request[REQUEST.size :])

    def _answer(self, device: int, number: int, operation: int, node: int, body: bytes) -> None:
        failed, data = 0, b""
        if operation not in self._does:
            failed = errno.ENOSYS
        else:
            try:
                data = self._does[operation](node, body)
            except FileNotFoundError:
                failed = errno.ENOENT
        with contextlib.suppress(FileNotFoundError):  # who asked has given up
            os.write(device, REPLY.pack(REPLY.size + len(data), -failed, number) + data)

    def _lookup(self, parent: int, body: bytes) -> bytes:
        path = self._find(self._below(parent, body.rstrip(b"\0")))
        if path not in self._entries:
            raise FileNotFoundError
        node = self._paths.index(path) + ROOT
        return struct.pack("<Q32x", node) + self._attributes(node)

    def _find(self, path: bytes) -> bytes:
        """Return the path that is found by another; here it is the same."""
        return path

    def _below(self, parent: int, name: bytes) -> bytes:
        directory = self._paths[parent - ROOT]
        return directory + b"/" + name if directory else name

    def _attributes(self, node: int) -> bytes:
        content = self._files.get(self._paths[node - ROOT])
        mode = stat.S_IFDIR | 0o755 if content is None else stat.S_IFREG | 0o644
        size = len(content or b"")
        return ATTRIBUTES.pack(node, size, 1, *[CHANGED_S] * 3, *[0] * 3, mode, 1, 0, 0, 0, 4096, 0)

    def _read(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        return self._files[self._paths[node - ROOT]][offset : offset + size]

    def _list(self, parent: int, body: bytes) -> bytes:
        _, offset, _ = struct.unpack_from("<QQI", body)
        directory = self._paths[parent - ROOT]
        paths = sorted(
            path for path in self._entries if path.rpartition(b"/")[0] == directory and path
        )
        entries = b""
        for number, path in list(enumerate(paths))[offset:]:
            name = path.rpartition(b"/")[2]
            kind = stat.S_IFREG if path in self._files else stat.S_IFDIR
            node = self._paths.index(path) + ROOT
            entry = struct.pack("<QQII", node, number + 1, len(name), kind >> 12) + name
            entries += entry + bytes(-len(entry) % 8)
        return entries
