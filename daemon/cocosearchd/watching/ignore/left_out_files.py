"""Counts the files of a root that are out of scope, by the kind of rule that leaves them out.

The counts explain why an index is empty. The walk is bounded in files and in time.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.exclusion import ScopeCode
from cocosearchd.runtime.files.nofollow import opened_directory
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.ignore.unindexed_files import deciding_rule

MAX_COUNTED_FILES = 1000
WALK_S = 0.5  # an answer waits for it


@dataclass(frozen=True, slots=True)
class LeftOutFiles:
    """Numbers of files by kind of rule; lower bounds unless the count is complete."""

    counts: Mapping[str, int]  # by `ScopeCode`
    is_complete: bool


def count_left_out(
    scope: RootScope, settings: IndexingSettings, budget_s: float = WALK_S
) -> LeftOutFiles:
    """Count the files that the rules of the root or these settings leave out. Blocking.

    Raises `OSError` if the rules cannot be read now.
    """
    end = time.monotonic() + budget_s
    counts = Counter[str]()
    directories: list[tuple[bytes, ScopeCode | None]] = [(b"", None)]
    while directories:
        directory, directory_code = directories.pop()
        for path, is_directory in _entries(scope.root, directory):
            if counts.total() >= MAX_COUNTED_FILES or time.monotonic() >= end:
                return LeftOutFiles(counts, is_complete=False)
            code = directory_code or _code(scope, settings, path, is_directory=is_directory)
            if is_directory:
                directories.append((path, code))
            elif code is not None:
                counts[code] += 1
    return LeftOutFiles(counts, is_complete=True)


def _code(
    scope: RootScope, settings: IndexingSettings, path: bytes, *, is_directory: bool
) -> ScopeCode | None:
    rule = deciding_rule(scope, settings, path + b"/" if is_directory else path)
    return rule.code if rule else None


def _entries(root: bytes, directory: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield files and directories, with True for directories, but nothing of a `.git`.

    A directory that cannot be read has no entries: the status of the root names it.
    """
    try:
        with (
            opened_directory(os.path.join(root, directory)) as handle,
            os.scandir(handle) as listing,
        ):
            for entry in listing:
                path = os.path.join(directory, os.fsencode(entry.name))
                if entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                    yield path, True
                elif entry.is_file(follow_symlinks=False) and entry.name != ".git":
                    yield path, False
    except OSError:
        return
