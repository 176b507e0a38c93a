"""Runs `git`, as the only module. git gets a repository only as bytes to parse.

git never reads configuration in a repository's own git directory. Each call makes an empty git
directory of ours, with the files that git has to parse. No key of a repository's configuration can
therefore name a program that runs. The options and variables below are a second defence: a system's
or a user's configuration may bring in more than is expected, and a later git may read more.
"""

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

# Wall time of one call, above `CPU_S`: a busy machine gives git a part of a core.
TIMEOUT_S = 30.0
# For a call that reads the user's configuration: a few kilobytes, unless a file of it never ends.
USER_TIMEOUT_S = 2.0
CPU_S = 20  # of one call; ls-files over an index of 1,000,000 files takes less than 2
# of address space, plus the caller's own; an idle git has about 10 MB
MEMORY_BYTES = 256 << 20
MAX_ERROR_BYTES = 64 << 10
LOWEST_PRIORITY = "19"  # of nice(1)
MAX_REASON = 200  # characters of an error message of git

# Each documented key that runs a program or opens a connection, with a value that does neither:
# git-config(1). Keys with a name that the repository chooses (`filter.<driver>.clean`) cannot be
# listed; see the module's docstring.
SWITCHED_OFF: Mapping[str, str] = {
    "core.alternateRefsCommand": "false",
    "core.askPass": "false",
    "core.attributesFile": os.devnull,
    "core.editor": "false",
    "core.excludesFile": os.devnull,
    "core.fsmonitor": "false",
    "core.gitProxy": "none",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.sshCommand": "false",
    "core.untrackedCache": "false",
    "credential.helper": "",
    "diff.external": "",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.ssh.program": "false",
    "gpg.ssh.defaultKeyCommand": "",
    "gpg.x509.program": "false",
    "index.threads": "1",  # threads reserve address space, which is bounded
    "interactive.diffFilter": "",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "sequence.editor": "false",
    "submodule.recurse": "false",
    "uploadpack.packObjectsHook": "",
}
# Memory of a call is bounded: git maps packs in windows, instead of a gigabyte at a time.
_BOUNDED: Mapping[str, str] = {
    "core.deltaBaseCacheLimit": "32m",
    "core.packedGitLimit": "128m",
    "core.packedGitWindowSize": "16m",
}
# The variables of the daemon that git and its system libraries need. All others are dropped,
# `GIT_*` above all: a daemon that was started by a hook, a bisection or a rebase has the variables
# of another repository.
_INHERITED = (
    "DEVELOPER_DIR",
    "DYLD_LIBRARY_PATH",
    "LD_LIBRARY_PATH",
    "NIX_LD",
    "NIX_LD_LIBRARY_PATH",
    "TMPDIR",
)
# The location of the user's own configuration.
_USER_CONFIG = (
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "HOME",
    "XDG_CONFIG_HOME",
)
_FIXED: Mapping[str, str] = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_ASKPASS": "false",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_EDITOR": "false",
    "GIT_FLUSH": "0",
    "GIT_LITERAL_PATHSPECS": "1",  # a path is no pattern
    # Read by git 2.45 and later. An older git fetches only from a promisor: none is configured.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "SSH_ASKPASS": "false",
}
# Limits of the process, which `exec` keeps. A shell sets them: Python's `preexec_fn` is not safe
# beside threads. Not every system knows a limit of address space.
_LIMITED = 'ulimit -c 0; ulimit -t "$1"; ulimit -v "$2" 2>/dev/null; shift 2; exec "$@"'
# Error messages of failures that last until a person acts. Any other failure may be transient.
_PERMANENT = (
    b"git repo version",
    b"repository extension",
    b"Permission denied",
    b"Operation not permitted",
    b"unknown required extension",
    b"unknown index entry format",
    # git writes a new index and renames it, so an index is never half written; the bounds on memory
    # grow with it.
    b"bad signature 0x",
    b"bad index version",
    b"bad index file sha1 signature",
    b"index file corrupt",
    b"malformed name field",
    b"unordered stage entries",
    b"Out of memory, malloc failed",
    b"Out of memory, realloc failed",
)


class GitRefused(Exception):
    """git is not installed, or it does not read this repository."""


