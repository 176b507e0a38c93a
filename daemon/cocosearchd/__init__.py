"""The daemon: watches roots, keeps their indexes equal to the disk, answers from the warm process.

Two flows over shared knowledge: `indexing` writes files into an index, `search` reads answers out of it. They never
call each other; they meet in PostgreSQL (`store`) and in one integer, the generation. Front ends (sockets, MCP, the
command line) are not here: see the package `cocosearch_ipc`.
"""

import os

# Products of some thousand rows, side by side with PostgreSQL: a second thread of OpenBLAS only waits, at full speed.
# Measured on 2 busy cores: 8.4 ms of CPU for a question, 1.5 ms with one thread. It is read once, when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
