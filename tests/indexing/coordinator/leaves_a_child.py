"""Plays an indexer that a `kill -9` ends while it starts a worker: its child holds all of its files.

python -m tests.indexing.coordinator.leaves_a_child DESCRIPTOR PARENT
"""

import os
import signal
import time

if os.fork() == 0:
    time.sleep(600)
os.kill(os.getpid(), signal.SIGKILL)
