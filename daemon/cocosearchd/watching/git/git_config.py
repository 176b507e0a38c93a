"""Reads the values of git's configuration that shape ignore rules.

The user's configuration is read as git reads it: it may include and name files anywhere. A
repository's is read with care: files that it names are read only inside of the repository, and its
text is parsed by a git that knows nothing of the repository.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cocosearchd.forms.path_forms import path_text
from cocosearchd.runtime.files.regular_files import (
    IrregularFile,
    is_temporary_error,
    read_regular,
    resolve_inside,
)
from cocosearchd.watching.git.git_command import (
    GitCall,
    GitRefused,
    GitUnresponsive,
    run_git,
    user_config_files,
)
from cocosearchd.watching.git.stamps import StampedFile, own_files

MAX_CONFIG_BYTES = 1 << 20  # of one file
MAX_HEAD_BYTES = 8192  # `ref: ` and a name, or an object id
MAX_OUTPUT_BYTES = 8 << 20
MAX_INCLUDE_DEPTH = 10  # git's own limit (config.c)
MAX_INCLUDED = 32  # files
_LIST = ("config", "-z", "--list")
_CONDITION = b"includeif."
_TRUE = (b"true", b"yes", b"on", b"1")


@dataclass(frozen=True, slots=True)
class ConfigLine:
    """A key with its value; `origin` is the file of the line.

    The key is in lower case but for its middle part, which a repository chooses.
    """

    key: bytes
    value: bytes
    origin: bytes


@dataclass(frozen=True, slots=True)
class UserConfig:
    """The system's and the user's configuration, in order of precedence: the last line wins."""

    lines: tuple[ConfigLine, ...] = ()

    @property
    def files(self) -> tuple[bytes, ...]:
        """The files that it comes from or may come from."""
        return tuple(sorted({file for line in self.lines for file in _files_of(line, b"")}))

    @property
    def has_conditions(self) -> bool:
        """True if the included files depend on the repository."""
        return any(line.key.startswith(_CONDITION) for line in self.lines)

    def trusts(self, directory: bytes) -> bool:
        """Return whether `safe.directory` names a repository of another owner: git-config(1)."""
        trusted = False
        for line in self.lines:
            if line.key == b"safe.directory":
                value = os.path.expanduser(line.value)
                below = value.endswith(b"/*") and (directory + b"/").startswith(value[:-1])
                trusted = bool(value) and (
                    trusted or below or value == b"*" or os.path.normpath(value) == directory
                )
        return trusted


@dataclass(frozen=True, slots=True)
class GitConfig:
    """The configuration of one repository.

    `excludes_file` is absolute, or None if no key names a file; with `excludes_inside` it is read
    only inside of the repository. `files` are the sources of the configuration, existing or not.
    `warnings` name the parts of the repository's own configuration that were not used, and why.
    """

    excludes_file: bytes | None = None
    excludes_inside: bool = False
    ignore_case: bool = False
    object_format: str = "sha1"
    files: tuple[StampedFile, ...] = field(default=(), compare=False)
    warnings: tuple[str, ...] = ()


def read_user_config() -> UserConfig:
    """Ask git for what the system and the user configure for every repository.

    Raises `GitRefused` and `GitUnresponsive`.
    """
    return UserConfig(tuple(_user_lines()))


def read_git_config(
    top: bytes, git_dir: bytes, common_dir: bytes, user: UserConfig, *, trusted: bool
) -> GitConfig:
    """Read the configuration of the repository whose work tree is `top`.

    Nothing is read from a repository that is not `trusted`. Blocking.
    Raises `GitRefused`, `GitUnresponsive`, and `OSError` for a file that cannot be read now.
    """
    reader = _RepositoryConfig((top, git_dir, common_dir))
    lines: Sequence[ConfigLine] = user.lines
    try:
        lines = _lines_for(git_dir, user) if trusted else user.lines
    except GitRefused as error:
        reader.warnings.append(f"what you include by conditions is not used: {error}")
    own_lines = list(reader.lines(os.path.join(common_dir, b"config"))) if trusted else []
    if _last_value(own_lines, b"extensions.worktreeconfig", b"false").lower() in _TRUE:
        own_lines += reader.lines(os.path.join(git_dir, b"config.worktree"))
    excludes_file, excludes_inside = _find_excludes(top, lines, own_lines)
    object_format = _last_value(own_lines, b"extensions.objectformat", b"sha1").lower()
    head = os.path.join(git_dir, b"HEAD")
    files = {
        StampedFile(os.path.normpath(file), is_own=file == head)
        for line in lines
        for file in _files_of(line, git_dir)
    }
    return GitConfig(
        excludes_file=excludes_file,
        excludes_inside=excludes_inside,
        ignore_case=_last_value([*lines, *own_lines], b"core.ignorecase", b"false").lower()
        in _TRUE,
        object_format="sha256" if object_format == b"sha256" else "sha1",
        files=tuple(sorted(files.union(*map(reader.stamped, reader.files)))),
        warnings=tuple(reader.warnings),
    )


class _RepositoryConfig:
    """Reads files of a repository's configuration, and what they include inside of it."""

    def __init__(self, directories: Sequence[bytes]) -> None:
        self._directories = directories
        self.files = list[bytes]()
        self.warnings = list[str]()

    def stamped(self, file: bytes) -> Sequence[StampedFile]:
        """Return the files to stamp for a file of the configuration."""
        return own_files(file, self._directories)

    def lines(self, file: bytes, depth: int = 0) -> Iterator[ConfigLine]:
        """Yield the lines of a file, each include followed by the lines of its file.

        A missing file has no lines.
        """
        self.files.append(file)
        try:
            text = read_regular(resolve_inside(file, self._directories), limit=MAX_CONFIG_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if is_temporary_error(error):
                raise
            self.warnings.append(f"{path_text(file)} is not read: {error.strerror}")
            return
        for key, value in _parse(text):
            line = ConfigLine(key, value, file)
            yield line
            if key == b"include.path" and value:
                yield from self._read_included(line, depth)
            elif key.startswith(_CONDITION):
                self.warnings.append(
                    f"{path_text(file)}: a repository's conditional includes are not followed"
                )

    def _read_included(self, line: ConfigLine, depth: int) -> Iterator[ConfigLine]:
        if depth >= MAX_INCLUDE_DEPTH or len(self.files) > MAX_INCLUDED:
            self.warnings.append(
                f"{path_text(line.origin)} includes too many files: the rest is not read"
            )
            return
        yield from self.lines(
            os.path.join(os.path.dirname(line.origin), os.path.expanduser(line.value)), depth + 1
        )


def _parse(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a configuration. Raises `GitRefused` and `GitUnresponsive`."""
    call = GitCall(
        arguments=(*_LIST, "--no-includes", "--file", ".git/values"),
        texts={"values": text},
        output_limit=MAX_OUTPUT_BYTES,
    )
    yield from map(_key_and_value, run_git(call).split(b"\0")[:-1])


def _user_lines(git_dir: bytes | None = None) -> Iterator[ConfigLine]:
    """Yield the lines of the user's configuration as git reads them.

    Raises `GitUnresponsive`, and `GitRefused` for a file that git would read without end.
    """
    call = GitCall(
        arguments=(*_LIST, "--show-origin"),
        git_dir=git_dir,
        user=True,
        output_limit=MAX_OUTPUT_BYTES,
    )
    for file in user_config_files():
        _read_user_file(file)
    try:
        output = run_git(call)
    except GitUnresponsive:
        _require_regular_includes()
        raise
    fields = iter(output.split(b"\0"))
    for origin, entry in zip(fields, fields, strict=False):  # nothing follows the last NUL
        kind, _, name = origin.partition(b":")
        if kind == b"file":
            yield ConfigLine(*_key_and_value(entry), name)


def _read_user_file(file: bytes) -> bytes:
    """Read a file of the user's configuration; empty if git is to report what is wrong.

    Raises `GitRefused` for an irregular file.
    """
    try:
        if os.path.samefile(file, os.devnull):  # a common way to switch configuration off
            return b""
        return read_regular(file, limit=MAX_CONFIG_BYTES, follow_links=True)
    except IrregularFile as error:
        raise GitRefused(
            f"{path_text(file)} of your git configuration is not read: {error.strerror}"
        ) from error
    except OSError:
        return b""


def _readable_lines(text: bytes) -> Sequence[tuple[bytes, bytes]]:
    """Return the keys and values of a configuration, or none if git cannot parse it.

    The caller reports that.
    """
    try:
        return tuple(_parse(text))
    except GitUnresponsive:
        return ()


def _require_regular_includes() -> None:
    """Raise `GitRefused` if an irregular file is included: it explains why git failed.

    Conditions are not checked: a file may be irregular whether or not its condition holds.
    """
    files = list(user_config_files())
    for file in files:  # grows meanwhile
        for key, value in _readable_lines(_read_user_file(file)):
            included = key == b"include.path" or (
                key.startswith(_CONDITION) and key.endswith(b".path")
            )
            if included and value and len(files) < MAX_INCLUDED:
                files.append(os.path.join(os.path.dirname(file), os.path.expanduser(value)))


def _lines_for(git_dir: bytes, user: UserConfig) -> Sequence[ConfigLine]:
    """Return the user's configuration with its conditional includes for one repository.

    git reads HEAD of the repository for this, so HEAD must be a regular file of bounded length.
    Raises `GitRefused` and `GitUnresponsive`.
    """
    if not user.has_conditions:
        return user.lines
    try:
        read_regular(os.path.join(git_dir, b"HEAD"), limit=MAX_HEAD_BYTES, follow_links=True)
    except OSError:
        return user.lines
    for file in user.files:
        _read_user_file(file)
    return tuple(_user_lines(git_dir))


def _key_and_value(entry: bytes) -> tuple[bytes, bytes]:
    """Split an entry into key and value; a key without a value is true.

    The key is in lower case but for the part between its first and last dot.
    """
    name, newline, value = entry.partition(b"\n")
    section, _, rest = name.partition(b".")
    middle, dot, variable = rest.rpartition(b".")
    return section.lower() + b"." + middle + dot + variable.lower(), value if newline else b"true"


def _find_excludes(
    top: bytes, lines: Sequence[ConfigLine], own_lines: Sequence[ConfigLine]
) -> tuple[bytes | None, bool]:
    """Return the file of `core.excludesFile`, and whether the repository decides where it is.

    `own_lines` are the repository's, `lines` the user's. A relative path is below `top`.
    """
    settings = [line for line in (*lines, *own_lines) if line.key == b"core.excludesfile"]
    if not settings:
        return None, False
    value = settings[-1].value
    expanded = os.path.expanduser(value)
    absolute = os.path.join(top, expanded) if value else None
    return absolute, settings[-1] in own_lines or (bool(value) and absolute != expanded)


def _last_value(lines: Sequence[ConfigLine], key: bytes, default: bytes) -> bytes:
    return next((line.value for line in reversed(lines) if line.key == key), default)


def _files_of(line: ConfigLine, git_dir: bytes) -> Iterator[bytes]:
    """Yield the file of a line and the files that the line refers to, existing or not."""
    yield line.origin
    if line.value and line.key.startswith((b"include.", _CONDITION)):
        yield os.path.join(os.path.dirname(line.origin), os.path.expanduser(line.value))
    if line.key.startswith(b"includeif.onbranch:"):
        yield os.path.join(git_dir, b"HEAD")
