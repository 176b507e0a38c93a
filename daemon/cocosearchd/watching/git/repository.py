"""Reads the git repository around or below a root, without changing anything in it.

Its files are read with care: their author is not trusted. git itself is asked, by `git_command`,
only for the configuration and for the tracked paths. Both are empty without git, and for a
repository that is refused. Any other failure proves nothing about the repository: see `GitFailure`.
"""

import contextlib
import os
import stat
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from cocosearchd.forms.path_forms import path_text
from cocosearchd.runtime.files.nofollow import without_links
from cocosearchd.runtime.files.regular_files import (
    IrregularFile,
    is_temporary_error,
    read_regular,
)
from cocosearchd.watching.git.git_command import (
    GitRefused,
    GitUnresponsive,
    trusted_owners,
    user_config_files,
    user_excludes_file,
)
from cocosearchd.watching.git.git_config import GitConfig, UserConfig, read_git_config
from cocosearchd.watching.git.git_index import tracked_paths
from cocosearchd.watching.git.stamps import (
    OwnStatuses,
    Signature,
    Stamp,
    StampedFile,
    own_files,
    read_signature,
)
from cocosearchd.watching.ignore_files import (
    IgnoreText,
    read_ignore_file,
    read_ignore_file_inside,
)

# Pauses until git is asked again. A refusal ends when permissions or git itself change, and no stamp
# shows that.
GIT_RETRY_S = 0.5
RETRY_MAX_S = 30.0
REFUSED_S = 600.0
MAX_POINTER_BYTES = 8192  # of a `.git` file: a path and `gitdir: `; PATH_MAX is 4096
MarkerStamps = dict[StampedFile, Stamp | None]  # of the files that make a `.git` a repository


