"""A worker process answers requests; however a request ends it, the parent learns how."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import psutil
import pytest

from cocosearchd.sandbox.code_digest import installed_code_digest
from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.sandbox.worker_process import WorkerLost, WorkerProcess
from tests.sandbox.support import COMMAND

pytestmark = pytest.mark.anyio

LIMITS = ResourceLimits(address_space_bytes=256 << 20, request_cpu_s=1)


@asynccontextmanager
async def running(limits: ResourceLimits = LIMITS, code: str = "") -> AsyncIterator[WorkerProcess]:
    process = await WorkerProcess.start(COMMAND, code or installed_code_digest(), limits)
    life = asyncio.create_task(process.wait_closed())
    try:
        await process.wait_ready()
        yield process
    finally:
        process.stop()
        await life


async def evaluated(process: WorkerProcess, expression: str) -> object:
    return eval(await process.request(f"eval {expression}".encode(), 30.0))


async def test_requests_are_answered_in_order() -> None:
    async with running() as process:
        bodies = [str(number).encode() * number for number in range(50)]
        assert await asyncio.gather(*(process.request(body, 5.0) for body in bodies)) == [
            b[::-1] for b in bodies
        ]


@pytest.mark.parametrize(
    ("request_body", "reason"),
    [
        (b"memory", "256 MiB of memory"),
        (b"cpu", "1 s of CPU"),
        (b"abort", "SIGABRT"),
        (b"fault", "SIGSEGV"),
        (b"exit7", "exit code 7"),
        (b"sleep", "no answer within 0.5 s"),
    ],
)
async def test_a_harmful_request_ends_its_process_and_is_named(
    request_body: bytes, reason: str
) -> None:
    async with running() as process:
        deadline_s = 0.5 if request_body == b"sleep" else 50.0
        harmful = asyncio.create_task(process.request(request_body, deadline_s))
        await asyncio.sleep(0)
        next_one = asyncio.create_task(process.request(b"harmless", 50.0))
        with pytest.raises(WorkerLost, match=reason) as lost:
            await harmful
        assert lost.value.culprit
        assert lost.value.certain
        assert lost.value.missed_deadline == (request_body == b"sleep")
        with pytest.raises(WorkerLost) as lost:
            await next_one
        assert not lost.value.culprit, "the process had not begun with it"
        assert process.ended


async def test_a_kill_from_outside_is_not_certain() -> None:
    async with running() as process:
        answer = asyncio.create_task(process.request(b"sleep", 20.0))
        await asyncio.sleep(0.1)
        os.kill(process.process.pid, signal.SIGKILL)
        with pytest.raises(WorkerLost, match="SIGKILL") as lost:
            await answer
        assert not lost.value.certain


async def test_a_deadline_does_not_pass_while_the_machine_is_frozen() -> None:
    """The worker and its parent stop together, for longer than the deadline."""
    async with running() as process:
        answer = asyncio.create_task(process.request(b"eval __import__('time').sleep(0.2)", 4.0))
        await asyncio.sleep(0.1)
        os.kill(process.process.pid, signal.SIGSTOP)
        time.sleep(4.5)  # noqa: ASYNC251 - nothing else in this process runs either
        os.kill(process.process.pid, signal.SIGCONT)
        assert await answer == b"None"


async def test_cpu_is_bounded_by_request_and_not_by_life() -> None:
    """RLIMIT_CPU counts a whole life; a standing process has many requests."""
    spend = "[None for _ in iter(lambda: used_cpu_s() < {0} or None, None)][:0]"
    rest = "resource.getrlimit(resource.RLIMIT_CPU)[0] - used_cpu_s()"
    async with running() as process:
        for target in (0.8, 1.6, 2.4):
            await evaluated(process, spend.format(target))
            assert float(str(await evaluated(process, rest))) > 0.9
        assert float(str(await evaluated(process, "used_cpu_s()"))) > 2.3


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts ticks")
def test_cpu_is_counted_as_its_limit_counts_it() -> None:
    """A loop runs until the kernel ends it, and notes the CPU time as it goes on."""
    code = (
        "import resource, sys\n"
        "from cocosearchd.sandbox.limits import used_cpu_s\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\n"
        "while True: sys.stdout.write(f'{used_cpu_s()}\\n')\n"
    )
    ended = subprocess.run([sys.executable, "-u", "-c", code], capture_output=True, text=True)
    assert -ended.returncode in (signal.SIGXCPU, signal.SIGKILL)
    assert float(ended.stdout.splitlines()[-1]) == pytest.approx(1.0, abs=0.05)


async def test_the_kernel_holds_the_other_bounds() -> None:
    async with running(replace(LIMITS, open_files=32)) as process:
        limits = "__import__('resource').getrlimit(__import__('resource').RLIMIT_{0})"
        for name, value in {"CORE": 0, "FSIZE": 0, "NOFILE": 32, "AS": 256 << 20}.items():
            assert await evaluated(process, limits.format(name)) == (value, value), name
        status = "[l for l in open('/proc/self/status') if l.startswith('NoNewPrivs')]"
        assert await evaluated(process, status) == ["NoNewPrivs:\t1\n"]
        assert await evaluated(process, "open('/proc/self/oom_score_adj').read()") == "1000\n"


async def test_a_worker_has_no_handles_but_its_own() -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    async with running() as process:
        assert len(psutil.Process(process.process.pid).net_connections("unix")) == 1
        assert psutil.Process(process.process.pid).num_fds() == 4
    os.close(descriptor)


async def test_a_worker_of_other_code_takes_no_request() -> None:
    async with running(code="another version") as process:
        assert not await process.wait_ready()
        with pytest.raises(WorkerLost):
            await process.request(b"", 1.0)


async def test_a_worker_ends_with_its_parent() -> None:
    async with running() as process:
        child = psutil.Process(process.process.pid)
        process._writer.transport.abort()  # as the kernel does for a parent that was killed
        await process.process.wait()
        assert not child.is_running()
