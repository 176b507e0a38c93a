"""The write flow: files of a root become rows of an index. The only importer of CocoIndex.

Two processes meet here. `updater` is the daemon's end and never loads CocoIndex; `worker` is the child it starts, and
`app`, `feed`, `index_file`, `target`, `making` and `chunk` run in that child only. Deciding *what* changed is not here
(`roots`), nor is SQL (`store`).
"""

import os

# CocoIndex reports usage from its first import on. This package is the only one that may import it, so this line runs
# before; it is the one effect an import has in this project.
os.environ["COCOINDEX_DISABLE_USAGE_TRACKING"] = "1"
