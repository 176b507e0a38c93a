"""Verbs about the daemon itself: down, restart, version, logs."""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.running import daemon_process, service_manager
from cocosearch_ipc.render import output

Env = Mapping[str, str]


def down(args: argparse.Namespace, env: Env) -> int:
    """Stop the daemon. It is no error if none runs."""
    pid = daemon_process.stop(env, output.note)
    if args.json:
        output.document({"stopped": pid is not None, "pid": pid})
    else:
        output.line(
            "cocosearchd is not running" if pid is None else f"cocosearchd (pid {pid}) has stopped"
        )
    return exits.OK


def restart(args: argparse.Namespace, env: Env) -> int:
    """Stop the daemon, if one runs, and start the installed one."""
    pid = daemon_process.stop(env, output.note)
    daemon_process.ensure_running(env, output.note)
    reply = client.call(address.rpc_socket(env), "status")
    daemon_process.warn_of_trouble(reply, output.note)
    if args.json:
        output.document({"stopped": pid, "pid": reply["pid"], "version": reply["version"]})
    else:
        output.line(f"cocosearchd {reply['version']} runs (pid {reply['pid']})")
    return exits.OK


def version(args: argparse.Namespace, env: Env) -> int:
    """Print the version of this program, and that of a running daemon."""
    running = None
    if client.reachable(address.rpc_socket(env)):
        running = client.call(address.rpc_socket(env), "status")["version"]
    if args.json:
        output.document({"cocosearchctl": client.VERSION, "cocosearchd": running})
    else:
        output.line(f"cocosearchctl {client.VERSION}")
        output.line(f"cocosearchd {running}" if running else "cocosearchd is not running")
        if running not in (None, client.VERSION):
            output.note(f"hint: {client.upgrade(running)}")
    return exits.OK


def logs(args: argparse.Namespace, env: Env) -> int:
    """Print the daemon's log: systemd's journal for a service, else the log file.

    `-f` follows the log.
    """
    path = Path(address.log_file(env))
    journal = service_manager.journal(env, args.lines, follow=args.follow)
    if journal is None and not path.exists():
        output.error(
            f"there is no log at {path}",
            "start the daemon: cocosearchctl up PATH",
            as_json=args.json,
        )
        return exits.FAILED
    style = output.Style.of(sys.stdout, env)
    for line in (
        _journal_lines(journal) if journal else _file_lines(path, args.lines, follow=args.follow)
    ):
        output.line(line if args.json else readable(line, style))
        output.flush()
    return exits.OK


def _journal_lines(command: Sequence[str]) -> Iterator[str]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield line.rstrip("\n")


def _file_lines(path: Path, count: int, *, follow: bool) -> Iterator[str]:
    """Yield the last `count` lines, of at most a megabyte; with `follow`, also new lines.

    It continues with the new file after a log rotation.
    """
    with path.open("rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - (1 << 20)))
        yield from _text(stream.read()).splitlines()[-count:] if count > 0 else ()
        yield from _new_lines(path, stream) if follow else ()
    while follow:
        with path.open("rb") as stream:
            yield from _new_lines(path, stream)


def _new_lines(path: Path, stream: BinaryIO) -> Iterator[str]:
    """Yield new lines of the log until another file has its name.

    It starts again at the top after the daemon has truncated the file.
    """
    rest = b""
    while True:
        is_rotated = path.exists() and not os.path.samestat(path.stat(), os.fstat(stream.fileno()))
        if stream.tell() > os.fstat(stream.fileno()).st_size:
            stream.seek(0)
        *lines, rest = (rest + stream.read()).split(b"\n")
        yield from map(_text, lines)
        if is_rotated and not lines:
            return
        time.sleep(0 if lines else 0.2)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def readable(line: str, style: output.Style) -> str:
    """Format a JSON log record as `time level event key=value ...`.

    Other lines stay as they are, without control characters.
    """
    try:
        record = json.loads(line)
        stamp = record.pop("timestamp", "")
        level = output.printable(str(record.pop("level", "")), keep="")
        event = record.pop("event", "")
    except (ValueError, AttributeError, TypeError):
        return output.printable(line, keep="\t")
    colour = {"error": output.RED, "critical": output.RED, "warning": output.YELLOW}.get(
        level, output.DIM
    )
    rest = " ".join(f"{key}={value}" for key, value in record.items() if key != "exception")
    return (
        output.printable(f"{str(stamp)[:19]} ", keep="")
        + style.paint(f"{level:<8}", colour)
        + output.printable(f"{event} {rest}".rstrip(), keep="")
    )
