"""The write flow: files of a root become rows of an index. The only importer of CocoIndex.

Processes of four kinds meet here. `updater` is the daemon's end and never loads CocoIndex; `worker`
is the child it starts, and `app`, `feed`, `index_file`, `target`, `making` and `crew` run in that
child only. The crew are processes of the child, `mate`, for bulk work on other cores: they never
load CocoIndex either. Parsing is in neither of them but in bounded worker processes
(`boxed_parser`, `parser`). Deciding *what* changed is not here (`roots`), nor is SQL (`store`).
"""

import os

# CocoIndex reports usage from its first import on, and its runtime takes as many threads as there
# are processors, which then wait for the interpreter: with one, the child needs a tenth less for a
# switch of branches. This package is the only one that may import it, so these lines run before:
# one of the two effects that an import has in this project.
os.environ["COCOINDEX_DISABLE_USAGE_TRACKING"] = "1"
os.environ.setdefault("TOKIO_WORKER_THREADS", "1")