class GitUnresponsive(Exception):
    """git could not be started, or failed; it may answer soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCall:
    """One run of git in a git directory of ours.

    That directory gets a file for each of `texts` (name -> content), and a symbolic link for each
    of `links` (name -> descriptor) and of `path_links` (name -> absolute path). `index` is a
    descriptor that git reads as its index, `objects` a directory of objects, `work_tree` the
    directory that git compares with them. With `user`, git reads the system's and the user's
    configuration. It checks the conditions of includes against `git_dir`, where it reads only HEAD.
    git reads `input` from its standard input. `output_limit` and `memory` are in bytes. With `cut`,
    an output that reaches its limit is cut there, and git is ended; else a longer one is refused.
    With `background`, git has the lowest priority.
    """

    arguments: tuple[str, ...]
    output_limit: int
    input: bytes = b""
    memory: int = MEMORY_BYTES
    object_format: str = "sha1"
    texts: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, int] = field(default_factory=dict)
    path_links: Mapping[str, bytes] = field(default_factory=dict)
    objects: bytes | None = None
    work_tree: bytes | None = None
    index: int | None = None
    git_dir: bytes | None = None
    user: bool = False
    cut: bool = False
    background: bool = False


def run_git(call: GitCall) -> bytes:
    """Return the output of git. Blocking, for at most `TIMEOUT_S`, or `USER_TIMEOUT_S`.

    Raises `GitRefused` and `GitUnresponsive`.
    """
    program = shutil.which("git", path=_search_path())
    if program is None:
        raise GitRefused("there is no git")
    try:
        with _git_directory(call) as directory:
            return _run(call, program, directory)
    except OSError as error:
        raise GitUnresponsive(f"git cannot be started: {error.strerror}") from error


def user_excludes_file() -> bytes:
    """Return the default path of the user's excludes file, for when no configuration names one.

    Empty without a home directory.
    """
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.environ.get("HOME", ""), ".config")
    return os.fsencode(os.path.join(home, "git", "ignore")) if os.path.isabs(home) else b""


def user_config_files() -> tuple[bytes, ...]:
    """Return the paths of the user's configuration, whether or not the files exist."""
    home = os.environ.get("HOME", "")
    variable = os.environ.get("GIT_CONFIG_GLOBAL")
    xdg = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    paths = (
        [variable]
        if variable
        else [os.path.join(home, ".gitconfig"), os.path.join(xdg, "git", "config")]
    )
    return tuple(os.fsencode(path) for path in paths)


def trusted_owners() -> frozenset[int]:
    """Return the ids of users that git trusts: this user, and the caller of `sudo`."""
    caller = os.environ.get("SUDO_UID", "")
    behind_sudo = os.geteuid() == 0 and caller.isdecimal() and len(caller) <= len(str(1 << 32))
    return frozenset({os.geteuid(), *([int(caller)] if behind_sudo else [])})


def _search_path() -> str:
    """Return the absolute directories of `PATH`.

    A relative directory depends on the working directory, and files there may be of another user.
    """
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if os.path.isabs(entry))


@contextlib.contextmanager
def _git_directory(call: GitCall) -> Iterator[str]:
    """Create a repository with the files of a call for the time of the call.

    Yields the directory that holds `.git`.
    """
    sha256 = "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tobjectFormat = sha256\n"
    with tempfile.TemporaryDirectory(
        prefix="cocosearch-git-", ignore_cleanup_errors=True
    ) as directory:
        git_dir = os.path.join(directory, ".git")
        for name in ("", "info", "objects", "refs"):
            if name not in call.path_links:
                os.mkdir(os.path.join(git_dir, name))
        texts = {
            "HEAD": b"ref: refs/heads/none\n",
            "config": sha256.encode() if call.object_format == "sha256" else b"",
        }
        for name, text in {**texts, **call.texts}.items():
            with open(os.path.join(git_dir, name), "xb") as file:
                file.write(text)
        for name, descriptor in call.links.items():
            os.symlink(f"/dev/fd/{descriptor}", os.path.join(git_dir, name))
        for name, path in call.path_links.items():
            os.symlink(path, os.path.join(os.fsencode(git_dir), os.fsencode(name)))
        yield directory


