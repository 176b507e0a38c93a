"""What CocoIndex runs for a file that changed: it says what the rows of the file are to be made of.

They are made later, by `making`, and only if CocoIndex remembers that they were made of something
else. Vectors are remembered by their texts, in `embedding.caching`, so a changed file embeds only
its changed chunks.
"""

import hashlib
from collections.abc import Callable

import cocoindex as coco

from cocosearchd.embedding.base import Embedder
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.indexing.pipeline.parse_cache import ParseCache
from cocosearchd.indexing.pool.boxed_parser import BoxedParser
from cocosearchd.indexing.pool.bulk_pool import BulkPool
from cocosearchd.indexing.worker.index_threads import IndexThreads
from cocosearchd.indexing.worker.row_maker import RowMaker, RowRules
from cocosearchd.indexing.worker.row_target import FileTarget, WantedFile
from cocosearchd.indexing.worker.set_aside import SetAside

Guard = Callable[[str], None]


class FileTools:
    """What the files of one index are processed with."""

    def __init__(
        self,
        rules: RowRules,
        embedder: Embedder,
        target: FileTarget,
        guard: Guard,
        outlines: ParseCache,
        parser: BoxedParser,
        crew: BulkPool,
        set_aside: SetAside,
    ) -> None:
        """`guard` is called with each path before it is parsed; see `IndexerSpec.crash_on`."""
        self.rules, self.target, self.guard, self.set_aside = rules, target, guard, set_aside
        self.threads = IndexThreads(target.work_priority)
        self.make = RowMaker(
            rules, embedder, outlines, target.work_priority, self.threads, parser, crew
        )
        shaping = f"{rules!r} {embedder.fingerprint.digest()}"
        # The same in every process for rules and an embedder that make the same rows.
        self.key = hashlib.blake2b(shaping.encode(), digest_size=16).digest()


# not memoised: what memory there is of a file is its cause, and another one costs two transactions
# a file
@coco.fn
async def index_file(source: SourceFile, tools: FileTools) -> None:
    """Declare the rows of a file by all that shapes them."""
    tools.guard(source.path)
    cause = (source.content_hash, source.force, tools.key)
    tools.target.declare(tools.rules.index, WantedFile(source, cause))
