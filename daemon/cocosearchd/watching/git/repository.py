"""What is known of the git repository around or below a root, without changing anything in it.

Facts that are files are read as files, with care: their author is not trusted. git itself is asked
for what only it knows, by `git_command`: its configuration, and what it tracks. Without git, or in
a repository that is refused, those are empty. That git fails in another way says nothing of the
repository: see `GitTrouble`.
"""

import contextlib
import itertools
import mmap
import os
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from cocosearchd.model import encode_path
from cocosearchd.runtime.files.regular_files import (
    IrregularFile,
    open_regular,
    passes,
    read_regular,
)
from cocosearchd.watching.git.git_command import (
    MEMORY_BYTES,
    GitCall,
    GitRefused,
    GitSilent,
    run_git,
    trusted_owners,
    user_config_files,
    user_excludes_file,
)
from cocosearchd.watching.git.git_config import GitConfig, UserConfig, read_git_config
from cocosearchd.watching.git.ignore_files import (
    IgnoreText,
    read_ignore_file,
    read_ignore_file_inside,
)

# Until git is asked again. A refusal ends by a change of permissions or of git itself, which no
# stamp shows.
RETRY_S, RETRY_MAX_S, REFUSED_S = 0.5, 30.0, 600.0
MAX_INDEX_BYTES = 256 << 20  # chromium's, of 480,000 files, has 70 MB
MAX_POINTER_BYTES = 8192  # of a `.git` file: a path and `gitdir: `; PATH_MAX is 4096
MAX_SHARED = 16  # parts of a split index that are looked for
# The extension that names the other part of a split index: its size, and an object id
# (gitformat-index(5)). The options let git leave the directories of a sparse index (`sdir`) as they
# are, for which it needs no objects.
_SPARSE = (
    "-c",
    "core.sparseCheckout=true",
    "-c",
    "core.sparseCheckoutCone=true",
    "-c",
    "index.sparse=true",
)
_LINK = re.compile(rb"link.{4}(.{20})(.{12})?", re.DOTALL)
Stamp = tuple[int, int, int, int]  # inode, size, mtime and ctime
Signature = tuple[Stamp | None, ...]


