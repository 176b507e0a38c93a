"""Memory that bulk work has freed returns to the system."""

import ctypes
import subprocess
import sys

import pytest

# In a process of its own: what others have allocated would lie between.
SCRIPT = """
import random
from cocosearchd.runtime.interpreter import return_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

dice = random.Random(1)
held = [bytes(dice.randrange(1000, 20000)) for _ in range(12000)]
dice.shuffle(held)
full = resident()
del held[600:]
kept = resident()
return_memory()
print(full, kept, resident())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
def test_freed_memory_is_given_back() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    full, retained, after = map(int, run.stdout.split())
    assert retained > 0.8 * full  # else there is nothing to be seen here
    assert after < 0.5 * full
