"""The history of a repository: the messages of its latest commits, and the files that each changed.

Only ancestors of HEAD are read: a clone also holds commits that the indexed tree does not know.
git does not read the repository's configuration: see `git_command`. Everything is bounded: commits,
files of a commit, characters of a message, bytes and time of all calls.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from cocosearchd.forms.path_forms import path_text
from cocosearchd.model import Revision
from cocosearchd.runtime.files.regular_files import read_regular
from cocosearchd.watching.git.git_command import GitCall, run_git
from cocosearchd.watching.git.object_reader import (
    MAX_HEAD_BYTES,
    ObjectReader,
    UnknownRevision,
    open_objects,
)
from cocosearchd.watching.git.repository import Repository, repository_around

MAX_COMMITS = 5_000  # newest ancestors without merges
# Files of a commit. A commit with more says nothing about a single file: it is left out.
MAX_COMMIT_FILES = 40
MAX_MESSAGE = 4_000  # characters; more are a changelog, or data
MAX_PATH_BYTES = 1_000
CALL_COMMITS = 500  # commits of one call: a stop waits for no more
CALL_BYTES = 8 << 20  # output of one call; 5,000 commits of a usual repository have 4 MB
MAX_BYTES = 96 << 20  # output of all calls
MAX_SHALLOW_BYTES = 1 << 20  # ids of the commits at which a shallow clone ends
READ_S = 60.0  # wall time from which no further call is made
_SUBMODULE = b"160000"
_REFERENCE = re.compile(rb"ref: (refs/[^\0\n]{1,1000})\n?")
# Files that repeat facts of the objects are not read: they may differ from these.
_REPEATED = ("-c", "core.commitGraph=false", "-c", "core.multiPackIndex=false")
_MEMORY = 768 << 20  # bytes of address space: indexes of packs are mapped as a whole
# Each commit: its id, its message, and a line of mode and status before each path, all ended by NUL.
# A message has no NUL: git ends it there. `none`: git converts no encoding.
_LOG = (
    *("log", "--stdin", "--no-walk=unsorted", "-z", "--raw", "--no-abbrev", "--root"),
    *("--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--no-decorate"),
    *("--no-notes", "--no-mailmap", "--no-show-signature", "--ignore-submodules=none"),
    *("--encoding=none", "--format=%H%x00%B%x00"),
)
HeadStamp = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class GitHistory:
    """The history of a repository at one HEAD.

    `ids` are the object ids of commits, newest first. `new` has those of them that the caller did
    not have; commits that are left out have no entry. A limit or a stop kept `unread` ones.
    """

    ids: tuple[str, ...]
    new: tuple[Revision, ...]
    unread: tuple[str, ...] = ()


def head_stamp(root: bytes) -> HeadStamp | None:
    """Return a value that changes whenever HEAD of the repository around a root moves.

    None without a repository, or while it cannot be read. Blocking: some calls of `stat`.
    """
    try:
        repository = repository_around(root)
        if repository is None:
            return None
        head = read_regular(
            os.path.join(repository.git_dir, b"HEAD"), limit=MAX_HEAD_BYTES, follow_links=True
        )
        reference = _REFERENCE.fullmatch(head)
        names = [b"packed-refs", b"shallow", *([reference[1]] if reference else [])]
        return repository.git_dir, head, *(_stamp(repository, name) for name in names)
    except OSError:
        return None


def _stamp(repository: Repository, name: bytes) -> tuple[int, ...]:
    """Return the stamp of a file in the common directory; empty if there is none."""
    if b".." in name.split(b"/"):
        return ()
    try:
        status = os.stat(os.path.join(repository.common_dir, name))
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_history(
    root: bytes, known_ids: Collection[str] = (), is_cancelled: Callable[[], bool] = lambda: False
) -> GitHistory:
    """Read the latest commits of the history of HEAD. Blocking: at most some `READ_S`.

    Commits in `known_ids` are not read again. `is_cancelled` is asked between two calls of git: then
    the result has what was read. Raises `NoRepository`, `GitRefused` and `GitUnresponsive`.
    """
    deadline = time.monotonic() + READ_S
    with open_objects(root) as objects:
        ids = _list_ancestors(objects)
        pending = [revision for revision in ids if revision not in known_ids]
        new, unread = _read_revisions(objects, pending, deadline, is_cancelled)
    return GitHistory(ids, tuple(new), tuple(unread))


def _list_ancestors(objects: ObjectReader) -> tuple[str, ...]:
    """Return the ids of the newest ancestors of HEAD, newest first; none before the first commit.

    Without those at which a shallow clone ends: they have no parent there, and so seem to change
    every file.
    """
    try:
        head = objects.find_commit("HEAD")
    except UnknownRevision:
        return ()
    arguments = ("rev-list", "--no-merges", f"--max-count={MAX_COMMITS}", head)
    call = _background(objects.call, arguments, (MAX_COMMITS + 1) * 65)
    ends = _read_shallow_ends(objects)
    return tuple(
        revision for revision in run_git(call).decode("ascii").split() if revision not in ends
    )


def _read_shallow_ends(objects: ObjectReader) -> frozenset[str]:
    """Return the ids of the commits at which a shallow clone ends; none of a complete one."""
    path = objects.call.path_links.get("shallow")
    if path is None:
        return frozenset()
    text = read_regular(path, limit=MAX_SHALLOW_BYTES, follow_links=True)
    return frozenset(text.decode("ascii", "replace").split())


def _background(call: GitCall, arguments: tuple[str, ...], limit: int) -> GitCall:
    return replace(
        call,
        arguments=(*_REPEATED, *arguments),
        output_limit=limit,
        memory=_MEMORY,
        background=True,
    )


def _read_revisions(
    objects: ObjectReader,
    ids: Sequence[str],
    deadline: float,
    is_cancelled: Callable[[], bool],
) -> tuple[list[Revision], Sequence[str]]:
    """Return the commits with these ids that are not left out, and the ids that were not read.

    A commit whose output fills a call by itself is left out, so that each call makes progress.
    """
    read = list[Revision]()
    start = 0
    remaining = MAX_BYTES
    while start < len(ids) and remaining > 0 and time.monotonic() < deadline:
        if is_cancelled():
            break
        part = ids[start : start + CALL_COMMITS]
        call = _background(objects.call, _LOG, CALL_BYTES)
        output = run_git(replace(call, input="\n".join(part).encode(), cut=True))
        remaining -= len(output)
        revisions = list(parse_log(output, objects.prefix))
        if len(output) >= CALL_BYTES:
            revisions.pop()  # the last one is cut
            start += max(1, len(revisions))
        else:
            start += len(part)
        read += filter(None, revisions)
    return read, ids[start:]


def parse_log(output: bytes, prefix: bytes) -> Iterator[Revision | None]:
    """Yield the commits of an output of `_LOG`, with their files below `prefix`.

    None stands for a commit that is left out, because it changed no file, or too many.
    """
    fields = iter(output.split(b"\0"))
    header = _next_field(fields)
    while header:
        message = next(fields, b"")
        paths = list[bytes]()
        entry = _next_field(fields)
        while entry.startswith(b":"):
            path = next(fields, b"")
            if _SUBMODULE not in entry[:14] and len(path) <= MAX_PATH_BYTES:
                paths.append(path)
            entry = _next_field(fields)
        yield _make_revision(header, message, paths, prefix)
        header = entry


def _next_field(fields: Iterator[bytes]) -> bytes:
    """Return the next field that is not empty, without the line break before it; empty at the end."""
    return next(filter(None, (field.lstrip(b"\n") for field in fields)), b"")


def _make_revision(
    header: bytes, message: bytes, paths: Sequence[bytes], prefix: bytes
) -> Revision | None:
    below = [path.removeprefix(prefix) for path in paths if path.startswith(prefix)]
    if not below or len(paths) > MAX_COMMIT_FILES:
        return None
    # a character has at most four bytes
    text = message[: 4 * MAX_MESSAGE].decode("utf-8", "replace")[:MAX_MESSAGE]
    return Revision(header.decode("ascii", "replace"), text, tuple(map(path_text, below)))
