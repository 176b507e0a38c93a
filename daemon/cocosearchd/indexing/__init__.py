"""The write flow: files of a root become rows of an index. The only importer of CocoIndex.

Processes of four kinds meet here. `coordinator` is the daemon's side and never loads CocoIndex. It
starts the indexer process, the only one that runs `worker`. The indexer process starts bulk workers
(`pool.bulk_worker`) for bulk work on other cores; they never load CocoIndex. It also starts parser
processes with resource limits (`pool.parser_worker`). It parses no file itself. Change detection is
in `watching`, SQL in `store`.
"""

import os

# CocoIndex reports usage from its first import on. Its runtime starts one thread per processor, and
# these threads wait for the interpreter: with one thread, the indexer process needs a tenth less time
# for a switch of branches. Only this package may import CocoIndex, so these lines run before that
# import. They are one of the two import effects of this project.
os.environ["COCOINDEX_DISABLE_USAGE_TRACKING"] = "1"
os.environ.setdefault("TOKIO_WORKER_THREADS", "1")