@dataclass(frozen=True, slots=True)
class GitTrouble:
    """Why git gave no answer. If it `passes`, what git said before holds meanwhile; else git has
    nothing to say.

    `again_at` is of the monotonic clock.
    """

    why: str
    passes: bool
    pause_s: float
    again_at: float

    @classmethod
    def of(cls, error: GitRefused | GitSilent, before: "GitTrouble | None") -> "GitTrouble":
        """`before`: what the question met the last time."""
        passes = isinstance(error, GitSilent)
        pause = (
            min(before.pause_s * 2, RETRY_MAX_S)
            if before is not None and before.passes
            else RETRY_S
        )
        pause = pause if passes else REFUSED_S
        return cls(str(error), passes, pause, time.monotonic() + pause)

    @property
    def due(self) -> bool:
        """Whether git is to be asked again."""
        return time.monotonic() >= self.again_at


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree: `top` is its directory, `git_dir` its own git directory, `common_dir` the one
    worktrees share.
    """

    top: bytes
    git_dir: bytes
    common_dir: bytes


@dataclass(frozen=True, slots=True)
class GitRules:
    """What shapes the ignore rules of a repository, beside the `.gitignore` files in its tree.

    `tracked` are relative to `top`: git never ignores what it tracks. `configured_at` is the
    `signature` that `config` was read under, `read_at` the one that all of this was: while it
    holds, the rules do. With a `trouble` they are not known to be those of now; `unknown` rules
    hide everything. `remarks` say what of the repository was not used.
    """

    repository: Repository
    exclude_files: tuple[bytes, ...]  # absolute, the one with precedence first
    excludes: tuple[bytes, ...]  # their contents
    ignore_case: bool
    tracked: tuple[bytes, ...] = field(repr=False)  # sorted
    config: GitConfig = field(default_factory=GitConfig, repr=False)
    configured_at: Signature = field(default=(), repr=False, compare=False)
    read_at: Signature = field(default=(), repr=False, compare=False)
    trouble: GitTrouble | None = field(default=None, compare=False)
    remarks: tuple[str, ...] = ()
    unknown: bool = False

    @property
    def files(self) -> tuple[bytes, ...]:
        """Which a `signature` is to be taken of."""
        return (*self.exclude_files, *self.config.files)

    def keeps(self, path: bytes) -> bool:
        """Whether git tracks a file, or a directory (its path ends in `/`): something in it, or a
        submodule there.
        """
        at = bisect_left(self.tracked, path)
        if at < len(self.tracked) and self.tracked[at].startswith(path):
            return path.endswith(b"/") or self.tracked[at] == path
        return path.endswith(b"/") and self.keeps(path[:-1])


def repository_at(directory: bytes) -> Repository | None:
    """The repository whose work tree starts at `directory`. Raises `OSError` if that cannot be
    known now.
    """
    marker = os.path.join(directory, b".git")
    git_dir = marker if os.path.isdir(marker) else _pointer(marker, directory, b"gitdir: ")
    if git_dir is None:
        return None
    common = _pointer(os.path.join(git_dir, b"commondir"), git_dir) or git_dir
    parts = (
        os.path.join(git_dir, b"HEAD"),
        os.path.join(common, b"objects"),
        os.path.join(common, b"refs"),
    )
    # as git sees it
    return Repository(directory, git_dir, common) if all(map(os.path.exists, parts)) else None


def marker_remark(directory: bytes) -> str:
    """Say why the `.git` of a directory is not used, if it is neither a directory nor a file that
    names one.
    """
    marker = os.path.join(directory, b".git")
    if os.path.isdir(marker):
        return ""
    try:
        named = b"\0" not in read_regular(marker, limit=MAX_POINTER_BYTES, follow_links=True)
    except IrregularFile as error:
        return f"{encode_path(marker)} is not used: {error.strerror}"
    except OSError:  # it is gone, or may be read soon
        return ""
    return "" if named else f"{encode_path(marker)} is not used: it has a NUL"


def repository_around(directory: bytes) -> Repository | None:
    """The repository whose work tree holds `directory`, nearest first."""
    while True:
        found = repository_at(directory)
        if found is not None:
            return found
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def read_rules(
    repository: Repository, user: Callable[[], UserConfig], before: GitRules | None = None
) -> GitRules:
    """Ask git; `before` is what it said the last time. Blocking: one short process, two where it is
    configured anew.

    What git fails to say is as it was before. Without a configuration of before everything counts
    as ignored: nothing that one hides is to come into an index because git could not be asked.
    """
    met = before.trouble if before is not None else None
    try:
        rules, refusal = _configured(repository, user, before)
    except GitSilent as error:
        files = (_info_exclude(repository),)
        nothing = GitRules(repository, files, (b"*",), ignore_case=False, tracked=(), unknown=True)
        return replace(before or nothing, trouble=GitTrouble.of(error, met))
    try:
        if refusal is not None:
            raise refusal
        return replace(rules, tracked=_tracked(repository, rules.config.object_format))
    except GitRefused as error:
        return replace(rules, trouble=GitTrouble.of(error, met))
    except GitSilent as error:
        return replace(
            rules, tracked=before.tracked if before else (), trouble=GitTrouble.of(error, met)
        )


def outdated(rules: GitRules) -> bool:
    """Whether the rules may have changed, or git is to be asked again. A few `stat` calls."""
    late = rules.trouble is not None and rules.trouble.due
    return late or signature(rules.repository, rules.files) != rules.read_at


def signature(repository: Repository, files: tuple[bytes, ...]) -> Signature:
    """Changes whenever the rules of the repository may have changed; `files` of the rules. A few
    `stat` calls.
    """
    return (
        stamp(os.path.join(repository.git_dir, b"index")),
        *_config_signature(repository, files),
    )


def _config_signature(repository: Repository, files: tuple[bytes, ...]) -> Signature:
    """Changes whenever the configuration of the repository may have changed; `files` it comes
    from.
    """
    watched = (
        os.path.join(repository.common_dir, b"config"),
        os.path.join(repository.git_dir, b"config.worktree"),
        *files,
        *user_config_files(),
    )
    return tuple(stamp(path) for path in dict.fromkeys(watched))


def stamp(path: bytes) -> Stamp | None:
    """Of a file, None where there is none: another one means that it may have changed. The times of
    a file that was written may be set back (`touch -r`, `rsync -t`), but for that of its inode.
    """
    try:
        return stamp_of(os.stat(path))
    except OSError:
        return None


def stamp_of(found: os.stat_result) -> Stamp:
    """As `stamp`, of what was found."""
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _pointer(file: bytes, base: bytes, prefix: bytes = b"") -> bytes | None:
    """The path that a one-line file holds, relative to `base`. Raises `OSError` if that cannot be
    known now.
    """
    try:
        line = read_regular(file, limit=MAX_POINTER_BYTES, follow_links=True).rstrip(b"\r\n")
    except OSError as error:
        if passes(error):
            raise
        return None
    if not line.startswith(prefix) or b"\0" in line:
        return None
    return os.path.normpath(os.path.join(base, line.removeprefix(prefix)))


def _info_exclude(repository: Repository) -> bytes:
    return os.path.join(repository.common_dir, b"info", b"exclude")


def _configured(
    repository: Repository, user: Callable[[], UserConfig], before: GitRules | None
) -> tuple[GitRules, GitRefused | None]:
    """The rules, but for what is tracked, and why that is not to be asked. Raises `GitSilent`."""
    files = before.config.files if before is not None else ()
    configured_at, refusal = _config_signature(repository, files), None
    if before is not None and before.configured_at == configured_at and before.trouble is None:
        config = before.config
    else:
        config, refusal = _read_config(repository, user)
    texts = tuple(_exclude_texts(repository, config))
    rules = GitRules(
        repository,
        tuple(file for file, _ in texts),
        tuple(text.content for _, text in texts),
        config.ignore_case,
        tracked=(),
        config=config,
        configured_at=configured_at,
        remarks=(*config.remarks, *(text.remark for _, text in texts if text.remark)),
    )
    return rules, refusal


def _read_config(
    repository: Repository, user: Callable[[], UserConfig]
) -> tuple[GitConfig, GitRefused | None]:
    """The configuration, empty where it is refused, and why it is. Raises `GitSilent`.

    The repository's own holds where the user's is refused: what it hides stays hidden.
    """
    places = (repository.top, repository.git_dir, repository.common_dir)
    try:
        users, refusal = user(), None
    except GitRefused as error:
        users, refusal = UserConfig(), error
    try:
        foreign = _foreign(repository, users)
        return read_git_config(*places, users, trusted=foreign is None), refusal or foreign
    except GitRefused as error:
        return GitConfig(), error
    except OSError as error:
        raise GitSilent(
            f"{encode_path(os.fsencode(error.filename or b'.git'))}: {error.strerror}"
        ) from error


def _foreign(repository: Repository, user: UserConfig) -> GitRefused | None:
    """Why a repository is refused that belongs to somebody else, as git refuses it: CVE-2022-24765,
    safe.directory.
    """
    top = os.path.realpath(repository.top)
    for place in (repository.top, os.path.join(repository.top, b".git"), repository.git_dir):
        with contextlib.suppress(OSError):  # what is gone belongs to nobody
            owner = os.lstat(place).st_uid
            if owner not in trusted_owners() and not user.trusts(top):
                return GitRefused(
                    f"dubious ownership: {encode_path(place)} belongs to user {owner}; if you trust it: "
                    f"git config --global --add safe.directory {encode_path(top)}"
                )
    return None


def _exclude_texts(repository: Repository, config: GitConfig) -> Iterator[tuple[bytes, IgnoreText]]:
    """Each file of patterns beside the tree, and what it holds. Raises `GitSilent`."""
    inside = (repository.top, repository.git_dir, repository.common_dir)
    chosen = config.excludes_file if config.excludes_file is not None else user_excludes_file()
    try:
        exclude = _info_exclude(repository)
        yield exclude, read_ignore_file_inside(exclude, inside)
        if chosen and config.excludes_inside:
            yield chosen, read_ignore_file_inside(chosen, inside)
        elif chosen:
            yield chosen, read_ignore_file(chosen, follow_links=True)
    except OSError as error:
        raise GitSilent(
            f"{encode_path(os.fsencode(error.filename or b'.git'))}: {error.strerror}"
        ) from error


def _tracked(repository: Repository, object_format: str) -> tuple[bytes, ...]:
    """The paths in the index of a repository, sorted. Raises `GitRefused` and `GitSilent`."""
    path = os.path.join(repository.git_dir, b"index")
    with contextlib.ExitStack() as stack:
        try:
            index = _descriptor(path, stack)
            size = os.fstat(index).st_size
            sparse, identifiers = _extensions(index, object_format)
            shared = dict(_shared_indexes(repository, identifiers, stack))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            kind = GitSilent if passes(error) else GitRefused
            raise kind(f"{encode_path(path)}: {error.strerror}") from error
        size += sum(os.fstat(descriptor).st_size for descriptor in shared.values())
        call = GitCall(
            arguments=(
                *(_SPARSE if sparse else ()),
                "ls-files",
                "-z",
                "--cached",
                *(["--sparse"] if sparse else []),
            ),
            texts={"info/sparse-checkout": b"/*\n!/*/\n"} if sparse else {},
            index=index,
            links=shared,
            object_format=object_format,
            memory=MEMORY_BYTES + 8 * size,
            output_limit=MEMORY_BYTES + 8 * size,
        )
        return tuple(sorted(set(filter(None, run_git(call).split(b"\0")))))


def _descriptor(path: bytes, stack: contextlib.ExitStack) -> int:
    descriptor = open_regular(path, limit=MAX_INDEX_BYTES)
    stack.callback(os.close, descriptor)
    return descriptor


def _extensions(index: int, object_format: str) -> tuple[bool, tuple[bytes, ...]]:
    """Whether an index may be sparse, and the object ids that may name the other part of a split
    one.

    What only looks like an extension changes nothing for others: there is no such file, or no
    directory is left out.
    """
    if not os.fstat(index).st_size:
        return False, ()
    with mmap.mmap(index, 0, access=mmap.ACCESS_READ) as content:
        links = itertools.islice(_LINK.finditer(content), MAX_SHARED)
        identifiers = [
            link[1] + (link[2] or b"") if object_format == "sha256" else link[1] for link in links
        ]
        return content.find(b"sdir\0\0\0\0") >= 0, tuple(dict.fromkeys(identifiers))


def _shared_indexes(
    repository: Repository, identifiers: tuple[bytes, ...], stack: contextlib.ExitStack
) -> Iterator[tuple[str, int]]:
    """Name and descriptor of each other part of a split index that is there: `sharedindex.<object
    id>`.
    """
    for identifier in identifiers:
        name = f"sharedindex.{identifier.hex()}"
        with contextlib.suppress(FileNotFoundError):
            yield name, _descriptor(os.path.join(repository.git_dir, name.encode()), stack)
