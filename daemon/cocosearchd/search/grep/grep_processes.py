"""Grep processes: they read and match files in bounded worker processes."""

import sys
from collections.abc import Sequence
from functools import partial

from cocosearchd.errors import InvalidInput
from cocosearchd.sandbox.code_digest import installed_code_digest
from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.sandbox.worker_pool import PoolSize, WorkerPool
from cocosearchd.search.grep.grep_messages import GrepResult, GrepTask, unpack_response
from cocosearchd.search.grep.line_pattern import SYNTAX_HINT

COMMAND = (sys.executable, "-P", "-m", "cocosearchd.search.grep.grep_worker")
MAX_PROCESSES = 4
# A program of RE2 has at most 8 MiB, and a file is one of an index.
LIMITS = ResourceLimits(address_space_bytes=1 << 30, request_cpu_s=10)
TASK_S = 15.0  # wall time of a task
_SHOWN = 80  # characters of a pattern, or of an error, in a message


class GrepProcesses:
    """A pool of processes without a warm one: they end after a while without a request.

    For one event loop; `pool.aclose` ends them.
    """

    def __init__(self, count: int, command: Sequence[str] = COMMAND) -> None:
        self.count = min(MAX_PROCESSES, max(2, count))
        # A slow pattern leaves a process to quick ones.
        size = PoolSize(
            max_processes=self.count, idle_s=120.0, slow_after_s=1.0, max_slow=self.count - 1
        )
        self.pool = WorkerPool("grep", command, installed_code_digest(), LIMITS, size)

    async def search(self, task: GrepTask) -> GrepResult:
        """Search the files of a task.

        Raises `InvalidInput` for a pattern that is no expression, `WorkerLost` and
        `WorkerUnavailable`.
        """
        error, result = await self.pool.call(
            task.to_bytes(), TASK_S, partial(unpack_response, count=len(task.files))
        )
        if error:
            message = f"{_shorten(task.pattern.text)!r} is not a regular expression"
            raise InvalidInput(f"{message}: {_shorten(error)}", SYNTAX_HINT)
        return result


def _shorten(text: str) -> str:
    """Return the start of a text for a message; an error of RE2 may repeat the pattern."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
