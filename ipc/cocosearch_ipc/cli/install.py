"""`install`: writes the stdio bridge into an assistant's configuration. Idempotent, with a backup, or only printed."""

import argparse
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cocosearch_ipc import address, client
from cocosearch_ipc.cli import exits, program
from cocosearch_ipc.render import out

Env = Mapping[str, str]
NAME = "cocosearch"
BACKUP = ".before-cocosearch"


@dataclass(frozen=True, slots=True)
class Assistant:
    """Where an assistant keeps its servers, for the user and for a project, and the shape of one server."""

    title: str
    user: Callable[[Env], Path]
    project: str | None  # below the project's directory
    keys: str  # of the table of servers
    entry: Callable[[str], dict[str, Any]]


def _plain(ctl: str) -> dict[str, Any]:
    return {"command": ctl, "args": ["mcp"]}


def _typed(ctl: str) -> dict[str, Any]:
    return {"type": "stdio"} | _plain(ctl)


def _local(ctl: str) -> dict[str, Any]:
    return {"type": "local", "command": [ctl, "mcp"], "enabled": True}


def _home(*parts: str) -> Callable[[Env], Path]:
    return lambda env: Path(address.home(env), *parts)


def _application(*parts: str) -> Callable[[Env], Path]:
    """Below ~/Library/Application Support on macOS, below XDG_CONFIG_HOME elsewhere."""
    if sys.platform == "darwin":
        return _home("Library", "Application Support", *parts)
    return _config(*parts)


def _config(*parts: str) -> Callable[[Env], Path]:
    return lambda env: Path(address.xdg(env, "XDG_CONFIG_HOME") or _home(".config")(env), *parts)


ASSISTANTS = {
    "claude": Assistant("Claude Code", _home(".claude.json"), ".mcp.json", "mcpServers", _typed),
    "claude-desktop": Assistant(
        "Claude Desktop", _application("Claude", "claude_desktop_config.json"), None, "mcpServers", _plain
    ),
    "cursor": Assistant("Cursor", _home(".cursor", "mcp.json"), ".cursor/mcp.json", "mcpServers", _plain),
    "vscode": Assistant("VS Code", _application("Code", "User", "mcp.json"), ".vscode/mcp.json", "servers", _typed),
    "codex": Assistant("Codex", _home(".codex", "config.toml"), ".codex/config.toml", "mcp_servers", _plain),
    "opencode": Assistant("opencode", _config("opencode", "opencode.json"), "opencode.json", "mcp", _local),
    "gemini": Assistant("Gemini CLI", _home(".gemini", "settings.json"), ".gemini/settings.json", "mcpServers", _plain),
}


def run(args: argparse.Namespace, env: Env) -> int:
    """`install ASSISTANT [--project] [--print] [--remove]`. Raises `client.CallFailed`."""
    assistant = ASSISTANTS[args.assistant]
    path = _target(assistant, env, in_project=args.project)
    entry = None if args.remove else assistant.entry(program.own(env))
    edit = _edited_toml if path.suffix == ".toml" else _edited_json
    if args.print:
        out.line(edit("", assistant.keys, entry, path).rstrip())
        return exits.OK
    try:
        before = path.read_text("utf-8") if path.exists() else ""
    except UnicodeDecodeError as error:
        raise client.CallFailed(f"{path} is not UTF-8 ({error})", "mend it first", code=0) from None
    after = edit(before, assistant.keys, entry, path)
    changed = after != before
    if changed:
        _write(path, before, after)
    if args.json:
        out.document({"assistant": args.assistant, "file": str(path), "changed": changed})
    elif changed:
        out.line(f"{assistant.title}: {path} {'no longer has' if args.remove else 'now has'} the server {NAME!r}")
        out.line(
            f"restart {assistant.title} to {'be rid of' if args.remove else 'use'} it"
            + (f"; the old file is {path}{BACKUP}" if before else "")
        )
    else:
        out.line(f"{assistant.title}: {path} needs no change")
    return exits.OK


def _target(assistant: Assistant, env: Env, *, in_project: bool) -> Path:
    if not in_project:
        return assistant.user(env)
    if assistant.project is None:
        raise client.CallFailed(f"{assistant.title} has no configuration per project", "leave out --project", code=0)
    return Path.cwd() / assistant.project


def _edited_json(text: str, keys: str, entry: dict[str, Any] | None, path: Path) -> str:
    try:
        tree = json.loads(text) if text.strip() else {}
    except ValueError as error:
        message = f"{path} is not plain JSON ({error})"
        raise client.CallFailed(message, "add what `--print` shows by hand", code=0) from None
    servers = tree.get(keys, {}) if isinstance(tree, dict) else None
    if not isinstance(servers, dict):
        raise client.CallFailed(f"{path} has another shape than expected", "add what `--print` shows by hand", code=0)
    if servers.get(NAME) == entry:
        return text
    changed = {name: server for name, server in servers.items() if name != NAME} | ({NAME: entry} if entry else {})
    indent = 4 if re.search(r"^    \"", text, re.MULTILINE) and not re.search(r"^  \"", text, re.MULTILINE) else 2
    return json.dumps(tree | {keys: changed}, indent=indent, ensure_ascii=False) + "\n"


def _edited_toml(text: str, keys: str, entry: dict[str, Any] | None, path: Path) -> str:
    try:
        now = tomllib.loads(text).get(keys, {}).get(NAME)
    except (tomllib.TOMLDecodeError, AttributeError) as error:
        raise client.CallFailed(f"{path} is not valid TOML ({error})", "mend it first", code=0) from None
    if now == entry:
        return text
    header = re.escape(f"[{keys}.{NAME}]")
    rest = re.sub(rf"(?ms)^{header}[ \t]*(#[^\n]*)?\n.*?(?=^\[|\Z)", "", text).rstrip("\n")
    if entry is None:
        after = rest + "\n" if rest else ""
    else:
        # A JSON text or list of texts is a TOML one as well.
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
        after = (rest + "\n\n" if rest else "") + f"[{keys}.{NAME}]\n{lines}"
    if _server_in(after, keys) != entry:  # it was written in another way than as a table of its own
        raise client.CallFailed(f"{path} has {NAME!r} in a form that is not ours", "change it by hand", code=0)
    return after


def _server_in(text: str, keys: str) -> object:
    try:
        return tomllib.loads(text).get(keys, {}).get(NAME)
    except (tomllib.TOMLDecodeError, AttributeError):
        return ...


def _write(path: Path, before: str, after: str) -> None:
    """Replace in one step, keeping the mode; the first old text is kept beside it."""
    path = path.resolve()  # a link into a repository of dot files stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if before else 0o600
    backup = path.with_name(path.name + BACKUP)
    if before and not backup.exists():
        _create(backup, before, mode)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    _create(fresh, after, mode)
    fresh.replace(path)


def _create(path: Path, text: str, mode: int) -> None:
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), "w", encoding="utf-8"
    ) as f:
        f.write(text)