@dataclass(frozen=True, slots=True)
class GitFailure:
    """The reason why git gave no answer.

    During a `transient` failure git's last answers hold; else git has no answers. `retry_at` is of
    the monotonic clock.
    """

    reason: str
    transient: bool
    pause_s: float
    retry_at: float

    @classmethod
    def from_error(
        cls, error: GitRefused | GitUnresponsive, last: "GitFailure | None"
    ) -> "GitFailure":
        """Make the failure of a question to git; `last` is its previous failure, if it had one."""
        transient = isinstance(error, GitUnresponsive)
        if not transient:
            pause_s = REFUSED_S
        elif last is not None and last.transient:
            pause_s = min(last.pause_s * 2, RETRY_MAX_S)
        else:
            pause_s = GIT_RETRY_S
        return cls(str(error), transient, pause_s, time.monotonic() + pause_s)

    @property
    def due(self) -> bool:
        """True if it is time to ask git again."""
        return time.monotonic() >= self.retry_at

    @property
    def identity(self) -> tuple[str, bool]:
        """The part of the failure that stays the same when it repeats."""
        return self.reason, self.transient


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree: its directory, its own git directory, and the one that worktrees share.

    The git directories are behind no link. `elsewhere`: a git directory is on another file system
    than the work tree, and may hang while the work tree answers.
    """

    top: bytes
    git_dir: bytes
    common_dir: bytes
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class GitRules:
    """The ignore rules of a repository, beside the `.gitignore` files in its tree.

    `tracked` are relative to `top`: git never ignores what it tracks. `configured_at` is the
    `signature` at which `config` was read, `read_at` the one at which all rules were read: the rules
    hold until it changes. With a `failure` the rules may be outdated; `unknown` rules hide
    everything. `warnings` name the parts of the repository that were not used.
    """

    repository: Repository
    exclude_files: tuple[bytes, ...]  # absolute, by falling precedence
    excludes: tuple[bytes, ...]  # their contents
    ignore_case: bool
    tracked: tuple[bytes, ...] = field(repr=False)  # sorted
    config: GitConfig = field(default_factory=GitConfig, repr=False)
    configured_at: Signature = field(default=(), repr=False, compare=False)
    read_at: Signature = field(default=(), repr=False, compare=False)
    failure: GitFailure | None = field(default=None, compare=False)
    warnings: tuple[str, ...] = ()
    unknown: bool = False
    stamped_excludes: tuple[StampedFile, ...] = field(default=(), repr=False, compare=False)

    @property
    def files(self) -> tuple[StampedFile, ...]:
        """The files whose `signature` counts."""
        return (*self.stamped_excludes, *self.config.files)

    def tracks(self, path: bytes) -> bool:
        """Return whether git tracks a file, or something in a directory (its path ends in `/`).

        A directory that is a submodule is tracked, too.
        """
        index = bisect_left(self.tracked, path)
        if index < len(self.tracked) and self.tracked[index].startswith(path):
            return path.endswith(b"/") or self.tracked[index] == path
        return path.endswith(b"/") and self.tracks(path[:-1])


def repository_at(directory: bytes) -> Repository | None:
    """Return the repository whose work tree starts at `directory`.

    Raises `OSError` if that cannot be known now.
    """
    git_dir = _git_dir(directory)
    if git_dir is None:
        return None
    common = _common_dir(git_dir)
    if not all(map(os.path.exists, _required_files(git_dir, common))):
        return None
    devices = {os.stat(path).st_dev for path in (directory, git_dir, common)}
    return Repository(directory, git_dir, common, elsewhere=len(devices) > 1)


def is_plain_repository(directory: bytes) -> bool | None:
    """Return whether the `.git` of a directory is a repository, without following a link.

    None if it is no directory or has links or a pointer.
    """
    git_dir = os.path.join(directory, b".git")
    files = (*_required_files(git_dir, git_dir), os.path.join(git_dir, b"commondir"), git_dir)
    with OwnStatuses() as statuses:
        *required, pointer, marker = (_mode(statuses, file) for file in files)
    if not stat.S_ISDIR(marker) or pointer or any(map(stat.S_ISLNK, required)):
        return None
    return all(required)


def _mode(statuses: OwnStatuses, path: bytes) -> int:
    try:
        return statuses.read(path).st_mode
    except OSError:
        return 0


def _git_dir(directory: bytes) -> bytes | None:
    """Return the path without links that the `.git` of a directory leads to, existing or not.

    Raises `OSError` if that cannot be known now.
    """
    marker = os.path.join(directory, b".git")
    try:
        mode = os.lstat(marker).st_mode
        if stat.S_ISDIR(mode):
            return marker
        is_link = stat.S_ISLNK(mode) and os.path.isdir(marker)
        git_dir = marker if is_link else _pointer(marker, directory, b"gitdir: ")
        return None if git_dir is None else without_links(git_dir)
    except OSError as error:
        if is_temporary_error(error):
            raise
        return None


def _common_dir(git_dir: bytes) -> bytes:
    common = _pointer(os.path.join(git_dir, b"commondir"), git_dir)
    return git_dir if common is None else _target(common)


def _target(path: bytes) -> bytes:
    """Return the target of a path; the path itself if it has too many links. Raises `OSError`."""
    try:
        return without_links(path)
    except OSError as error:
        if is_temporary_error(error):
            raise
        return path


def uncertain_directories(failures: Mapping[bytes, GitFailure]) -> tuple[bytes, ...]:
    """Return the directories for which git fails now: exclusions in them may be wrong."""
    return tuple(directory for directory, failure in failures.items() if failure.transient)


def marker_stamps(directory: bytes) -> MarkerStamps:
    """Return stamps that change when the `.git` of a directory becomes a repository.

    At least one of them changes then. A `.git` that leads nowhere has only its own stamp. Raises
    `OSError` as `repository_at` does.
    """
    marker = os.path.join(directory, b".git")
    files = [marker]
    git_dir = _git_dir(directory)
    if git_dir is not None:
        common_file = os.path.join(git_dir, b"commondir")
        common = _common_dir(git_dir)
        # entries that are there may be links whose targets are not
        entries = filter(os.path.lexists, (common_file, *_required_files(git_dir, common)))
        files += [git_dir, common, *map(_target, entries)]
    stamped = (StampedFile(file, is_own=(file + b"/").startswith(marker + b"/")) for file in files)
    return {file: file.settled_stamp() for file in stamped}


def _required_files(git_dir: bytes, common_dir: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the paths that a repository must have: git makes the same test."""
    return (
        os.path.join(git_dir, b"HEAD"),
        os.path.join(common_dir, b"objects"),
        os.path.join(common_dir, b"refs"),
    )


