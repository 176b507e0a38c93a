"""`config` shows and tests the settings; `init` writes a template for a project."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits, program
from cocosearch_ipc.cli.answer_output import print_answer
from cocosearch_ipc.cli.setup import doctor
from cocosearch_ipc.cli.setup.safe_folder import SafeFolder
from cocosearch_ipc.render import output, settings_table

Env = Mapping[str, str]

LONG_S = 90.0  # an embedder may have to load a model
FILE = "cocosearch.yaml"
# The machine's findings about watching; `doctor` prints all others.
_WATCHING = ("inotify watches", "inotify instances", "open files")


def run(args: argparse.Namespace, env: Env) -> int:
    """Run `show` or `check`."""
    return show(args, env) if args.what == "show" else check(args, env)


def show(args: argparse.Namespace, env: Env) -> int:
    """Print every setting with its source, from the daemon.

    Without a daemon, print the settings that it would start with.
    """
    params = {"cwd": os.getcwd()} | ({"index": args.index} if args.index else {})
    try:
        reply = client.call(address.rpc_socket(env), "config", params)
    except client.CallFailed as failed:
        if not failed.reason or args.index:
            raise
        reply = _ask_program(env, "--show-settings")
    return print_answer(args, env, reply, settings_table.values)


def check(args: argparse.Namespace, env: Env) -> int:
    """Read every layer again; test listener, database, embedder and limits; 78 for an invalid setting."""
    findings = _ask_program(env, "--check")["findings"]
    findings += [asdict(finding) for finding in doctor.machine(env) if finding.what in _WATCHING]
    if args.json:
        output.document({"findings": findings})
    else:
        output.lines(settings_table.findings(findings, output.Style.of(sys.stdout, env)))
    failed = {finding["what"] for finding in findings if finding["state"] == "fail"}
    if failed & {"settings", "project", "listener", "weights"}:
        return exits.BAD_SETTINGS
    return exits.FAILED if failed else exits.OK


def _ask_program(env: Env, flag: str) -> dict[str, Any]:
    """Run the daemon's program with a flag and parse its output. Raises `client.CallFailed`."""
    command = [*program.command(env), flag, "--project", os.getcwd()]
    try:
        done = subprocess.run(
            command, env=dict(env), capture_output=True, text=True, timeout=LONG_S, check=False
        )
    except subprocess.TimeoutExpired:
        message = f"{command[0]} {flag} did not end within {LONG_S:g} s"
        hint = "does the database or the embedder hang?"
        raise client.CallFailed(message, hint, code=client.TIMED_OUT) from None
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        message, _, hint = done.stderr.strip().removeprefix("error: ").partition(" — hint: ")
        failed = client.CallFailed(message or "cocosearchd wrote no message", hint, code=0)
        failed.exit_code = done.returncode or exits.FAILED
        raise failed from None
    return answer


def init(args: argparse.Namespace, env: Env) -> int:  # noqa: ARG001 - the shape of a verb
    """Write a template with comments; keep an existing file unless `--force` is given."""
    directory = Path(args.path)
    if not directory.is_dir():
        output.error(
            f"{args.path} is not a directory", "give the project's directory", as_json=args.json
        )
        return exits.USAGE
    existing = next(
        (directory / name for name in (FILE, f".{FILE}") if os.path.lexists(directory / name)), None
    )
    if existing is not None and not args.force:
        output.error(f"{existing} already exists", "--force overwrites it", as_json=args.json)
        return exits.FAILED
    file = existing or directory / FILE
    text = starter(directory.resolve().name).encode()
    # follow no link in the directory: its author is not trusted
    with SafeFolder.opened(directory) as folder:
        if existing is not None:
            folder.replace(file.name, text, 0o644)
        elif not folder.create(file.name, text, 0o644):
            output.error(f"{file} already exists", "--force overwrites it", as_json=args.json)
            return exits.FAILED
    if args.json:
        output.document({"path": str(file.resolve())})
    else:
        output.line(f"{file} is written; `cocosearchctl config show` prints all settings")
    return exits.OK


def starter(name: str) -> str:
    """Return the template of a project's settings, with every key as a comment."""
    text = (Path(__file__).with_name("starter.yaml")).read_text("utf-8")
    return text.replace("NAME", json.dumps(name))
