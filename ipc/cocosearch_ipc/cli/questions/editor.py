"""The user's editor: the command that opens a path at a line."""

import os
import shlex
from collections.abc import Mapping
from typing import Any

from cocosearch_ipc.cli import daemon_calls
from cocosearch_ipc.render import answers
from cocosearch_ipc.render.line_range import on_disk

Env = Mapping[str, str]

# Notations for "open PATH at LINE". All other editors accept `+LINE PATH`, like vi, emacs and nano.
GOTO = ("code", "code-insiders", "codium", "cursor", "windsurf", "positron")  # --goto PATH:LINE
COLON = ("subl", "sublime_text", "zed", "zeditor", "hx", "helix")  # PATH:LINE
JETBRAINS = (
    "idea",
    "pycharm",
    "charm",
    "goland",
    "webstorm",
    "phpstorm",
    "rubymine",
    "clion",
    "rustrover",
    "rider",
)
SHORT = ("mate", "kate", "xed")  # -l LINE PATH


def editor_command(hit: Mapping[str, Any], question: str, env: Env) -> list[str]:
    """Return the command that opens a result in the user's editor."""
    path = os.path.join(daemon_calls.roots(env)[hit["index"]], on_disk(hit["path"]))
    return goto_command(
        env.get("VISUAL") or env.get("EDITOR") or "vi", path, answers.line_to_open(hit, question)
    )


def goto_command(program: str, path: str, line: int) -> list[str]:
    """Return the command that opens `path` at `line`. `program` is a command with its options."""
    try:
        words = shlex.split(program) or ["vi"]
    except ValueError:  # an unclosed quotation
        words = [program]
    name = os.path.basename(words[0]).removesuffix(".sh")
    if name in GOTO:
        return [*words, "--goto", f"{path}:{line}"]
    if name in COLON:
        return [*words, f"{path}:{line}"]
    if name in JETBRAINS:
        return [*words, "--line", str(line), path]
    if name in SHORT:
        return [*words, "-l", str(line), path]
    return [*words, f"+{line}", path]
