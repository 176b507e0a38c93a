"""`top`: a live view of the daemon, redrawn every second until Ctrl-C; on a pipe, one frame."""

import argparse
import shutil
import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits
from cocosearch_ipc.render import live, out

HISTORY = 60
ENTER, LEAVE, HOME = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l", "\x1b[H"


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Draw until interrupted. A daemon that goes away is waited for."""
    path, style = address.rpc_socket(env), out.Style.of(sys.stdout, env)
    status = client.call(path, "status", timeout_s=10.0)
    if args.json:
        out.document(status)
        return exits.OK
    if not style.links:
        for line in live.frame(status, None, (), style):
            out.line(line)
        return exits.OK
    sys.stdout.write(ENTER)
    try:
        _draw(path, style, args.interval)
    except KeyboardInterrupt:
        return exits.OK
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()
    return exits.OK


def _draw(path: str, style: out.Style, interval_s: float) -> None:
    latencies: deque[float] = deque(maxlen=HISTORY)
    before: dict[str, Any] | None = None
    while True:
        began = time.perf_counter()
        try:
            now = client.call(path, "status", timeout_s=10.0)
        except client.CallFailed as failed:
            lines = [style.paint(f"{failed.message}; {failed.hint}", out.RED)]
        else:
            latencies.append((time.perf_counter() - began) * 1000)
            lines = list(live.frame(now, before, latencies, style))
            before = now
        rows = shutil.get_terminal_size().lines
        sys.stdout.write(HOME + "".join(f"{line}\x1b[K\n" for line in lines[: rows - 1]) + "\x1b[J")
        sys.stdout.flush()
        time.sleep(interval_s)
