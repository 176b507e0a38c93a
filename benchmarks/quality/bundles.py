"""Share of a fix that an answer within a token budget shows: its files and its lines.

The lines come from the history of the repository: the change whose message names the number of
the case, `#123`. Lines are those of the old side; a line that is only added counts as the line
above it. Cases without such a change, and files that a change only adds, have no lines.
"""

import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from cocosearch_ipc.render.line_range import extent
from cocosearchd.search.answers.clipped_lines import ELLIPSIS

Lines = Mapping[str, set[int]]  # path -> numbers of lines, from 1
_NUMBER = re.compile(r"#(\d+)")
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? ", re.MULTILINE)


class FixHistory:
    """The changes of a repository by the numbers that their messages name, read once at first use."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository

    @cached_property
    def _changes_by_number(self) -> dict[str, list[list[str]]]:
        log = _git(self._repository, "log", "--all", "--format=%x01%H %P%x02%B")
        return _changes_by_number(log)

    def changed_lines(self, number: str, paths: Sequence[str]) -> dict[str, set[int]]:
        """Return the lines of files that the change with a number has changed."""
        revisions = _revisions(self._changes_by_number.get(number, []))
        if not revisions:
            return {}
        lines = defaultdict[str, set[int]](set)
        for path in paths:
            diff = _git(self._repository, "diff", "-U0", revisions, "--", path)
            for start, count in _HUNK.findall(diff):
                first = max(1, int(start))
                lines[path].update(range(first, first + max(1, int(count or 1))))
        return dict(lines)


def _changes_by_number(log: str) -> dict[str, list[list[str]]]:
    """Return commits with their parents, in the order of the log, by each number in the message."""
    changes = defaultdict[str, list[list[str]]](list)
    for entry in log.split("\x01")[1:]:
        commits, _, message = entry.partition("\x02")
        for number in dict.fromkeys(_NUMBER.findall(message)):
            changes[number].append(commits.split())
    return dict(changes)


def _revisions(changes: Sequence[Sequence[str]]) -> str:
    """Return the oldest merge or else the oldest commit as revisions to compare; "" without any."""
    merges = [commits for commits in changes if len(commits) == 3]
    singles = [commits for commits in changes if len(commits) == 2]
    if merges:
        _, ours, theirs = merges[-1]
        return f"{ours}...{theirs}"
    if singles:
        commit, parent = singles[-1]
        return f"{parent}..{commit}"
    return ""


def shown_lines(reply: Mapping[str, Any]) -> dict[str, set[int]]:
    """Return the lines that an answer shows; of a file that it only names, none."""
    lines = defaultdict[str, set[int]](set)
    for hit in reply["results"]:
        for entry in hit.get("also") or ():
            if entry.get("content"):
                lines[hit["path"]].update(range(entry["start_line"], entry["end_line"] + 1))
        visible_lines = lines[hit["path"]]  # empty for a file that is only named
        if hit["content"]:
            content = hit["content"].split("\n")
            last = hit["start_line"] + len(content) - 1 - (content[-1] == ELLIPSIS)
            context = (hit.get("context_before") or "", hit.get("context_after") or "")
            first, last = extent(context[0], hit["start_line"], last, context[1])
            visible_lines.update(range(first, last + 1))
    return dict(lines)


def share_shown(changed: Lines, visible: Lines) -> float | None:
    """Return the share of the changed lines that are shown; None without any."""
    total = sum(map(len, changed.values()))
    if not total:
        return None
    return sum(len(lines & visible.get(path, set())) for path, lines in changed.items()) / total


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", f"--git-dir={repository}", *arguments]
    output = subprocess.run(command, check=True, capture_output=True).stdout
    return output.decode("utf-8", "replace")
