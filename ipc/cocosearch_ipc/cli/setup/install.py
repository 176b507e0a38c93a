"""`install`: writes the stdio bridge into an assistant's configuration. Idempotent.

It keeps a backup of the first version, or only prints the change.
"""

import argparse
import json
import math
import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits, program
from cocosearch_ipc.cli.setup.safe_folder import BY_HAND, SafeFolder
from cocosearch_ipc.render import output

Env = Mapping[str, str]
NAME = "cocosearch"
# A project's file has an untrusted author; some assistants keep their complete history in the
# user's file.
MAX_PROJECT_BYTES = 1 << 20
MAX_USER_BYTES = 256 << 20
BACKUP = ".before-cocosearch"


@dataclass(frozen=True, slots=True)
class Assistant:
    """An assistant: its configuration files, for the user and for a project, and their format."""

    title: str
    user: Callable[[Env], Path]
    project: str | None  # below the project's directory
    keys: str  # key of the table of servers
    entry: Callable[[str], dict[str, Any]]


def _plain_entry(ctl: str) -> dict[str, Any]:
    return {"command": ctl, "args": ["mcp"]}


def _typed_entry(ctl: str) -> dict[str, Any]:
    return {"type": "stdio"} | _plain_entry(ctl)


def _local_entry(ctl: str) -> dict[str, Any]:
    return {"type": "local", "command": [ctl, "mcp"], "enabled": True}


def _home(*parts: str) -> Callable[[Env], Path]:
    return lambda env: Path(address.home(env), *parts)


def _application(*parts: str) -> Callable[[Env], Path]:
    """Return a path below ~/Library/Application Support on macOS, else below XDG_CONFIG_HOME."""
    if sys.platform == "darwin":
        return _home("Library", "Application Support", *parts)
    return _config(*parts)


def _config(*parts: str) -> Callable[[Env], Path]:
    return lambda env: Path(address.xdg(env, "XDG_CONFIG_HOME") or _home(".config")(env), *parts)


ASSISTANTS = {
    "claude": Assistant(
        "Claude Code", _home(".claude.json"), ".mcp.json", "mcpServers", _typed_entry
    ),
    "claude-desktop": Assistant(
        "Claude Desktop",
        _application("Claude", "claude_desktop_config.json"),
        None,
        "mcpServers",
        _plain_entry,
    ),
    "cursor": Assistant(
        "Cursor", _home(".cursor", "mcp.json"), ".cursor/mcp.json", "mcpServers", _plain_entry
    ),
    "vscode": Assistant(
        "VS Code",
        _application("Code", "User", "mcp.json"),
        ".vscode/mcp.json",
        "servers",
        _typed_entry,
    ),
    "codex": Assistant(
        "Codex", _home(".codex", "config.toml"), ".codex/config.toml", "mcp_servers", _plain_entry
    ),
    "opencode": Assistant(
        "opencode", _config("opencode", "opencode.json"), "opencode.json", "mcp", _local_entry
    ),
    "gemini": Assistant(
        "Gemini CLI",
        _home(".gemini", "settings.json"),
        ".gemini/settings.json",
        "mcpServers",
        _plain_entry,
    ),
}


def run(args: argparse.Namespace, env: Env) -> int:
    """Run `install ASSISTANT [--project] [--print] [--remove]`. Raises `client.CallFailed`."""
    assistant = ASSISTANTS[args.assistant]
    target = _target(assistant, env, in_project=args.project)
    path = target.path
    entry = None if args.remove else assistant.entry(program.ctl_path(env))
    edit = _edit_toml if path.suffix == ".toml" else _edit_json
    if args.print:
        output.line(edit("", assistant.keys, entry, path).rstrip())
        return exits.OK
    previous_text = ""
    changed = False
    if not args.remove or target.is_there():
        previous_text, changed = _write(
            target, partial(edit, keys=assistant.keys, entry=entry, path=path)
        )
    if args.json:
        output.document({"assistant": args.assistant, "file": str(path), "changed": changed})
    elif changed:
        backup = f"; the old file is {path}{BACKUP}" if previous_text else ""
        change, purpose = ("no longer has", "remove") if args.remove else ("now has", "use")
        output.line(f"{assistant.title}: {path} {change} the server {NAME!r}")
        output.line(f"restart {assistant.title} to {purpose} it{backup}")
    else:
        output.line(f"{assistant.title}: {path} needs no change")
    return exits.OK


@dataclass(frozen=True, slots=True)
class ConfigTarget:
    """A configuration file: a directory chosen by the user, and directories and a file below it."""

    top: Path
    below: tuple[str, ...]
    name: str
    max_bytes: int

    @property
    def path(self) -> Path:
        """The absolute path of the file."""
        return self.top.joinpath(*self.below, self.name)

    def is_there(self) -> bool:
        """Return True if anything has this path, even a broken link."""
        return os.path.lexists(self.path)


