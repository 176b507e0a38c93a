"""Files of a service: their state, how they are written, and the environment of the service."""

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from fnmatch import fnmatch
from pathlib import Path

Env = Mapping[str, str]

BACKUP_SUFFIX = ".before-cocosearch"  # of a backup; no service manager reads such a file
# Variables that a service must not inherit: its unit sets the directories, and it has no project.
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
    """The state of a file in the place of one of ours."""

    MISSING = "missing"
    CURRENT = "the current text"
    CHANGED = "the current text, with changes by the user"
    OLDER = "an unchanged text of another version, or for another program"
    UNKNOWN = "a changed text of another version, or a file of another author"


def add_mark(content: bytes) -> bytes:
    """Return `content` with a line that carries its digest, to detect later changes."""
    notice = f"Written by `cocosearchctl service install` ({_digest(content)})"
    if content.startswith(b"<?xml"):
        head, _, rest = content.partition(b"\n")
        return head + f"\n<!-- {notice} -->\n".encode() + rest
    return f"# {notice}; put your additions into a drop-in: `systemctl edit`\n".encode() + content


def compare_file(path: Path, content: bytes) -> ExistingUnit:
    """Compare the file at `path` with the text that would be written."""
    if not path.exists():
        return ExistingUnit.MISSING
    existing = path.read_bytes()
    if existing == content:
        return ExistingUnit.CURRENT
    mark = _mark(existing)
    if mark and mark == _mark(content):
        return ExistingUnit.CHANGED
    return ExistingUnit.OLDER if mark == _digest(_MARK.sub(b"", existing)) else ExistingUnit.UNKNOWN


def write(path: Path, content: bytes) -> ExistingUnit:
    """Bring `path` up to date; return its former state.

    Changes by the user stay, in the file or in a backup.
    """
    state = compare_file(path, content)
    if state in (ExistingUnit.CURRENT, ExistingUnit.CHANGED):
        return state
    path.parent.mkdir(parents=True, exist_ok=True)
    if state is ExistingUnit.UNKNOWN:
        path.replace(path.with_name(path.name + BACKUP_SUFFIX))
    path.write_bytes(content)
    return state


def remove(units: Mapping[Path, str], drop_in: Path | None) -> list[Path]:
    """Remove files, the links by which systemd starts their `units`, and `drop_in`.

    Return the files that stay: templates of units of other users. Other drop-ins stay too.
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
        with suppress(OSError):  # the directory has other drop-ins, or does not exist
            drop_in.parent.rmdir()
    return shared


def variables(env: Env) -> dict[str, str]:
    """Return the variables that the daemon reads and that a service manager would not pass on."""
    names = (name for name in env if name.startswith("COCOSEARCH_") or name in _PLACES)
    return {name: env[name] for name in sorted(names) if name not in NOT_ITS and env[name]}


def write_environment(drop_in: Path, variables: Mapping[str, str]) -> bool:
    """Add `variables` to the environment of a service; return True if anything changed.

    Values may be passwords, and systemd shows `Environment=` to every user (`systemctl show`). So
    the values go into a file that only its owner reads, and the drop-in names that file. Values in
    the drop-in of an older version move there.
    """
    old_drop_in = (
        drop_in.read_text("utf-8", "surrogateescape") if drop_in.exists() else "[Service]\n"
    )
    file = environment_file(drop_in)
    text = file.read_text("utf-8", "surrogateescape") if file.exists() else ""
    values = {**_read_older_variables(old_drop_in), **_values(text), **variables}
    line = f"EnvironmentFile={str(file).replace('%', '%%')}"
    other_lines = [
        text_line
        for text_line in old_drop_in.splitlines()
        if not _VARIABLE.match(text_line) and text_line != line
    ]
    after = {
        drop_in: "\n".join([*other_lines, line]) + "\n",
        file: "".join(map(_assignment, values.items())),
    }
    if not variables or {drop_in: old_drop_in, file: text} == after:
        return False
    drop_in.parent.mkdir(parents=True, exist_ok=True)
    for path in (file, drop_in):  # in this order: the drop-in names the file
        _write_private(path, after[path])
    return True


def environment_file(drop_in: Path) -> Path:
    """Return the file of variables that a drop-in names.

    It does not end in .conf, because systemd would read it as a drop-in.
    """
    return drop_in.with_suffix(".env")


def _write_private(path: Path, text: str) -> None:
    """Replace a file atomically by one that only its owner may read."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(
        part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)
    part.replace(path)


def _read_older_variables(drop_in: str) -> dict[str, str]:
    """Return the variables in the drop-in of an older version."""
    matches = filter(None, map(_VARIABLE.fullmatch, drop_in.splitlines()))
    return {line[1]: _ESCAPED.sub(_unescape, line[2]).replace("%%", "%") for line in matches}


def _unescape(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]


def _values(environment: str) -> dict[str, str]:
    """Return the variables of a file that `_assignment` wrote."""
    return {line[1]: _ESCAPED.sub(r"\1", line[2]) for line in _ASSIGNMENT.finditer(environment)}


def _assignment(variable: tuple[str, str]) -> str:
    """Return a line for EnvironmentFile= in the double-quoted form of systemd.exec(5)."""
    name, value = variable
    quoted = _TO_ESCAPE.sub(r"\\\g<0>", value)
    return f'{name}="{quoted}"\n'


def _mark(content: bytes) -> str:
    match = _MARK.search(content)
    return match[1].decode() if match else ""


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()