def marker_warning(directory: bytes) -> str:
    """Say why the `.git` of a directory is not used; empty for a directory or a pointer to one."""
    marker = os.path.join(directory, b".git")
    if os.path.isdir(marker):
        return ""
    try:
        valid = b"\0" not in read_regular(marker, limit=MAX_POINTER_BYTES, follow_links=True)
    except IrregularFile as error:
        return f"{path_text(marker)} is not used: {error.strerror}"
    except OSError:  # it is gone, or may be read soon
        return ""
    return "" if valid else f"{path_text(marker)} is not used: it has a NUL"


def repository_around(directory: bytes) -> Repository | None:
    """Return the nearest repository whose work tree holds `directory`."""
    while True:
        repository = repository_at(directory)
        if repository is not None:
            return repository
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def read_rules(
    repository: Repository, read_user: Callable[[], UserConfig], last: GitRules | None
) -> GitRules:
    """Ask git for the rules of a repository; `last` are the rules that it gave last time.

    A question that git fails to answer keeps its last answer. Without a last configuration
    everything counts as ignored: a silent git must not bring a hidden file into an index. Blocking:
    one short process, two if the configuration has changed.
    """
    last_failure = last.failure if last is not None else None
    try:
        rules, refusal = _read_configured_rules(repository, read_user, last)
    except GitUnresponsive as error:
        files = (_info_exclude(repository),)
        unknown = GitRules(
            repository,
            files,
            (b"*",),
            ignore_case=False,
            tracked=(),
            unknown=True,
            stamped_excludes=_stamped_excludes(repository, GitConfig()),
        )
        return replace(last or unknown, failure=GitFailure.from_error(error, last_failure))
    try:
        if refusal is not None:
            raise refusal
        return replace(rules, tracked=tracked_paths(repository.git_dir, rules.config.object_format))
    except GitRefused as error:
        return replace(rules, failure=GitFailure.from_error(error, last_failure))
    except GitUnresponsive as error:
        tracked = last.tracked if last else ()
        failure = GitFailure.from_error(error, last_failure)
        return replace(rules, tracked=tracked, failure=failure)


def rules_outdated(rules: GitRules) -> bool:
    """Return whether the rules may have changed, or a retry is due. A few `stat` calls."""
    retry_due = rules.failure is not None and rules.failure.due
    return retry_due or signature(rules.repository, rules.files) != rules.read_at


def signature(repository: Repository, files: tuple[StampedFile, ...]) -> Signature:
    """Return a value that changes whenever the rules of the repository may have changed.

    `files` are those of the rules. A few `stat` calls.
    """
    index = StampedFile(os.path.join(repository.git_dir, b"index"), is_own=True)
    return read_signature((index, *_config_files(repository, files)))


def _config_files(
    repository: Repository, files: tuple[StampedFile, ...]
) -> tuple[StampedFile, ...]:
    """Return the files whose stamps change whenever the configuration may have changed.

    `files` are the sources of the configuration.
    """
    marker = os.path.join(repository.top, b".git")
    own_paths = [
        os.path.join(repository.common_dir, b"config"),
        os.path.join(repository.git_dir, b"config.worktree"),
    ]
    if repository.git_dir != marker:  # a link or a file: the times of a directory change often
        own_paths.append(marker)
    stamped = (
        *(StampedFile(path, is_own=True) for path in own_paths),
        *files,
        *(StampedFile(path, is_own=False) for path in user_config_files()),
    )
    return tuple(dict.fromkeys(stamped))


def _pointer(file: bytes, base: bytes, prefix: bytes = b"") -> bytes | None:
    """Return the path that a one-line file holds, relative to `base`.

    Raises `OSError` if that cannot be known now.
    """
    try:
        line = read_regular(file, limit=MAX_POINTER_BYTES, follow_links=True).rstrip(b"\r\n")
    except OSError as error:
        if is_temporary_error(error):
            raise
        return None
    if not line.startswith(prefix) or b"\0" in line:
        return None
    return os.path.normpath(os.path.join(base, line.removeprefix(prefix)))