def _target(assistant: Assistant, env: Env, *, in_project: bool) -> ConfigTarget:
    if not in_project:
        path = assistant.user(env).resolve()  # keeps a link into a repository of dot files
        return ConfigTarget(path.parent, (), path.name, MAX_USER_BYTES)
    if assistant.project is None:
        raise client.CallFailed(
            f"{assistant.title} has no configuration per project", "omit --project", code=0
        )
    *below, name = assistant.project.split("/")
    return ConfigTarget(Path.cwd(), tuple(below), name, MAX_PROJECT_BYTES)


def _write(target: ConfigTarget, edit: Callable[[str], str]) -> tuple[str, bool]:
    """Edit a file atomically, keeping its mode; keep a backup of its first version.

    Return the old text, and True if it changed. Raises `client.CallFailed`.
    """
    target.top.mkdir(parents=True, exist_ok=True)
    with SafeFolder.opened(target.top, *target.below) as folder:
        data, mode = folder.read(target.name, target.max_bytes) or (b"", 0o600)
        try:
            previous_text = data.decode("utf-8")
            after = edit(previous_text).encode("utf-8")
        except UnicodeError as error:
            raise client.CallFailed(
                f"{target.path} is not UTF-8 ({error})", "repair it first", code=0
            ) from None
        if after == data:
            return previous_text, False
        if data:
            folder.create(target.name + BACKUP, data, mode)
        folder.replace(target.name, after, mode)
    return previous_text, True


def _edit_json(text: str, keys: str, entry: dict[str, Any] | None, path: Path) -> str:
    try:
        tree = json.loads(
            text, object_pairs_hook=_object, parse_float=_number, parse_constant=_number
        )
    except (ValueError, ArithmeticError, RecursionError) as error:
        if text.strip():
            message = f"{path} is not plain JSON ({error})"
            raise client.CallFailed(message, BY_HAND, code=0) from None
        tree = {}
    servers = tree.get(keys, {}) if isinstance(tree, dict) else None
    if not isinstance(servers, dict):
        raise client.CallFailed(f"{path} has an unexpected structure", BY_HAND, code=0)
    if servers.get(NAME) == entry:
        return text
    changed = {name: server for name, server in servers.items() if name != NAME}
    if entry:
        changed[NAME] = entry
    try:
        return json.dumps(tree | {keys: changed}, indent=_indent(text), ensure_ascii=False) + "\n"
    except RecursionError:
        raise client.CallFailed(f"{path} is nested too deeply", BY_HAND, code=0) from None


def _indent(text: str) -> int:
    """Return the number of blanks by which a JSON text is indented: 4 or 2."""
    has_two = re.search(r"^  \"", text, re.MULTILINE)
    has_four = re.search(r"^    \"", text, re.MULTILINE)
    return 4 if has_four and not has_two else 2


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. Raises ValueError for a duplicate key: one of its values would be lost."""
    tree = dict[str, Any]()
    for name, value in pairs:
        if name in tree:
            raise ValueError(f"duplicate key {name[:40]!r}")
        tree[name] = value
    return tree


def _number(literal: str) -> float:
    """Parse a number; raise ValueError if it could not be written back unchanged."""
    number = float(literal)
    if not math.isfinite(number) or Decimal(literal) != Decimal(repr(number)):
        raise ValueError(f"the number {literal[:40]} cannot be written back unchanged")
    return number


def _edit_toml(text: str, keys: str, entry: dict[str, Any] | None, path: Path) -> str:
    try:
        tree = tomllib.loads(text)
        current = tree.get(keys, {}).get(NAME)
    except (tomllib.TOMLDecodeError, AttributeError, RecursionError) as error:
        raise client.CallFailed(
            f"{path} is not valid TOML ({error})", "repair it first", code=0
        ) from None
    if current == entry:
        return text
    header = re.escape(f"[{keys}.{NAME}]")
    rest = re.sub(rf"(?ms)^{header}[ \t]*(#[^\n]*)?\n.*?(?=^\[|\Z)", "", text).rstrip("\n")
    if entry is None:
        after = rest + "\n" if rest else ""
    else:
        # JSON strings and lists of strings are valid TOML.
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
        after = (rest + "\n\n" if rest else "") + f"[{keys}.{NAME}]\n{lines}"
    # Otherwise the server is not written as a separate table, or a string only looks like one.
    if _server_in(after, keys) != entry or _other_servers(after, keys) != _other_servers(
        text, keys
    ):
        raise client.CallFailed(
            f"{path} has {NAME!r} in an unknown form", "change it by hand", code=0
        )
    return after


def _other_servers(text: str, keys: str) -> str:
    """Return everything but our own server as text, because `nan` does not equal itself."""
    try:
        tree = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return "not TOML"
    servers = {name: server for name, server in tree.pop(keys, {}).items() if name != NAME}
    return repr((sorted(tree.items()), sorted(servers.items())))


def _server_in(text: str, keys: str) -> object:
    try:
        return tomllib.loads(text).get(keys, {}).get(NAME)
    except (tomllib.TOMLDecodeError, AttributeError):
        return ...
