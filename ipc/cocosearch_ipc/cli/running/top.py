"""`top`: a live view of the daemon, redrawn until Ctrl-C or `q`; on a pipe, one frame."""

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

# The alternate screen, without a cursor and without line wrapping.
ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
HOME = "\x1b[H"
SIZES_EVERY_S = 10.0  # counting an index is work for PostgreSQL


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Draw until interrupted. If the daemon stops, wait for the next one."""
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
    state = top_frames.FrameState()
    counted_at = -SIZES_EVERY_S
    while True:
        try:
            status = client.call(path, "status", timeout_s=10.0)
            if time.monotonic() - counted_at >= SIZES_EVERY_S:
                state.sizes = _sizes(path, status)
                counted_at = time.monotonic()
        except client.CallFailed as failed:
            lines = [style.paint(f"{failed.message}; {failed.hint}", output.RED)]
        else:
            lines = list(top_frames.frame(status, state, style))
            state.next(status)
        rows = shutil.get_terminal_size().lines
        lines.append(style.paint("press q to quit", output.DIM))
        sys.stdout.write(HOME + "".join(f"{line}\x1b[K\n" for line in lines[: rows - 1]) + "\x1b[J")
        sys.stdout.flush()
        if _read_key(interval_s) in ("q", "Q", "\x1b"):
            return


def _sizes(path: str, status: dict[str, object]) -> dict[str, int]:
    """Return the PostgreSQL bytes of each index; omit indexes that cannot be counted now."""
    sizes = dict[str, int]()
    indexes = status["indexes"]
    assert isinstance(indexes, list)
    for index in indexes:
        params = {"index": index["name"], "sync_timeout_ms": 0}
        with contextlib.suppress(client.CallFailed):
            sizes[index["name"]] = client.call(path, "index_stats", params, 10.0)["size_bytes"]
    return sizes


@contextlib.contextmanager
def _single_keys() -> Iterator[None]:
    """Read keys without Enter and without echo; on a pipe, read no keys."""
    if not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    attributes = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, attributes)


def _read_key(wait_s: float) -> str:
    """Return the key pressed within `wait_s`, or ""."""
    if not sys.stdin.isatty():
        time.sleep(wait_s)
        return ""
    return sys.stdin.read(1) if select.select([sys.stdin], [], [], wait_s)[0] else ""
