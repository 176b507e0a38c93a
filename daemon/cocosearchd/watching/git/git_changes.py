"""The changed lines of a repository: of its work tree, or between two of its commits.

git reads the repository's objects, references and index, and compares them with the files. It does
not read the repository's configuration: see `git_command`.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from cocosearchd.forms.path_forms import path_bytes, path_text
from cocosearchd.watching.git.git_command import GitRefused, GitUnresponsive, run_git
from cocosearchd.watching.git.git_index import open_index, tracked_paths
from cocosearchd.watching.git.object_reader import (
    OBJECT_ID_BYTES,
    ObjectReader,
    UnknownRevision,
    open_objects,
)

ChangeKind = Literal["added", "deleted", "modified"]

MAX_LIST_BYTES = 32 << 20  # of the list of changed files: about 200,000 files
MAX_DIFF_BYTES = 32 << 20
# Bounds on contents that are read from a commit: of one file, and of all files of a call.
MAX_TEXT_BYTES = 1 << 20
MAX_TEXTS_BYTES = 16 << 20
# Changed files whose lines are compared; of further files only the names are given.
MAX_COMPARED = 2_000
# Bytes of the paths that one call of git gets. Linux allows 2 MiB of arguments and variables with the
# usual limit of the stack, macOS 1 MiB: execve(2). A path may have 4,096 bytes.
MAX_ARGUMENT_BYTES = 256 << 10
_ARGUMENT_BYTES = 9  # of an argument beside its text: a NUL and a pointer
MAX_REVISION = 200  # characters
_LINK_MODE = b"120000"  # of symbolic links
_STATUS: Mapping[bytes, ChangeKind] = {b"A": "added", b"D": "deleted"}
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}
# git does not compare a file above the threshold: it counts as changed in all its lines.
_DIFF = (
    "-c",
    "core.bigFileThreshold=16m",
    "-c",
    "core.commitGraph=false",
    "-c",
    "core.multiPackIndex=false",
    "diff",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
    "--no-relative",
    "--ignore-submodules=all",
    "--ignore-cr-at-eol",
)


class LineHunk(NamedTuple):
    """Changed lines from 1; a side without lines (its count is 0) names the line before them."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int


@dataclass(frozen=True, slots=True)
class GitFileChange:
    """A changed file, with its path below the root, as in an index.

    `hunks` lead from the first commit to the second, or to the file on disk; `hunks_to_disk` from the
    second commit to the file on disk. Only modified files are compared, and at most `MAX_COMPARED`:
    without a comparison `hunks` is None.
    """

    path: str
    kind: ChangeKind
    hunks: tuple[LineHunk, ...] | None = None
    hunks_to_disk: tuple[LineHunk, ...] = ()


@dataclass(frozen=True, slots=True)
class GitChanges:
    """Changed files by path. `head` is None if the files on disk were compared with `base`.

    `tracked` has the paths that git tracks below the root; others are new, or ignored.
    """

    base: str  # object ids of commits
    head: str | None
    files: tuple[GitFileChange, ...]
    tracked: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Revisions:
    """Two revisions as a user names them; without `head`, the files on disk are meant."""

    base: str
    head: str | None
    from_common: bool = False  # from the last common ancestor of both


def read_changes(root: bytes, revisions: str) -> GitChanges:
    """Compare commits, or one commit with the files on disk. Blocking: some processes of git.

    `revisions` is one revision, such as "HEAD", or a range such as "main..HEAD" or "main...topic".
    Raises `NoRepository`, `UnknownRevision`, `GitRefused` and `GitUnresponsive`.
    """
    names = _parse_revisions(revisions)
    with open_objects(root) as objects:
        return _ChangeReader(objects).read(names)


