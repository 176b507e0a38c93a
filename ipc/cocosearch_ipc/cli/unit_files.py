"""The files of a service: what of them somebody changed, how they are written, and the environment the service gets."""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from fnmatch import fnmatch
from pathlib import Path

Env = Mapping[str, str]

KEPT = ".before-cocosearch"  # behind the name of a file: no service manager reads it
# In the environment of a command line, and not of the service: it has the directories of its unit, and no project.
NOT_ITS = frozenset({"COCOSEARCH_STATE_DIR", "COCOSEARCH_RUNTIME_DIR", "COCOSEARCH_PROJECT"})
_PLACES = frozenset({"XDG_STATE_HOME", "XDG_CONFIG_HOME"})
_MARK = re.compile(rb"^(?:#|<!--) Written by `cocosearchctl service install` \(([0-9a-f]{16})\)[^\n]*\n", re.MULTILINE)
_VARIABLE = re.compile(r'^Environment="(\w+)=')


class Found(Enum):
    """A file in the place of one of ours."""

    MISSING = "missing"
    CURRENT = "what would be written"
    CHANGED = "what would be written, with changes that somebody made"
    OLDER = "what was written once, of another version or for another program"
    UNKNOWN = "what was written once, with changes, or by somebody else"


def marked(content: bytes) -> bytes:
    """`content` with a line that later tells what of it was changed."""
    says = f"Written by `cocosearchctl service install` ({_digest(content)})"
    if content.startswith(b"<?xml"):
        head, _, rest = content.partition(b"\n")
        return head + f"\n<!-- {says} -->\n".encode() + rest
    return f"# {says}; your additions go into a drop-in: `systemctl edit`\n".encode() + content


def look(path: Path, wanted: bytes) -> Found:
    """What is at `path`, where `wanted` would be written."""
    if not path.exists():
        return Found.MISSING
    there = path.read_bytes()
    if there == wanted:
        return Found.CURRENT
    mark = _mark(there)
    if mark and mark == _mark(wanted):
        return Found.CHANGED
    return Found.OLDER if mark == _digest(_MARK.sub(b"", there)) else Found.UNKNOWN


def write(path: Path, wanted: bytes) -> Found:
    """Bring `path` up to date; returns what was there. Somebody's changes stay, or a copy of them does."""
    found = look(path, wanted)
    if found in (Found.CURRENT, Found.CHANGED):
        return found
    path.parent.mkdir(parents=True, exist_ok=True)
    if found is Found.UNKNOWN:
        path.replace(path.with_name(path.name + KEPT))
    path.write_bytes(wanted)
    return found


def remove(units: Mapping[Path, str], drop_in: Path | None) -> list[Path]:
    """Remove files, the links by which systemd starts their `units`, and `drop_in`; other drop-ins are somebody else's.

    Returns what stays: templates from which units of other users are started.
    """
    shared = list[Path]()
    for path, unit in units.items():
        links = [link for link in path.parent.glob("*.wants/*") if fnmatch(link.name, path.name.replace("@", "@*"))]
        for link in links:
            if link.name == unit:
                link.unlink(missing_ok=True)
        if any(link.name != unit for link in links):
            shared.append(path)
    for path in units.keys() - shared:
        path.unlink(missing_ok=True)
    if drop_in is not None:
        drop_in.unlink(missing_ok=True)
        with suppress(OSError):  # there are others, or there is none
            drop_in.parent.rmdir()
    return shared


def variables(env: Env) -> dict[str, str]:
    """What of an environment the daemon reads, and a service manager would not give it."""
    ours = (name for name in env if name.startswith("COCOSEARCH_") or name in _PLACES)
    return {name: env[name] for name in sorted(ours) if name not in NOT_ITS and env[name]}


def write_drop_in(path: Path, given: Mapping[str, str]) -> bool:
    """Put `given` over what a drop-in says; returns whether anything changed. Passwords may be in it."""
    before = path.read_text("utf-8", "surrogateescape") if path.exists() else "[Service]\n"
    kept = [line for line in before.splitlines() if _name(line) not in given]
    text = "\n".join([*kept, *(f'Environment="{name}={_escaped(value)}"' for name, value in given.items())]) + "\n"
    if not given or text == before:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")  # systemd reads what ends in .conf
    part.touch(mode=0o600)
    part.chmod(0o600)
    part.write_text(text, "utf-8", "surrogateescape")
    part.replace(path)
    return True


def _name(line: str) -> str:
    found = _VARIABLE.match(line)
    return found[1] if found else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")


def _mark(content: bytes) -> str:
    found = _MARK.search(content)
    return found[1].decode() if found else ""


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()
