"""A worker process whose handler does what a request says."""

import sys

# `{act}` sees the request as `body` and returns a response.
SCRIPT = """
import os, resource, signal, sys, time
from cocosearchd.sandbox.limits import used_cpu_s
from cocosearchd.sandbox.worker_loop import run_worker
def handler(body):
    what = body.decode()
    if what == "memory":
        bombs = [bytearray(1 << 24) for _ in range(1 << 12)]
    if what == "cpu":
        while True:
            pass
    if what == "sleep":
        time.sleep(60)
    if what == "abort":
        os.abort()
    if what == "fault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what.startswith("exit"):
        os._exit(int(what.removeprefix("exit")))
    if what.startswith("eval "):
        return repr(eval(what.removeprefix("eval "))).encode()
    return body[::-1]
run_worker(lambda: handler)
"""
COMMAND = (sys.executable, "-P", "-c", SCRIPT)
