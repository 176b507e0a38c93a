"""The daemon's parser: a worker process that parses unsaved text.

Native code that crashes or hangs ends only that process. It starts with the first text, and ends
after some time without one.
"""

from collections.abc import Sequence
from functools import partial

from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pool.boxed_parser import PARSER_LIMITS, parser_command
from cocosearchd.indexing.pool.parse_task import (
    ParseFile,
    ParseRequest,
    ParseResult,
    pack_request,
    unpack_response,
)
from cocosearchd.languages.parse import QueryOverrides
from cocosearchd.sandbox.code_digest import installed_code_digest
from cocosearchd.sandbox.worker_pool import PoolSize, WorkerPool
from cocosearchd.sandbox.worker_process import WorkerLost, WorkerUnavailable

COMMAND = parser_command("definitions")
PARSER_IDLE_S = 60.0  # longer than pauses in typing: a process takes 0.15 s of CPU to start
DEADLINE_S = 20.0  # for one text: a parser gives up after three seconds of CPU


class OverlayParser:
    """At most one process with one text at a time: a crash names its text. For one event loop."""

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        deadline_s: float = DEADLINE_S,
        idle_s: float = PARSER_IDLE_S,
    ) -> None:
        self._deadline_s = deadline_s
        self._pool = WorkerPool(
            "overlay parser",
            command,
            installed_code_digest(),
            PARSER_LIMITS,
            PoolSize(idle_s=idle_s),
        )

    async def parse(
        self, path: str, language: str, data: bytes, limits: ChunkLimits, overrides: QueryOverrides
    ) -> ParseResult | None:
        """Return the parsed file of a text; None if it ends its process or misses the deadline."""
        request = ParseRequest(limits, overrides, (ParseFile(path, language, data),), rehearse=True)
        try:
            (result,) = await self._pool.call(
                pack_request(request), self._deadline_s, partial(unpack_response, count=1)
            )
        except (WorkerLost, WorkerUnavailable):
            return None
        return result

    async def aclose(self) -> None:
        """End the process."""
        await self._pool.aclose()
