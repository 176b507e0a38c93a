"""The files of a service: what of them somebody changed, how they are written, and the environment
the service gets.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from fnmatch import fnmatch
from pathlib import Path

Env = Mapping[str, str]

KEPT = ".before-cocosearch"  # behind the name of a file: no service manager reads it
# In the environment of a command line, and not of the service: it has the directories of its unit,
# and no project.
NOT_ITS = frozenset({"COCOSEARCH_STATE_DIR", "COCOSEARCH_RUNTIME_DIR", "COCOSEARCH_PROJECT"})
_PLACES = frozenset({"XDG_STATE_HOME", "XDG_CONFIG_HOME"})
_MARK = re.compile(
    rb"^(?:#|<!--) Written by `cocosearchctl service install` \(([0-9a-f]{16})\)[^\n]*\n",
    re.MULTILINE,
)
_VARIABLE = re.compile(r'Environment="(\w+)=((?:[^"\\]|\\.)*)"')
_ASSIGNMENT = re.compile(r'^(\w+)="((?:[^"\\]|\\.)*)"$', re.MULTILINE | re.DOTALL)
_TO_ESCAPE = re.compile(r'["\\$`]')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class ExistingUnit(Enum):
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


def look(path: Path, wanted: bytes) -> ExistingUnit:
    """What is at `path`, where `wanted` would be written."""
    if not path.exists():
        return ExistingUnit.MISSING
    there = path.read_bytes()
    if there == wanted:
        return ExistingUnit.CURRENT
    mark = _mark(there)
    if mark and mark == _mark(wanted):
        return ExistingUnit.CHANGED
    return ExistingUnit.OLDER if mark == _digest(_MARK.sub(b"", there)) else ExistingUnit.UNKNOWN


def write(path: Path, wanted: bytes) -> ExistingUnit:
    """Bring `path` up to date; returns what was there. Somebody's changes stay, or a copy of them
    does.
    """
    found = look(path, wanted)
    if found in (ExistingUnit.CURRENT, ExistingUnit.CHANGED):
        return found
    path.parent.mkdir(parents=True, exist_ok=True)
    if found is ExistingUnit.UNKNOWN:
        path.replace(path.with_name(path.name + KEPT))
    path.write_bytes(wanted)
    return found


def remove(units: Mapping[Path, str], drop_in: Path | None) -> list[Path]:
    """Remove files, the links by which systemd starts their `units`, and `drop_in`; other drop-ins
    are somebody else's.

    Returns what stays: templates from which units of other users are started.
    """
    shared = list[Path]()
    for path, unit in units.items():
        links = [
            link
            for link in path.parent.glob("*.wants/*")
            if fnmatch(link.name, path.name.replace("@", "@*"))
        ]
        for link in links:
            if link.name == unit:
                link.unlink(missing_ok=True)
        if any(link.name != unit for link in links):
            shared.append(path)
    for path in units.keys() - shared:
        path.unlink(missing_ok=True)
    if drop_in is not None:
        drop_in.unlink(missing_ok=True)
        environment_file(drop_in).unlink(missing_ok=True)
        with suppress(OSError):  # there are others, or there is none
            drop_in.parent.rmdir()
    return shared


def variables(env: Env) -> dict[str, str]:
    """What of an environment the daemon reads, and a service manager would not give it."""
    ours = (name for name in env if name.startswith("COCOSEARCH_") or name in _PLACES)
    return {name: env[name] for name in sorted(ours) if name not in NOT_ITS and env[name]}


def write_environment(drop_in: Path, given: Mapping[str, str]) -> bool:
    """Put `given` over the environment of a service; returns whether anything changed.

    Passwords may be in it, and systemd shows every user what `Environment=` says (`systemctl
    show`): the values stand in a file that only its owner reads, and the drop-in names that file.
    Values of a former drop-in move there.
    """
    before = drop_in.read_text("utf-8", "surrogateescape") if drop_in.exists() else "[Service]\n"
    file = environment_file(drop_in)
    text = file.read_text("utf-8", "surrogateescape") if file.exists() else ""
    values = {**_moved(before), **_values(text), **given}
    line = f"EnvironmentFile={str(file).replace('%', '%%')}"
    others = [
        other for other in before.splitlines() if not _VARIABLE.match(other) and other != line
    ]
    after = {
        drop_in: "\n".join([*others, line]) + "\n",
        file: "".join(map(_assignment, values.items())),
    }
    if not given or {drop_in: before, file: text} == after:
        return False
    drop_in.parent.mkdir(parents=True, exist_ok=True)
    for path in (file, drop_in):  # in this order: the second names the first
        _write_private(path, after[path])
    return True


def environment_file(drop_in: Path) -> Path:
    """The file of variables that a drop-in names. systemd takes what ends in .conf for a drop-in:
    this does not.
    """
    return drop_in.with_suffix(".env")


def _write_private(path: Path, text: str) -> None:
    """Replace a file by one that only its owner may read, in one step."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(
        part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)
    part.replace(path)


def _moved(drop_in: str) -> dict[str, str]:
    """The variables that a drop-in of a former version holds itself."""
    found = filter(None, map(_VARIABLE.fullmatch, drop_in.splitlines()))
    return {line[1]: _ESCAPED.sub(_unescaped, line[2]).replace("%%", "%") for line in found}


def _unescaped(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]


def _values(environment: str) -> dict[str, str]:
    """The variables of a file that `_assignment` wrote."""
    return {line[1]: _ESCAPED.sub(r"\1", line[2]) for line in _ASSIGNMENT.finditer(environment)}


def _assignment(variable: tuple[str, str]) -> str:
    """A line as systemd.exec(5) has it under EnvironmentFile=: in double quotes these characters
    are escaped.
    """
    name, value = variable
    quoted = _TO_ESCAPE.sub(r"\\\g<0>", value)
    return f'{name}="{quoted}"\n'


def _mark(content: bytes) -> str:
    found = _MARK.search(content)
    return found[1].decode() if found else ""


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()
