"""What is known of the git repository around or below a root, without changing anything in it.

Facts that are files are read as files. git itself is asked for what only it knows: its configuration, and what it
tracks. Without git, or in a repository that git refuses to read, those are empty.
"""

import contextlib
import os
import subprocess
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT_S = 30.0
# A daemon that was started by a hook, a bisection or a rebase has these of another repository, and they come before -C.
_GIT = ("env", *(f"-u{name}" for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")), "git")
Signature = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree: `top` is its directory, `git_dir` its own git directory, `common_dir` the one worktrees share."""

    top: bytes
    git_dir: bytes
    common_dir: bytes


@dataclass(frozen=True, slots=True)
class GitRules:
    """What shapes the ignore rules of a repository, beside the `.gitignore` files in its tree.

    `tracked` are relative to `top`: git never ignores what it tracks. `read_at` is the `signature` that all of this was
    read under: while it holds, the rules do.
    """

    repository: Repository
    exclude_files: tuple[bytes, ...]  # absolute, the one with precedence first
    excludes: tuple[bytes, ...]  # their contents
    ignore_case: bool
    tracked: tuple[bytes, ...] = field(repr=False)  # sorted
    read_at: Signature = field(default=(), repr=False, compare=False)

    def keeps(self, path: bytes) -> bool:
        """Whether git tracks a file, or a directory (its path ends in `/`): something in it, or a submodule there."""
        at = bisect_left(self.tracked, path)
        if at < len(self.tracked) and self.tracked[at].startswith(path):
            return path.endswith(b"/") or self.tracked[at] == path
        return path.endswith(b"/") and self.keeps(path[:-1])


def repository_at(directory: bytes) -> Repository | None:
    """The repository whose work tree starts at `directory`."""
    marker = os.path.join(directory, b".git")
    if os.path.isdir(marker):
        parts = (os.path.join(marker, name) for name in (b"HEAD", b"objects", b"refs"))
        git_dir = marker if all(os.path.exists(part) for part in parts) else None  # as git sees it
    else:
        git_dir = _pointer(marker, directory, b"gitdir: ")
    if git_dir is None:
        return None
    common = _pointer(os.path.join(git_dir, b"commondir"), git_dir)
    return Repository(directory, git_dir, common or git_dir)


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


def read_rules(repository: Repository) -> GitRules:
    """Ask git. Blocking: two short processes."""
    config = _config(repository)
    chosen = config.get(b"core.excludesfile")
    global_file = os.path.expanduser(os.path.join(repository.top, chosen)) if chosen else default_excludes_file()
    if chosen and chosen.startswith(b"~"):
        global_file = os.path.expanduser(chosen)
    files = (os.path.join(repository.common_dir, b"info", b"exclude"), *([global_file] if global_file else []))
    return GitRules(
        repository,
        files,
        tuple(_content(file) for file in files),
        config.get(b"core.ignorecase", b"false").lower() == b"true",
        tuple(sorted(filter(None, _git(repository, "ls-files", "-z", "--cached").split(b"\0")))),
    )


def hides(repository: Repository, directory: bytes) -> bool:
    """Whether the repository ignores a directory inside of it."""
    inner = os.path.relpath(directory, repository.top)
    return bool(inner != b"." and _git(repository, "check-ignore", "--no-index", "--", os.fsdecode(inner)))


def default_excludes_file() -> bytes:
    """Where git looks for patterns of the user when its configuration names no file."""
    # The shell is asked, because nothing but the settings reads the daemon's environment.
    script = 'printf %s "${XDG_CONFIG_HOME:-$HOME/.config}/git/ignore"'
    return subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=False, timeout=TIMEOUT_S).stdout


def outdated(rules: GitRules) -> bool:
    """Whether the rules may have changed. A few `stat` calls."""
    return signature(rules.repository, rules.exclude_files) != rules.read_at


def signature(repository: Repository, exclude_files: tuple[bytes, ...]) -> Signature:
    """Changes whenever the rules of the repository may have changed. A few `stat` calls."""
    watched = (
        os.path.join(repository.git_dir, b"index"),
        os.path.join(repository.common_dir, b"config"),
        os.path.join(repository.git_dir, b"config.worktree"),
        *exclude_files,
        os.path.expanduser(b"~/.gitconfig"),
        os.path.expanduser(b"~/.config/git/config"),
    )
    return tuple(stamp(path) for path in watched)


def stamp(path: bytes) -> tuple[int, int, int] | None:
    """(inode, size, time) of a file, None where there is none: another one means that it may have changed."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _content(file: bytes) -> bytes:
    with contextlib.suppress(OSError):
        return Path(os.fsdecode(file)).read_bytes()
    return b""


def _pointer(file: bytes, base: bytes, prefix: bytes = b"") -> bytes | None:
    """The path that a one-line file holds, relative to `base`."""
    with contextlib.suppress(OSError):
        line = Path(os.fsdecode(file)).read_bytes().rstrip(b"\r\n")
        if line.startswith(prefix):
            return os.path.normpath(os.path.join(base, line.removeprefix(prefix)))
    return None


def _config(repository: Repository) -> dict[bytes, bytes]:
    listed = _git(repository, "config", "-z", "--get-regexp", r"^core\.(excludesfile|ignorecase)$")
    pairs = (entry.partition(b"\n") for entry in listed.split(b"\0") if entry)
    return {key.lower(): value for key, _, value in pairs}


def _git(repository: Repository, *arguments: str) -> bytes:
    """What git prints; nothing if there is no git, or if it fails."""
    command = [*_GIT, "--no-optional-locks", "-C", os.fsdecode(repository.top), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout if done.returncode == 0 else b""
