"""The daemon: watches roots, keeps their indexes equal to the disk, answers from the warm process.

Two flows over shared knowledge: `indexing` writes files into an index, `search` reads answers out
of it. They never call each other; they meet in PostgreSQL (`store`) and in one integer, the
generation. Front ends (sockets, MCP, the command line) are not here: see the package
`cocosearch_ipc`.
"""

import gc
import os

# Products of some thousand rows, side by side with PostgreSQL: a second thread of OpenBLAS only
# waits, at full speed. Measured on 2 busy cores: 8.4 ms of CPU for a question, 1.5 ms with one
# thread. It is read once, when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A file is thousands of objects and a question some thousand, with hardly a cycle: by the default
# of 700, looking for some took 5 % of the time of indexing and nearly a tenth of a cold answer
# (measured). Modules are 94,000 objects that stay: looking among them while they are loaded took a
# tenth of the CPU of that, and a sixth in a worker (measured).
YOUNG_OBJECTS = 20_000
gc.set_threshold(YOUNG_OBJECTS)
