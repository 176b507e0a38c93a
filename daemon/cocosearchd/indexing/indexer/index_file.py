"""The CocoIndex function of a changed file: it declares the cause of the file's rows.

`row_maker` makes the rows later, and only if CocoIndex remembers another cause. Vectors are cached
by their texts, in `embedding.caching`, so a changed file embeds only its changed chunks.
"""

from collections.abc import Callable

import cocoindex as coco

from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.caching import ReuseCounters
from cocosearchd.indexing.indexer.index_threads import IndexThreads
from cocosearchd.indexing.indexer.row_maker import RowMaker, RowRules
from cocosearchd.indexing.indexer.row_target import FileTarget, WantedFile
from cocosearchd.indexing.indexer.set_aside import SetAside
from cocosearchd.indexing.pipeline.content_keys import ContentKeys
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.indexing.pipeline.manifest_cache import ManifestCache
from cocosearchd.indexing.pool.boxed_parser import BoxedParser
from cocosearchd.indexing.pool.bulk_pool import BulkPool

Guard = Callable[[str], None]


class FileTools:
    """The objects that process the files of one index."""

    def __init__(
        self,
        rules: RowRules,
        embedder: Embedder,
        target: FileTarget,
        guard: Guard,
        keys: ContentKeys,
        manifests: ManifestCache,
        counters: ReuseCounters,
        parser: BoxedParser,
        bulk_pool: BulkPool,
        set_aside: SetAside,
    ) -> None:
        """`guard` is called with each path before it is processed; see `IndexerSpec.crash_on`."""
        self.rules = rules
        self.target = target
        self.guard = guard
        self.set_aside = set_aside
        self.threads = IndexThreads(target.work_priority)
        self.make = RowMaker(
            rules,
            embedder,
            keys,
            manifests,
            counters,
            work_priority=target.work_priority,
            threads=self.threads,
            parser=parser,
            bulk_pool=bulk_pool,
        )


# Not memoised: CocoIndex already remembers a file by its cause, and a memo would cost two further
# transactions for each file.
@coco.fn
async def index_file(source: SourceFile, tools: FileTools) -> None:
    """Declare the rows of a file by all inputs that shape them."""
    tools.guard(source.path)
    cause = (source.content_hash, source.force, tools.make.rules_digest)
    tools.target.declare(tools.rules.index, WantedFile(source, cause))
