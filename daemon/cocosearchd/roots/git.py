"""What is known of the git repository around or below a root, without changing anything in it.

Facts that are files are read as files. git itself is asked for what only it knows: its configuration, and what it
tracks. Without git, or in a repository that git refuses to read, those are empty. That git fails in another way says
nothing of the repository: see `Trouble`.
"""

import contextlib
import errno
import os
import subprocess
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cocosearchd.model import encode_path

TIMEOUT_S = 30.0
# Until git is asked again. A refusal ends by a change of permissions or of git itself, which no stamp shows.
RETRY_S, RETRY_MAX_S, REFUSED_S = 0.5, 30.0, 600.0
SAID = 200  # characters of what git says
# A file that cannot be read for one of these says nothing by that; for any other error it is as good as not there.
_PASSING = frozenset(
    [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EIO, errno.ESTALE, errno.ETIMEDOUT]
)
# In what git and `env` say: nothing but a person changes this. A failure that names none of these may pass.
_FOR_GOOD = (
    b"dubious ownership",
    b"unsafe repository",
    b"not a git repository",
    b"cannot chdir to",  # a submodule that was moved by other means than git: its configuration names the former place
    b"git repo version",
    b"repository extension",
    b"Permission denied",
    b"Operation not permitted",
)
# A daemon that was started by a hook, a bisection or a rebase has these of another repository, and they come before -C.
_OTHERS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")
_GIT = ("env", *(f"-u{name}" for name in _OTHERS), "LC_ALL=C", "git")
Stamp = tuple[int, int, int, int]  # inode, size, mtime and ctime
Signature = tuple[Stamp | None, ...]


class Refused(Exception):
    """There is no git, or it does not read this repository."""