def _variables(call: GitCall, directory: str) -> dict[str, str]:
    names = (*_INHERITED, *_USER_CONFIG) if call.user else _INHERITED
    variables = {name: os.environ[name] for name in names if name in os.environ} | dict(_FIXED)
    if not call.user:
        variables |= {"HOME": directory, "XDG_CONFIG_HOME": directory}
        variables |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    if call.index is not None:
        variables["GIT_INDEX_FILE"] = f"/dev/fd/{call.index}"
    if call.objects is not None:
        variables["GIT_OBJECT_DIRECTORY"] = os.fsdecode(call.objects)
    if call.work_tree is not None:
        variables["GIT_WORK_TREE"] = os.fsdecode(call.work_tree)
    # configuration always comes from our own directory
    ours = os.path.join(directory, ".git")
    git_dir = ours if call.git_dir is None else os.fsdecode(call.git_dir)
    return variables | {"PATH": _search_path(), "GIT_DIR": git_dir, "GIT_COMMON_DIR": ours}


def _command(call: GitCall, program: str) -> list[str]:
    configuration = {**SWITCHED_OFF, **_BOUNDED}
    options = [part for key, value in configuration.items() for part in ("-c", f"{key}={value}")]
    limits = (str(CPU_S), str(call.memory // 1024))
    nice = ("nice", "-n", LOWEST_PRIORITY) if call.background else ()
    git = (*nice, program, "--no-pager", "--no-optional-locks", "--no-replace-objects", *options)
    return ["/bin/sh", "-c", _LIMITED, "sh", *limits, *git, *call.arguments]


def _run(call: GitCall, program: str, directory: str) -> bytes:
    descriptors = [*call.links.values(), *([call.index] if call.index is not None else [])]
    with (
        _standard_input(call) as standard_input,
        subprocess.Popen(
            _command(call, program),
            cwd=directory if call.work_tree is None else call.work_tree,
            env=_variables(call, directory),
            stdin=standard_input,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=descriptors,
            start_new_session=True,
        ) as process,
    ):
        try:
            timeout_s = min(USER_TIMEOUT_S, TIMEOUT_S) if call.user else TIMEOUT_S
            output, errors = _communicate(process, call.output_limit, timeout_s, cut=call.cut)
        finally:
            is_cut = process.returncode is None
            if is_cut:
                _end_group(process)
    if process.returncode == 0 or is_cut:
        return output
    reason = (
        os.fsdecode(errors.strip().partition(b"\n")[0])[:MAX_REASON]
        or f"git ended with {process.returncode}"
    )
    raise (GitRefused if any(words in errors for words in _PERMANENT) else GitUnresponsive)(reason)


@contextlib.contextmanager
def _standard_input(call: GitCall) -> Iterator[int]:
    """Yield a descriptor with the input of a call: a file, so that no pipe can be full."""
    with tempfile.TemporaryFile() as file:
        file.write(call.input)
        file.seek(0)
        yield file.fileno()


def _communicate(
    process: subprocess.Popen[bytes], output_limit: int, timeout_s: float, *, cut: bool
) -> tuple[bytes, bytes]:
    """Return the output and the errors of a process once it has ended.

    Raises `GitUnresponsive` at the deadline. At the limit it raises `GitRefused`, or with `cut`
    returns the output so far while the process runs.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    deadline = time.monotonic() + timeout_s
    chunks: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
    budgets = dict(zip(chunks, (output_limit, MAX_ERROR_BYTES), strict=True))
    try:
        for descriptor, chunk in _chunks((process.stdout, process.stderr), deadline):
            budgets[descriptor] -= len(chunk)
            if cut and descriptor == process.stdout.fileno() and budgets[descriptor] <= 0:
                chunks[descriptor].append(chunk[: len(chunk) + budgets[descriptor]])
                break
            if budgets[descriptor] < 0:
                raise GitRefused(f"git answers with more than {output_limit // 1024:,} kB")
            chunks[descriptor].append(chunk)
        else:
            process.wait(max(0.0, deadline - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        raise GitUnresponsive(f"git has not answered for {timeout_s:g} s") from error
    output, errors = (b"".join(parts) for parts in chunks.values())
    return output, errors


def _chunks(pipes: Sequence[IO[bytes]], deadline: float) -> Iterator[tuple[int, bytes]]:
    """Yield chunks from pipes until all are closed. Raises `TimeoutError` at the deadline."""
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            events = selector.select(max(0.0, deadline - time.monotonic()))
            if not events:
                raise TimeoutError
            for key, _ in events:
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    selector.unregister(key.fileobj)
                yield key.fd, chunk


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill all processes of a call that has not ended.

    The leader is not reaped yet, so no other process has its id.
    """
    # macOS refuses a group of zombies
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
