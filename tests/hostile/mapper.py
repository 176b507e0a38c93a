"""A process that maps a file for writing, closes its descriptor, and stores through the mapping
when it is told to.
"""

import contextlib
import ctypes
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


class Mapper:
    """The process; `store` returns when the bytes are in the file."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def store(self, text: str) -> None:
        """Write a text without line ends at the start of the file."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()
        self.wait()

    def wait(self) -> None:
        """Until it has done what it was told to."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "done\n"


@contextlib.contextmanager
def mapping(path: Path) -> Iterator[Mapper]:
    """A running process with the file mapped; at the end it has exited, and its mapping with it."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, __file__, path], stdin=pipe, stdout=pipe, text=True
    ) as process:
        mapper = Mapper(process)
        mapper.wait()
        yield mapper


def main(path: str) -> None:
    """Map the file at `path`, then store each line of the standard input."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    handle = os.open(path, os.O_RDWR)
    # Python's own `mmap` keeps a descriptor of its own open.
    start = library.mmap(
        None, os.fstat(handle).st_size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, handle, 0
    )
    os.close(handle)
    print("done", flush=True)
    for line in sys.stdin:
        text = line.rstrip("\n").encode()
        ctypes.memmove(start, text, len(text))
        print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
