"""How Python shares its time between threads and looks for garbage: the same in the daemon and in its child."""

import gc
import sys

# Between two threads that compute. What a person has just saved goes from thread to thread a dozen times, and each time
# waits for the interpreter; Python's 5 ms make that a tenth of a second beside two threads of bulk work.
SWITCH_S = 0.001
# A file is thousands of objects and a question some thousand, with hardly a cycle: by the default of 700, looking for
# some took 5 % of the time of indexing and nearly a tenth of a cold answer (measured).
YOUNG_OBJECTS = 20_000


def prepare() -> None:
    """To be called once, when the modules of the process are loaded."""
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()  # modules are there for good
    gc.set_threshold(YOUNG_OBJECTS)
