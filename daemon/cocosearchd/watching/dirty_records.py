"""Records of the dirty set: dirty paths, batches of them, and directories to be scanned."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

# inode, size, mtime_ns, ctime_ns and mode; or the number of the error that `stat` ended with
FileStamp = tuple[int, ...] | int | None


def file_stamp(status: os.stat_result) -> FileStamp:
    """Return the stamp of a file: it differs after each change of the file."""
    s = status
    return s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_mode


@dataclass(frozen=True, slots=True)
class DirtyBatch:
    """Paths to bring to the index: `paths` are to be read, `gone` are to be deleted.

    `stamps` are taken before the read: a later change of a file gives another stamp.
    """

    id: int
    paths: tuple[str, ...]
    gone: tuple[str, ...] = ()
    force: bool = False
    urgent: bool = False
    stamps: Mapping[str, FileStamp] = field(default_factory=dict)


@dataclass(slots=True)
class DirtyTree:
    """A directory to be scanned. `urgent`: because of a hint, not of a timer."""

    path: str
    since: int
    urgent: bool = False


@dataclass(slots=True)
class DirtyPath:
    """The state of one path of the dirty set."""

    seq: int
    since: int
    urgent: bool
    force: bool
    may_be_stored: bool  # see `PickedPaths`
    batch: int = 0  # the id of its batch; 0: not handed out
    marked_in_flight: int = 0  # seq of the first mark since it was handed out; 0: none
    tries: int = 0
    error: str | None = None
    retry_at: float | None = None  # None with an error: only a change of the file helps
    outage: bool = False  # failed together with all other paths of its batch


@dataclass(frozen=True, slots=True)
class PickedPaths:
    """Paths that were handed out; `seqs` are their numbers at that moment.

    `maybe_stored` are the paths that may be in the index: a scan has named them, or they failed and may
    have been written all the same.
    """

    id: int
    seqs: Mapping[str, int]
    maybe_stored: frozenset[str]
    force: bool
    urgent: bool


@dataclass(eq=False, slots=True)
class RunningScan:
    """A scan that has begun."""

    trees: tuple[DirtyTree, ...]
    overlapping: set[str] = field(default_factory=set)  # in flight at any time during the scan


def is_at_or_below(path: str, tree: str) -> bool:
    """Return whether a path is a tree or in it; "" is the root."""
    return not tree or path == tree or path.startswith(tree + "/")
