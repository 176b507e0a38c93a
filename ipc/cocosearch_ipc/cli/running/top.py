"""`top`: a live view of the daemon, redrawn every second until Ctrl-C or `q`; on a pipe, one
frame.
"""

import argparse
import contextlib
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator, Mapping

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits
from cocosearch_ipc.render import output, top_frames

# A screen of its own, without a cursor; lines that are too long end at its edge.
ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
HOME = "\x1b[H"
SIZES_EVERY_S = 10.0  # counting an index is work for PostgreSQL


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Draw until interrupted. A daemon that goes away is waited for."""
    path = address.rpc_socket(env)
    style = output.Style.of(sys.stdout, env)
    status = client.call(path, "status", timeout_s=10.0)
    if args.json:
        output.document(status)
        return exits.OK
    if not style.links:
        for line in top_frames.frame(
            status, top_frames.FrameState(sizes=_sizes(path, status)), style
        ):
            output.line(line)
        return exits.OK
    sys.stdout.write(ENTER)
    try:
        with _single_keys():
            _draw(path, style, max(0.05, args.interval))
    except KeyboardInterrupt:
        return exits.OK
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()
    return exits.OK


def _draw(path: str, style: output.Style, interval_s: float) -> None:
    seen = top_frames.FrameState()
    counted_at = -SIZES_EVERY_S
    while True:
        try:
            now = client.call(path, "status", timeout_s=10.0)
            if time.monotonic() - counted_at >= SIZES_EVERY_S:
                seen.sizes = _sizes(path, now)
                counted_at = time.monotonic()
        except client.CallFailed as failed:
            lines = [style.paint(f"{failed.message}; {failed.hint}", output.RED)]
        else:
            lines = list(top_frames.frame(now, seen, style))
            seen.next(now)
        rows = shutil.get_terminal_size().lines
        lines.append(style.paint("q leaves", output.DIM))
        sys.stdout.write(HOME + "".join(f"{line}\x1b[K\n" for line in lines[: rows - 1]) + "\x1b[J")
        sys.stdout.flush()
        if _pressed(interval_s) in ("q", "Q", "\x1b"):
            return


def _sizes(path: str, status: dict[str, object]) -> dict[str, int]:
    """Bytes in PostgreSQL, by index; without those that cannot be counted now."""
    found = dict[str, int]()
    indexes = status["indexes"]
    assert isinstance(indexes, list)
    for index in indexes:
        asked = {"index": index["name"], "sync_timeout_ms": 0}
        with contextlib.suppress(client.CallFailed):
            found[index["name"]] = client.call(path, "index_stats", asked, 10.0)["size_bytes"]
    return found


@contextlib.contextmanager
def _single_keys() -> Iterator[None]:
    """Keys come without Enter, and are not shown; where standard input is no terminal, none
    come.
    """
    if not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _pressed(wait_s: float) -> str:
    """The key pressed within `wait_s`, or nothing."""
    if not sys.stdin.isatty():
        time.sleep(wait_s)
        return ""
    return sys.stdin.read(1) if select.select([sys.stdin], [], [], wait_s)[0] else ""
