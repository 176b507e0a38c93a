"""Files that one process has mapped for writing and shares with others, as Linux tells them.

Linux 6.11 finds mappings of a kind itself (PROCMAP_QUERY, `linux/fs.h`). Before, all mappings of a
process have to be read as text, which takes four times the CPU.
"""

import errno
import fcntl
import os
import struct
from array import array
from collections.abc import Iterator

_PATH_MAX = 4096  # `linux/limits.h`, with the final zero
_READ_BYTES = 1 << 16
_SHARED = b" rw-s "  # proc_pid_maps(5): readable and writable, and shared with other processes

# struct procmap_query: size, query_flags, query_addr, ..., vma_name_size, ..., vma_name_addr, ...
_QUERY = struct.Struct("=3Q56xI4xQ8x")
_ANSWER = struct.Struct("=32xQ40xI20x")  # vma_end and vma_name_size of the same
_PROCMAP_QUERY = 3 << 30 | _QUERY.size << 16 | ord("f") << 8 | 17  # _IOWR('f', 17, ...)
# VMA_WRITABLE, VMA_SHARED, COVERING_OR_NEXT_VMA, FILE_BACKED_VMA
_FLAGS = 0x02 | 0x08 | 0x10 | 0x20


def shared_mappings(maps: str) -> tuple[bytes, ...]:
    """Return the absolute paths of files that a process has mapped so, from its `/proc/PID/maps`.

    A path may repeat. Empty for a process of another user, for one that is gone, and for threads of
    the kernel. Blocking.
    """
    try:
        handle = os.open(maps, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ()
    try:
        return tuple(_query_mappings(handle))
    except OSError as error:
        return () if error.errno == errno.ESRCH else tuple(_parse_mappings(handle))
    finally:
        os.close(handle)


def _query_mappings(handle: int) -> Iterator[bytes]:
    """Ask for one mapping after the other. Raises `OSError`: ENOTTY before Linux 6.11."""
    name = array("B", bytes(_PATH_MAX))
    address, _ = name.buffer_info()
    start = 0
    while True:
        query = bytearray(_QUERY.pack(_QUERY.size, _FLAGS, start, _PATH_MAX, address))
        try:
            fcntl.ioctl(handle, _PROCMAP_QUERY, query)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return
            raise
        start, name_size = _ANSWER.unpack(query)
        path = name[: max(0, name_size - 1)].tobytes()
        if path.startswith(b"/"):
            yield path


def _parse_mappings(handle: int) -> Iterator[bytes]:
    try:
        content = b"".join(iter(lambda: os.read(handle, _READ_BYTES), b""))
    except OSError:  # the process has ended
        return
    if _SHARED not in content:
        return
    for line in content.split(b"\n"):
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[1] == b"rw-s" and fields[5].startswith(b"/"):
            yield fields[5].replace(rb"\012", b"\n")