def read_texts(root: bytes, commit: str, paths: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of files as a commit has them. Blocking: two processes of git.

    The result leaves out paths that are no regular files in the commit, contents of more than
    `MAX_TEXT_BYTES`, and all contents after the first `MAX_TEXTS_BYTES` bytes. Raises as
    `read_changes`.
    """
    if not paths:  # git would list all
        return {}
    with open_objects(root) as objects:
        return _ChangeReader(objects).read_texts(commit, paths)


def _parse_revisions(text: str) -> _Revisions:
    """Parse a revision or a range. Raises `UnknownRevision`."""
    if not text.isprintable() or len(text) > MAX_REVISION:
        raise UnknownRevision(f"{text[:60]!r} is not a revision")
    base, dots, head = text.partition("...")
    if not dots:
        base, dots, head = text.partition("..")
    return _Revisions(base or "HEAD", (head or "HEAD") if dots else None, dots == "...")


@dataclass(frozen=True, slots=True)
class _ChangeReader:
    """Reads changes and contents with calls of git over the objects of one repository."""

    objects: ObjectReader

    def read(self, names: _Revisions) -> GitChanges:
        """Compare two commits, or a commit with the files on disk, below a directory."""
        base = self.objects.find_commit(names.base)
        head = self.objects.find_commit(names.head) if names.head is not None else None
        if names.from_common and head is not None:
            base = self._common_ancestor(base, head, names)
        prefix = self.objects.prefix
        commits = (base,) if head is None else (base, head)
        kinds = self._kinds(commits, prefix)
        compared = [path for path, kind in kinds.items() if kind == "modified"][:MAX_COMPARED]
        # a file in which only its mode or its line ends differ has no changed lines
        hunks = {**dict.fromkeys(compared, ()), **self._hunks(commits, compared)}
        later = self._hunks((head,), list(kinds)[:MAX_COMPARED]) if head is not None else {}
        tracked = tracked_paths(self.objects.repository.git_dir, self.objects.object_format)
        files = tuple(
            GitFileChange(_relative_path(path, prefix), kind, hunks.get(path), later.get(path, ()))
            for path, kind in sorted(kinds.items())
        )
        tracked_below = frozenset(
            _relative_path(path, prefix) for path in tracked if path.startswith(prefix)
        )
        return GitChanges(base, head, files, tracked_below)

    def read_texts(self, commit: str, paths: Sequence[str]) -> dict[str, bytes]:
        """Return contents by path below a directory."""
        prefix = self.objects.prefix
        blobs = dict(self._blobs(commit, [prefix + path_bytes(path) for path in paths]))
        ids = dict.fromkeys(blobs.values())
        if not ids:
            return {}
        call = replace(
            self.objects.call,
            arguments=("cat-file", "--batch"),
            input="".join(f"{blob}\n" for blob in ids).encode("ascii"),
            # each content has a line before it, and a line break after it
            output_limit=MAX_TEXTS_BYTES + len(ids) * OBJECT_ID_BYTES,
            memory=self.objects.call.memory + 2 * MAX_TEXT_BYTES,
        )
        texts = dict(_split_objects(run_git(call)))
        return {
            _relative_path(path, prefix): texts[blob]
            for path, blob in blobs.items()
            if blob in texts
        }

    def _blobs(self, commit: str, paths: Sequence[bytes]) -> Iterator[tuple[bytes, str]]:
        """Yield the paths of files that are not too large, each with its object id."""
        remaining = MAX_TEXTS_BYTES
        for entry in self._tree_entries(commit, paths):
            description, _, path = entry.partition(b"\t")
            mode, kind, blob, size = description.split()
            if kind != b"blob" or mode == _LINK_MODE or int(size) > MAX_TEXT_BYTES:
                continue
            remaining -= int(size)
            if remaining < 0:
                break
            yield path, blob.decode("ascii")

    def _tree_entries(self, commit: str, paths: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the entries of some paths in the tree of a commit, as `git ls-tree` prints them."""
        for names in _argument_groups(paths):
            call = replace(
                self.objects.call,
                arguments=("ls-tree", "-r", "-z", "-l", "--full-tree", commit, "--", *names),
                output_limit=MAX_LIST_BYTES,
            )
            yield from run_git(call).split(b"\0")[:-1]

    def _common_ancestor(self, base: str, head: str, names: _Revisions) -> str:
        arguments = ("merge-base", base, head)
        try:
            return run_git(replace(self.objects.call, arguments=arguments)).decode("ascii").strip()
        except GitUnresponsive as error:
            raise UnknownRevision(
                f"{names.base} and {names.head} have no common ancestor here"
            ) from error

    def _kinds(self, commits: tuple[str, ...], prefix: bytes) -> dict[bytes, ChangeKind]:
        """Return the changed paths below a directory with the kinds of their changes."""
        scope = (os.fsdecode(prefix),) if prefix else ()
        arguments = ("--raw", "-z", "--abbrev=40", *commits, "--", *scope)
        fields = self._diff(arguments, MAX_LIST_BYTES, len(commits) == 1).split(b"\0")
        return {
            path: _STATUS.get(entry.rpartition(b" ")[2][:1], "modified")
            for entry, path in zip(fields[::2], fields[1::2], strict=False)
        }

    def _hunks(
        self, commits: tuple[str, ...], paths: Sequence[bytes]
    ) -> dict[bytes, tuple[LineHunk, ...]]:
        """Return the changed lines of some files."""
        arguments = ("--patch", "--unified=0", "--src-prefix=a/", "--dst-prefix=b/", *commits, "--")
        hunks = dict[bytes, tuple[LineHunk, ...]]()
        remaining = MAX_DIFF_BYTES
        for names in _argument_groups(paths):
            patch = self._diff((*arguments, *names), remaining, len(commits) == 1)
            remaining -= len(patch)
            hunks |= parse_patch(patch)
        return hunks

    def _diff(self, arguments: tuple[str, ...], limit: int, with_files: bool) -> bytes:
        """Run `git diff`; with the files on disk it reads the index, too."""
        call = replace(self.objects.call, arguments=(*_DIFF, *arguments), output_limit=limit)
        call = replace(call, memory=call.memory + 8 * limit)
        if not with_files:
            return run_git(call)
        with open_index(self.objects.repository.git_dir, self.objects.object_format) as index:
            if index is None:
                raise GitRefused("the repository has no index: nothing was added to it yet")
            return run_git(
                replace(
                    call,
                    arguments=(*index.options, *call.arguments),
                    texts={**call.texts, **index.texts},
                    links=index.shared,
                    index=index.descriptor,
                    work_tree=self.objects.repository.top,
                    memory=call.memory + index.memory,
                )
            )


def _argument_groups(paths: Sequence[bytes]) -> Iterator[tuple[str, ...]]:
    """Split paths into groups that fit into the arguments of one call of git."""
    group = list[bytes]()
    remaining = MAX_ARGUMENT_BYTES
    for path in paths:
        remaining -= len(path) + _ARGUMENT_BYTES
        if group and remaining < 0:
            yield tuple(map(os.fsdecode, group))
            group = []
            remaining = MAX_ARGUMENT_BYTES - len(path) - _ARGUMENT_BYTES
        group.append(path)
    if group:
        yield tuple(map(os.fsdecode, group))


def _split_objects(batch: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield id and content of the objects that `cat-file --batch` prints; missing ones have none."""
    position = 0
    while position < len(batch):
        end = batch.index(b"\n", position)
        blob, *description = batch[position:end].split(b" ")
        position = end + 1
        if len(description) == 2:  # kind and size
            size = int(description[1])
            yield blob.decode("ascii"), batch[position : position + size]
            position += size + 1


def parse_patch(patch: bytes) -> Iterator[tuple[bytes, tuple[LineHunk, ...]]]:
    """Yield each file of a patch without context, with its changed lines.

    The lines of a hunk are counted, so that no content is read as a header. A binary file has none.
    """
    path: bytes | None = None
    hunks = list[LineHunk]()
    content = 0  # lines of the hunk that are still to come
    for line in patch.split(b"\n"):
        if content:
            content -= not line.startswith(b"\\")
        elif line.startswith(b"--- "):
            if path is not None:
                yield path, tuple(hunks)
            path, hunks = _header_path(line[4:], b"a/"), []
        elif line.startswith(b"+++ "):
            path = _header_path(line[4:], b"b/") or path
        elif match := _HUNK.match(line):
            numbers = [int(group) if group is not None else 1 for group in match.groups()]
            hunks.append(LineHunk(*numbers))
            content = numbers[1] + numbers[3]
    if path is not None:
        yield path, tuple(hunks)


def _header_path(text: bytes, prefix: bytes) -> bytes | None:
    """Return the path of a header, None for `/dev/null`. Strange names are quoted as in C."""
    name = text.rstrip(b"\t")  # git ends a name with blanks by a tab
    if name.startswith(b'"') and name.endswith(b'"'):
        name = _ESCAPE.sub(_unescape, name[1:-1])
    return name.removeprefix(prefix) if name.startswith(prefix) else None


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _ESCAPED.get(code, code)


def _relative_path(path: bytes, prefix: bytes) -> str:
    return path_text(path.removeprefix(prefix))
