"""What CocoIndex runs for a file that changed: it says what the rows of the file are to be made of.

They are made later, by `making`, and only if CocoIndex remembers that they were made of something else. Vectors are
remembered by their texts, in `embedding.remembering`, so a changed file embeds only its changed chunks.
"""

import hashlib
from collections.abc import Callable

import cocoindex as coco

from cocosearchd.embedding.base import Embedder
from cocosearchd.indexing.boxed_parser import BoxedParser
from cocosearchd.indexing.crew import Crew
from cocosearchd.indexing.making import Maker, Rules
from cocosearchd.indexing.outlines import Outlines
from cocosearchd.indexing.read import SourceFile
from cocosearchd.indexing.set_aside import SetAside
from cocosearchd.indexing.target import FileTarget, WantedFile
from cocosearchd.indexing.threads import Threads

Guard = Callable[[str], None]


class Tools:
    """What the files of one index are processed with."""

    def __init__(
        self,
        rules: Rules,
        embedder: Embedder,
        target: FileTarget,
        guard: Guard,
        outlines: Outlines,
        parser: BoxedParser,
        crew: Crew,
        set_aside: SetAside,
    ) -> None:
        """`guard` is called with each path before it is parsed; see `WorkerSpec.crash_on`."""
        self.rules, self.target, self.guard, self.set_aside = rules, target, guard, set_aside
        self.threads = Threads(target.precedence)
        self.make = Maker(rules, embedder, outlines, target.precedence, self.threads, parser, crew)
        shaping = f"{rules!r} {embedder.fingerprint.digest()}"
        # The same in every process for rules and an embedder that make the same rows.
        self.key = hashlib.blake2b(shaping.encode(), digest_size=16).digest()


@coco.fn  # not memoised: what memory there is of a file is its cause, and another one costs two transactions a file
async def index_file(source: SourceFile, tools: Tools) -> None:
    """Declare the rows of a file by all that shapes them."""
    tools.guard(source.path)
    cause = (source.content_hash, source.force, tools.key)
    tools.target.declare(tools.rules.index, WantedFile(source, cause))
