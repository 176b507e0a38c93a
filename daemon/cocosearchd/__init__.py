"""The daemon: watch roots, keep their indexes equal to the disk, answer from a warm process.

Two flows over shared knowledge: `indexing` writes files into an index, `search` reads answers out
of it. They never call each other; they meet in PostgreSQL (`store`) and in one integer, the
generation. Front ends (sockets, MCP, the command line) are not here: see the package
`cocosearch_ipc`.
"""

import gc
import os

# Products of some thousand rows, beside PostgreSQL: a second thread of OpenBLAS only spins. Measured
# on 2 busy cores: 8.4 ms of CPU for a query, 1.5 ms with one thread. NumPy reads it once, when it is
# loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Modules are 94,000 objects that stay: collection while they are loaded took a fifteenth of the CPU
# of the start with a threshold of 20,000 objects (measured). `interpreter.configure_interpreter`
# lowers the threshold when they are loaded.
gc.set_threshold(200_000)
