"""Which directories may be roots, and what an index is called. What is registered is kept by the
store.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from cocosearchd.errors import Conflict, InvalidInput, NotFound, Refused
from cocosearchd.runtime.files.nofollow import without_links
from cocosearchd.watching.hints.mounts import KERNEL, file_system

MAX_NAME = 100
_NAME = re.compile(r"[^\s/\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]*")
_UNFIT = re.compile(r"[\s/\\\x00-\x1f\x7f]+")


def check_root(path: bytes, state_dir: Path) -> bytes:
    """The directory behind a path, absolute and without symbolic links. Blocking.

    A root inside of another one is fine: queries take the nearest. Raises `NotFound` and `Refused`.
    """
    shown = os.fsdecode(path)
    try:
        root = without_links(os.path.expanduser(path))
    except OSError as error:
        raise Refused(
            f"{shown} cannot be followed: {error.strerror}", "give the directory itself"
        ) from None
    if not os.path.exists(root):
        raise NotFound(f"there is no directory {shown}", "give the path of a directory that exists")
    if not os.path.isdir(root):
        raise Refused(
            f"{shown} is not a directory",
            f"give its directory: {os.fsdecode(os.path.dirname(root))}",
        )
    if not os.access(root, os.R_OK | os.X_OK):
        raise Refused(
            f"{shown} cannot be read",
            "run the daemon as a user who may read it, or change its permissions",
        )
    if _is_bare(root):
        raise Refused(
            f"{shown} is a bare repository: it has no files",
            "give a directory that it is checked out in",
        )
    if _same(root, b"/"):
        raise Refused(
            "the whole file system cannot be an index", "add the directories of your projects"
        )
    if (kind := file_system(root)) in KERNEL or root == b"/dev":
        raise Refused(
            f"{shown} is of the kernel ({kind}), and holds no files",
            "add the directories of your projects",
        )
    if _same(root, os.path.realpath(os.path.expanduser(b"~"))):
        raise Refused(
            "the home directory cannot be an index", "add the directories of your projects in it"
        )
    state = os.path.realpath(os.fsencode(state_dir))
    if _holds(root, state) or _inside(root, state):
        raise Refused(
            f"{shown} holds the daemon's own files or is among them",
            "add a directory beside it, or move the state with COCOSEARCH_STATE_DIR",
        )
    return root


def _is_bare(root: bytes) -> bool:
    """Whether a directory is git's own, without a work tree."""
    found = set(os.listdir(root))
    return found >= {b"HEAD", b"objects", b"refs"} and b".git" not in found


def chosen_name(
    root: bytes, name: str | None, of_project: str | None, taken: Mapping[str, bytes]
) -> str:
    """A name for a new index. Raises `Conflict` and `InvalidInput` for one that a person gave.

    That of a project gives way: work trees of one repository all bring the same file.
    """
    if name is None and of_project is not None:
        with suppress(Conflict, InvalidInput):
            return propose_name(root, of_project, taken)
    return propose_name(root, name, taken)


def propose_name(root: bytes, name: str | None, taken: Mapping[str, bytes]) -> str:
    """What to call the index of a root; `taken` maps names to roots.

    Without a name: the directory's, with as much of the path before it as makes it unique, else
    with a number. Raises `Conflict` for a name that another root has, and `InvalidInput` for one
    that cannot be used.
    """
    if name is not None:
        return _checked(name, root, taken)
    parts = [_fit(os.fsdecode(part)) for part in root.split(b"/") if part] or ["root"]
    for first in range(len(parts) - 1, -1, -1):
        proposed = "-".join(parts[first:])[-MAX_NAME:]
        if proposed not in taken:
            return proposed
    base = parts[-1][: MAX_NAME - 8]
    return next(proposed for n in count(2) if (proposed := f"{base}-{n}") not in taken)


def _checked(name: str, root: bytes, taken: Mapping[str, bytes]) -> str:
    # A name of dots alone would be part of a resource's address that every client takes away.
    if (
        not _NAME.fullmatch(name)
        or len(name) > MAX_NAME
        or name != name.strip()
        or name in (".", "..")
    ):
        raise InvalidInput(
            f"{name!r} cannot be the name of an index",
            f"use 1 to {MAX_NAME} characters without slashes and without spaces at its ends",
        )
    if name in taken and taken[name] != root:
        raise Conflict(
            f"the name {name!r} of {_shown(root)} is taken by {_shown(taken[name])}",
            "choose another one with --name, or clear the other index",
        )
    return name


def _fit(part: str) -> str:
    """A part of a path as a part of a name: what cannot be typed or printed is replaced."""
    printable = part.encode("utf-8", "replace").decode("utf-8").replace("?", "_")
    return _UNFIT.sub("_", printable).strip("_") or "_"


def _same(path: bytes, other: bytes) -> bool:
    """Whether two paths are one directory: names may differ by case, or by a bind mount."""
    try:
        return os.path.samefile(path, other)
    except OSError:  # the other one is not there
        return path == other


def _holds(root: bytes, path: bytes) -> bool:
    """Whether a root is a directory, or one above it, by whatever name."""
    while not _same(root, path):
        if path == os.path.dirname(path):
            return False
        path = os.path.dirname(path)
    return True


def _inside(path: bytes, directory: bytes) -> bool:
    return path == directory or path.startswith(directory.rstrip(b"/") + b"/")


def _shown(root: bytes) -> str:
    return root.decode("utf-8", "backslashreplace")
