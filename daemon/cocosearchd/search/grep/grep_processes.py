"""The pool of worker processes that read and match files for `grep`."""

import sys
from functools import partial

from cocosearchd.errors import InvalidInput
from cocosearchd.sandbox.code_digest import installed_code_digest
from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.sandbox.worker_pool import PoolSize, WorkerPool
from cocosearchd.search.grep.grep_messages import GrepResult, GrepTask, unpack_response
from cocosearchd.search.grep.line_pattern import SYNTAX_HINT

COMMAND = (sys.executable, "-P", "-m", "cocosearchd.search.grep.grep_worker")
MAX_PROCESSES = 4
# A compiled RE2 program takes at most 8 MiB; files are limited to the sizes that an index accepts.
LIMITS = ResourceLimits(address_space_bytes=1 << 30, request_cpu_s=10)
TASK_S = 15.0  # wall time of a task
_SHOWN = 80  # characters of a pattern, or of an error, in a message


class GrepProcesses:
    """A pool of grep processes. No process stays warm: each ends after a while without a request.

    For one event loop; `pool.aclose` ends the processes.
    """

    def __init__(self, count: int) -> None:
        self.count = min(MAX_PROCESSES, max(2, count))
        # Slow patterns always leave one process free for quick patterns.
        size = PoolSize(
            max_processes=self.count, idle_s=120.0, slow_after_s=1.0, max_slow=self.count - 1
        )
        self.pool = WorkerPool("grep", COMMAND, installed_code_digest(), LIMITS, size)

    async def search(self, task: GrepTask) -> GrepResult:
        """Search the files of a task.

        Raises `InvalidInput` for an invalid expression, `WorkerLost` and `WorkerUnavailable`.
        """
        error, result = await self.pool.call(
            task.to_bytes(), TASK_S, partial(unpack_response, count=len(task.paths))
        )
        if error:
            message = f"{_shorten(task.pattern.text)!r} is not a regular expression"
            raise InvalidInput(f"{message}: {_shorten(error)}", SYNTAX_HINT)
        return result


def _shorten(text: str) -> str:
    """Return the start of a text for a message: an RE2 error may repeat the whole pattern."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
