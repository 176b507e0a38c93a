"""Validates the directory of a new root and chooses the name of its index.

The store keeps the registered roots and names.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from cocosearchd.errors import Conflict, InvalidInput, NotFound, Refused
from cocosearchd.forms.path_forms import describe_root
from cocosearchd.runtime.files.nofollow import without_links
from cocosearchd.watching.hints.mounts import KERNEL, file_system

MAX_NAME = 100
# A character that no name has, beside those that are not printable: options of the command line
# separate names by commas.
_SEPARATOR = re.compile(r"[/\\,]")
# Runs that are `_` in a name that is made from a directory's.
_REPLACED = re.compile(r"[\s/\\,?]+")


def check_root(path: bytes, state_dir: Path, follow_links: bool = True) -> bytes:
    """Return the directory behind a path, absolute and without symbolic links. Blocking.

    Without `follow_links`, the path must be such a directory itself. A root inside of another one
    is fine: queries take the nearest. Raises `NotFound` and `Refused`.
    """
    label = os.fsdecode(path)
    try:
        root = without_links(os.path.expanduser(path))
    except OSError as error:
        raise Refused(
            f"{label} cannot be followed: {error.strerror}", "give the directory itself"
        ) from None
    if not follow_links and root != path:
        raise Refused(f"{label} is not the directory itself: it leads to another one", "ask again")
    _check_directory(root, label)
    _check_kind(root, label)
    state = os.path.realpath(os.fsencode(state_dir))
    if _holds(root, state) or _is_inside(root, state):
        raise Refused(
            f"{label} holds the daemon's own files or is among them",
            "add a directory beside it, or move the state with COCOSEARCH_STATE_DIR",
        )
    return root


def _check_directory(root: bytes, label: str) -> None:
    """Raise an error unless `root` is a directory that can be read."""
    if not os.path.exists(root):
        raise NotFound(f"there is no directory {label}", "give the path of a directory that exists")
    if not os.path.isdir(root):
        raise Refused(
            f"{label} is not a directory",
            f"give its directory: {os.fsdecode(os.path.dirname(root))}",
        )
    if not os.access(root, os.R_OK | os.X_OK):
        raise Refused(
            f"{label} cannot be read",
            "run the daemon as a user who may read it, or change its permissions",
        )


def _check_kind(root: bytes, label: str) -> None:
    """Raise an error for a bare repository, the whole file system, a kernel directory, or home."""
    if _is_bare(root):
        raise Refused(
            f"{label} is a bare repository: it has no files",
            "give a directory that it is checked out in",
        )
    if _is_same_directory(root, b"/"):
        raise Refused(
            "the whole file system cannot be an index", "add the directories of your projects"
        )
    if (kind := file_system(root)) in KERNEL or root == b"/dev":
        raise Refused(
            f"{label} is of the kernel ({kind}), and holds no files",
            "add the directories of your projects",
        )
    if _is_same_directory(root, os.path.realpath(os.path.expanduser(b"~"))):
        raise Refused(
            "the home directory cannot be an index", "add the directories of your projects in it"
        )


def _is_bare(root: bytes) -> bool:
    """Return whether a directory is a git directory without a work tree."""
    names = set(os.listdir(root))
    return names >= {b"HEAD", b"objects", b"refs"} and b".git" not in names


def chosen_name(
    root: bytes, name: str | None, project_name: str | None, roots: Mapping[str, bytes]
) -> str:
    """Return a name for a new index; `roots` maps the names of indexes to their roots.

    A person gave `name`: raises `Conflict` and `InvalidInput` if it cannot be used. A `project_name`
    that cannot be used is ignored: all work trees of a repository have the same project file.
    """
    if name is None and project_name is not None:
        with suppress(Conflict, InvalidInput):
            return propose_name(root, project_name, roots)
    return propose_name(root, name, roots)


def propose_name(root: bytes, name: str | None, roots: Mapping[str, bytes]) -> str:
    """Return the name for the index of a root; `roots` maps the names of indexes to their roots.

    Without `name`, it is the directory's name, with as many parent directories before it as make it
    unique, else with a number. Raises `Conflict` for a name of another root, and `InvalidInput` for
    a name that cannot be used.
    """
    if name is not None:
        return _checked_name(name, root, roots)
    parts = [_name_part(os.fsdecode(part)) for part in root.split(b"/") if part] or ["root"]
    for first in range(len(parts) - 1, -1, -1):
        proposed = "-".join(parts[first:])[-MAX_NAME:].lstrip("-")
        if proposed not in roots:
            return proposed
    base = parts[-1][: MAX_NAME - 8]
    return next(proposed for n in count(2) if (proposed := f"{base}-{n}") not in roots)


def _checked_name(name: str, root: bytes, roots: Mapping[str, bytes]) -> str:
    if not _is_name(name):
        raise InvalidInput(
            f"{name!r} cannot be the name of an index",
            f"use 1 to {MAX_NAME} printable characters, without slashes and commas, without spaces at"
            " the ends and without a hyphen at the beginning",
        )
    if name in roots and roots[name] != root:
        raise Conflict(
            f"the name {name!r} of {describe_root(root)} is taken by {describe_root(roots[name])}",
            "choose another one with --name, or clear the other index",
        )
    return name


def _is_name(name: str) -> bool:
    """Return whether people can read a name, and name it in options and addresses.

    Names come from directories and files of projects, so the author of a repository writes them.
    """
    return (
        0 < len(name) <= MAX_NAME
        and name.isprintable()
        and not _SEPARATOR.search(name)
        and name == name.strip()
        and not name.startswith("-")
        and name not in (".", "..")  # every client removes them from a resource's address
    )


def _name_part(part: str) -> str:
    """Return a part of a path as a part of a name, with `_` for characters that no name has."""
    printable = "".join(c if c.isprintable() else " " for c in part)
    return _REPLACED.sub("_", printable).lstrip("-_").rstrip("_") or "_"


def _is_same_directory(path: bytes, second: bytes) -> bool:
    """Return whether two paths are one directory: names may differ by case, or by a bind mount."""
    try:
        return os.path.samefile(path, second)
    except OSError:  # one of them does not exist
        return path == second


def _holds(root: bytes, path: bytes) -> bool:
    """Return whether a root is the directory `path` or above it, by whatever name."""
    while not _is_same_directory(root, path):
        if path == os.path.dirname(path):
            return False
        path = os.path.dirname(path)
    return True


def _is_inside(path: bytes, directory: bytes) -> bool:
    return path == directory or path.startswith(directory.rstrip(b"/") + b"/")
