"""A stand-in for an indexer process that `kill -9` ends while it starts a worker, which keeps its
files open.

python -m tests.indexing.coordinator.leaves_a_child DESCRIPTOR PARENT
"""

import os
import signal
import time

if os.fork() == 0:
    time.sleep(600)
os.kill(os.getpid(), signal.SIGKILL)