def _info_exclude(repository: Repository) -> bytes:
    return os.path.join(repository.common_dir, b"info", b"exclude")


def _read_configured_rules(
    repository: Repository, read_user: Callable[[], UserConfig], last: GitRules | None
) -> tuple[GitRules, GitRefused | None]:
    """Return the rules without tracked paths, and why git must not be asked for those.

    Raises `GitUnresponsive`.
    """
    files = last.config.files if last is not None else ()
    configured_at = read_signature(_config_files(repository, files))
    refusal: GitRefused | None = None
    if last is not None and last.configured_at == configured_at and last.failure is None:
        config = last.config
    else:
        config, refusal = _read_config(repository, read_user)
    texts = tuple(_exclude_texts(repository, config))
    rules = GitRules(
        repository,
        tuple(file for file, _ in texts),
        tuple(text.content for _, text in texts),
        config.ignore_case,
        tracked=(),
        config=config,
        configured_at=configured_at,
        stamped_excludes=_stamped_excludes(repository, config),
        warnings=(*config.warnings, *(text.warning for _, text in texts if text.warning)),
    )
    return rules, refusal


def _read_config(
    repository: Repository, read_user: Callable[[], UserConfig]
) -> tuple[GitConfig, GitRefused | None]:
    """Return the configuration, empty if it is refused, and the refusal.

    If the user's configuration is refused, the repository's own still holds: what it hides stays
    hidden. Raises `GitUnresponsive`.
    """
    directories = (repository.top, repository.git_dir, repository.common_dir)
    user_refusal: GitRefused | None = None
    try:
        user_config = read_user()
    except GitRefused as error:
        user_config = UserConfig()
        user_refusal = error
    try:
        owner_refusal = refuse_owner(repository, user_config)
        config = read_git_config(*directories, user_config, trusted=owner_refusal is None)
        return config, user_refusal or owner_refusal
    except GitRefused as error:
        return GitConfig(), error
    except OSError as error:
        raise GitUnresponsive(
            f"{path_text(os.fsencode(error.filename or b'.git'))}: {error.strerror}"
        ) from error


def refuse_owner(repository: Repository, user_config: UserConfig) -> GitRefused | None:
    """Refuse a repository of another user, as git does: CVE-2022-24765, `safe.directory`."""
    top = os.path.realpath(repository.top)
    for path in (repository.top, os.path.join(repository.top, b".git"), repository.git_dir):
        with contextlib.suppress(OSError):  # a missing file has no owner
            owner = os.lstat(path).st_uid
            if owner not in trusted_owners() and not user_config.trusts(top):
                return GitRefused(
                    f"dubious ownership: {path_text(path)} belongs to user {owner}; "
                    "if you trust it: "
                    f"git config --global --add safe.directory {path_text(top)}"
                )
    return None


def _stamped_excludes(repository: Repository, config: GitConfig) -> tuple[StampedFile, ...]:
    inside = (repository.top, repository.git_dir, repository.common_dir)
    exclude = own_files(_info_exclude(repository), inside)
    excludes = _excludes_file(config)
    if not excludes:
        return exclude
    if config.excludes_inside:
        return (*exclude, *own_files(excludes, inside))
    return (*exclude, StampedFile(excludes, is_own=False))


def _excludes_file(config: GitConfig) -> bytes:
    return config.excludes_file if config.excludes_file is not None else user_excludes_file()


def _exclude_texts(repository: Repository, config: GitConfig) -> Iterator[tuple[bytes, IgnoreText]]:
    """Yield each file of patterns beside the tree with its content. Raises `GitUnresponsive`."""
    inside = (repository.top, repository.git_dir, repository.common_dir)
    excludes = _excludes_file(config)
    try:
        exclude = _info_exclude(repository)
        yield exclude, read_ignore_file_inside(exclude, inside)
        if excludes and config.excludes_inside:
            yield excludes, read_ignore_file_inside(excludes, inside)
        elif excludes:
            yield excludes, read_ignore_file(excludes, follow_links=True)
    except OSError as error:
        raise GitUnresponsive(
            f"{path_text(os.fsencode(error.filename or b'.git'))}: {error.strerror}"
        ) from error
