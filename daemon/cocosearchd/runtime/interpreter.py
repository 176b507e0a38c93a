"""Tunes the interpreter of each process: thread switches, garbage collection, freed memory."""

import ctypes
import gc
import sys

# Switch interval between threads that compute. A file that was just saved goes from thread to thread
# a dozen times, and waits for the interpreter each time. With Python's 5 ms this takes a tenth of a
# second while two threads do bulk work.
SWITCH_S = 0.001
# Indexing a file makes thousands of objects, a query about a thousand, and hardly any cycle. With the
# default of 700 objects, garbage collection took 5 % of the time of indexing and nearly a tenth of a
# cold answer (measured).
YOUNG_OBJECTS = 20_000
# Heaps of the C library, each with a lock (mallopt(3), M_ARENA_MAX). By default there are eight for
# each core, and each retains freed memory between used blocks. Few heaps suffice: most of the daemon's
# threads, up to 64, wait.
ARENAS = 2
_M_ARENA_MAX = -8


def configure_interpreter() -> None:
    """Tune this process; call it once, when its modules are loaded."""
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()  # modules stay until the end
    gc.set_threshold(YOUNG_OBJECTS)
    limit_arenas = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit_arenas is not None:
        limit_arenas(_M_ARENA_MAX, ARENAS)


def collect_and_return_memory() -> None:
    """Collect all garbage, then return freed memory; call it after the release of large objects.

    This blocks all threads for a millisecond per 10,000 objects that can be part of a cycle
    (measured).
    """
    gc.collect()
    return_memory()


def return_memory() -> None:
    """Return freed memory to the system; call it after bulk work. Do nothing without glibc.

    glibc retains free memory between used blocks: 330 of 850 MiB after a switch of 6,600 files
    (measured). Returning this much takes about 50 ms, without the interpreter's lock; it takes 1 ms
    if there is nothing to return.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
