"""The daemon: watches roots, keeps their indexes equal to the disk, answers from a warm process.

There are two flows over shared knowledge: `indexing` writes files into an index, `search` reads
answers from it. The flows never call each other. They meet in PostgreSQL (`store`) and in one integer,
the generation. Front ends (sockets, MCP, the command line) are in the package `cocosearch_ipc`.
"""

import gc
import os

# Matrix products have a few thousand rows, and PostgreSQL runs as well: a second thread of OpenBLAS
# only spins. Measured on 2 busy cores: a query takes 8.4 ms of CPU, with one thread 1.5 ms. NumPy reads
# this variable once, when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Modules make 94,000 objects that stay. With a threshold of 20,000 objects, collection during their
# loading took a fifteenth of the CPU of the start (measured). `interpreter.configure_interpreter`
# lowers the threshold after the loading.
gc.set_threshold(200_000)