class Silent(Exception):
    """git could not be asked, or failed; it may answer soon."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why git gave no answer. If it `passes`, what git said before holds meanwhile; else git has nothing to say.

    `again_at` is of the monotonic clock.
    """

    why: str
    passes: bool
    pause_s: float
    again_at: float

    @classmethod
    def of(cls, error: Refused | Silent, before: "Trouble | None") -> "Trouble":
        """`before`: what the question met the last time."""
        passes = isinstance(error, Silent)
        pause = min(before.pause_s * 2, RETRY_MAX_S) if before is not None and before.passes else RETRY_S
        pause = pause if passes else REFUSED_S
        return cls(str(error), passes, pause, time.monotonic() + pause)

    @property
    def due(self) -> bool:
        """Whether git is to be asked again."""
        return time.monotonic() >= self.again_at


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree: `top` is its directory, `git_dir` its own git directory, `common_dir` the one worktrees share."""

    top: bytes
    git_dir: bytes
    common_dir: bytes


@dataclass(frozen=True, slots=True)
class GitRules:
    """What shapes the ignore rules of a repository, beside the `.gitignore` files in its tree.

    `tracked` are relative to `top`: git never ignores what it tracks. `config_files` are those that its configuration
    comes from or includes. `read_at` is the `signature` that all of this was read under: while it holds, the rules do.
    With a `trouble` they are not known to be those of now.
    """

    repository: Repository
    exclude_files: tuple[bytes, ...]  # absolute, the one with precedence first
    excludes: tuple[bytes, ...]  # their contents
    ignore_case: bool
    tracked: tuple[bytes, ...] = field(repr=False)  # sorted
    config_files: tuple[bytes, ...] = field(default=(), repr=False, compare=False)  # sorted
    read_at: Signature = field(default=(), repr=False, compare=False)
    trouble: Trouble | None = field(default=None, compare=False)

    @property
    def files(self) -> tuple[bytes, ...]:
        """Which a `signature` is to be taken of."""
        return (*self.exclude_files, *self.config_files)

    def keeps(self, path: bytes) -> bool:
        """Whether git tracks a file, or a directory (its path ends in `/`): something in it, or a submodule there."""
        at = bisect_left(self.tracked, path)
        if at < len(self.tracked) and self.tracked[at].startswith(path):
            return path.endswith(b"/") or self.tracked[at] == path
        return path.endswith(b"/") and self.keeps(path[:-1])


def repository_at(directory: bytes) -> Repository | None:
    """The repository whose work tree starts at `directory`. Raises `OSError` if that cannot be known now."""
    marker = os.path.join(directory, b".git")
    git_dir = marker if os.path.isdir(marker) else _pointer(marker, directory, b"gitdir: ")
    if git_dir is None:
        return None
    common = _pointer(os.path.join(git_dir, b"commondir"), git_dir) or git_dir
    parts = (os.path.join(git_dir, b"HEAD"), os.path.join(common, b"objects"), os.path.join(common, b"refs"))
    return Repository(directory, git_dir, common) if all(map(os.path.exists, parts)) else None  # as git sees it


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


def read_rules(repository: Repository, before: GitRules | None = None) -> GitRules:
    """Ask git; `before` is what it said the last time. Blocking: two short processes.

    What git fails to say is as it was before. Without a configuration of before everything counts as ignored: nothing
    that one hides is to come into an index because git could not be asked.
    """
    met = before.trouble if before is not None else None
    try:
        configured = _configured(repository)
    except Silent as error:
        unknown = GitRules(repository, (_info_exclude(repository),), (b"*",), ignore_case=False, tracked=())
        return replace(before or unknown, trouble=Trouble.of(error, met))
    try:
        return replace(configured, tracked=_tracked(repository))
    except Refused as error:
        return replace(configured, trouble=Trouble.of(error, met))
    except Silent as error:
        return replace(configured, tracked=before.tracked if before else (), trouble=Trouble.of(error, met))


def hides(repository: Repository, directory: bytes) -> bool:
    """Whether the repository ignores a directory inside of it. Raises `Silent`."""
    inner = os.path.relpath(directory, repository.top)
    asked = ("check-ignore", "--no-index", "--", os.fsdecode(inner))
    with contextlib.suppress(Refused):
        return bool(inner != b"." and _git(repository, *asked, none=1))
    return False


def default_excludes_file() -> bytes:
    """Where git looks for patterns of the user when its configuration names no file."""
    # The shell is asked, because nothing but the settings reads the daemon's environment.
    script = 'printf %s "${XDG_CONFIG_HOME:-$HOME/.config}/git/ignore"'
    return _run(["/bin/sh", "-c", script]).stdout


def outdated(rules: GitRules) -> bool:
    """Whether the rules may have changed, or git is to be asked again. A few `stat` calls."""
    late = rules.trouble is not None and rules.trouble.due
    return late or signature(rules.repository, rules.files) != rules.read_at


def signature(repository: Repository, files: tuple[bytes, ...]) -> Signature:
    """Changes whenever the rules of the repository may have changed; `files` of the rules. A few `stat` calls."""
    watched = (
        os.path.join(repository.git_dir, b"index"),
        os.path.join(repository.common_dir, b"config"),
        os.path.join(repository.git_dir, b"config.worktree"),
        *files,
        os.path.expanduser(b"~/.gitconfig"),
        os.path.expanduser(b"~/.config/git/config"),
    )
    return tuple(stamp(path) for path in dict.fromkeys(watched))


def stamp(path: bytes) -> Stamp | None:
    """Of a file, None where there is none: another one means that it may have changed. The times of a file that was
    written may be set back (`touch -r`, `rsync -t`), but for that of its inode.
    """
    try:
        return stamp_of(os.stat(path))
    except OSError:
        return None


def stamp_of(found: os.stat_result) -> Stamp:
    """As `stamp`, of what was found."""
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _content(file: bytes) -> bytes:
    try:
        return Path(os.fsdecode(file)).read_bytes()
    except OSError as error:
        if passes(error):
            raise Silent(f"{encode_path(file)}: {error.strerror}") from error
        return b""


def passes(error: OSError) -> bool:
    """Whether a file may be read soon that could not be read by this error."""
    return error.errno in _PASSING


def _pointer(file: bytes, base: bytes, prefix: bytes = b"") -> bytes | None:
    """The path that a one-line file holds, relative to `base`. Raises `OSError` if that cannot be known now."""
    try:
        line = Path(os.fsdecode(file)).read_bytes().rstrip(b"\r\n")
    except OSError as error:
        if passes(error):
            raise
        return None
    return os.path.normpath(os.path.join(base, line.removeprefix(prefix))) if line.startswith(prefix) else None


def _info_exclude(repository: Repository) -> bytes:
    return os.path.join(repository.common_dir, b"info", b"exclude")


def _configured(repository: Repository) -> GitRules:
    """The rules, but for what is tracked. Raises `Silent`."""
    config, config_files = _config(repository)
    chosen = config.get(b"core.excludesfile")
    global_file = os.path.expanduser(os.path.join(repository.top, chosen)) if chosen else default_excludes_file()
    if chosen and chosen.startswith(b"~"):
        global_file = os.path.expanduser(chosen)
    files = (_info_exclude(repository), *([global_file] if global_file else []))
    ignore_case = config.get(b"core.ignorecase", b"false").lower() == b"true"
    excludes = tuple(_content(file) for file in files)
    return GitRules(repository, files, excludes, ignore_case, tracked=(), config_files=config_files)


def _config(repository: Repository) -> tuple[dict[bytes, bytes], tuple[bytes, ...]]:
    """What is configured, and by which files: also those that would be included if they were there, or some day."""
    listed = b""
    with contextlib.suppress(Refused):  # what comes next is refused as well, and says so
        # A question for some keys fails where there are none.
        listed = _git(repository, "config", "-z", "--list", "--show-origin")
    config, files = dict[bytes, bytes](), set[bytes]()
    fields = iter(listed.split(b"\0"))
    for origin, entry in zip(fields, fields, strict=False):  # what follows the last NUL is nothing
        key, _, value = entry.partition(b"\n")
        config[key.lower()] = value
        files.update(map(os.path.normpath, _consulted(repository, origin, key.lower(), value)))
    return config, tuple(sorted(files))


def _consulted(repository: Repository, origin: bytes, key: bytes, value: bytes) -> Iterator[bytes]:
    """The files that a line of the configuration comes from and refers to."""
    kind, _, name = origin.partition(b":")
    file = os.path.join(repository.top, name)
    if kind == b"file":
        yield file
    if value and key.startswith((b"include.", b"includeif.")):
        yield os.path.join(os.path.dirname(file), os.path.expanduser(value))
    if key.startswith(b"includeif.onbranch:"):
        yield os.path.join(repository.git_dir, b"HEAD")


def _tracked(repository: Repository) -> tuple[bytes, ...]:
    return tuple(sorted(filter(None, _git(repository, "ls-files", "-z", "--cached").split(b"\0"))))


def _git(repository: Repository, *arguments: str, none: int = 0) -> bytes:
    """What git prints; nothing for the exit code `none`. Raises `Refused` and `Silent`."""
    done = _run([*_GIT, "--no-optional-locks", "-C", os.fsdecode(repository.top), *arguments])
    if done.returncode in (0, none):
        return done.stdout if done.returncode == 0 else b""
    said = os.fsdecode(done.stderr.strip().partition(b"\n")[0])[:SAID] or f"git ended with {done.returncode}"
    missing = done.returncode == 127 and done.stderr.startswith(b"env: ")
    raise (Refused if missing or any(words in done.stderr for words in _FOR_GOOD) else Silent)(said)


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    """Raises `Refused` if there is no such program, and `Silent`."""
    try:
        return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=TIMEOUT_S)
    except (FileNotFoundError, PermissionError) as error:
        raise Refused(str(error)) from error
    except subprocess.TimeoutExpired as error:
        raise Silent(f"git has not answered for {TIMEOUT_S:g} s") from error
    except OSError as error:
        raise Silent(f"git cannot be started: {error.strerror}") from error
