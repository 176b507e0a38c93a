"""How Python shares its time between threads, looks for garbage and gives memory back, in each
process.
"""

import ctypes
import gc
import sys

# Between two threads that compute. What a person has just saved goes from thread to thread a dozen
# times, and each time waits for the interpreter; Python's 5 ms make that a tenth of a second beside
# two threads of bulk work.
SWITCH_S = 0.001
# Heaps of the C library, which are a lock each: by default eight for each core, of which each keeps
# what lies between living blocks (mallopt(3), M_ARENA_MAX). The daemon has up to 64 threads, and
# most of them wait.
ARENAS, _M_ARENA_MAX = 2, -8


def configure_interpreter() -> None:
    """To be called once, when the modules of the process are loaded."""
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()  # modules are there for good
    limit_arenas = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit_arenas is not None:
        limit_arenas(_M_ARENA_MAX, ARENAS)


def collect_and_return_memory() -> None:
    """As `return_memory`, after a look for garbage among all objects: for when something large has been
    let go of.

    It holds the interpreter for a millisecond per 10,000 objects that can be part of a cycle
    (measured).
    """
    gc.collect()
    return_memory()


def return_memory() -> None:
    """Return freed memory to the system, for when bulk work has ended; where the C library is not
    glibc, nothing.

    glibc keeps what lies between living blocks: of 850 MiB after a switch of 6,600 files 330 MiB
    (measured). It takes some 50 ms for as much, without the interpreter's lock, and 1 ms where
    there is nothing.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
