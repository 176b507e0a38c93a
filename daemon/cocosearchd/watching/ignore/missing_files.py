"""Why a file is not in an index, in one sentence: what the disk says of it, else which rule leaves
it out.

For people who ask, so it may take its time: ignore files are read anew, to name the line that
decides.
"""

import os
import stat
from collections.abc import Iterator

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.languages.detect import is_supported
from cocosearchd.model import encode_path
from cocosearchd.watching.git.ignore_files import read_ignore_file
from cocosearchd.watching.git.repository import repository_at
from cocosearchd.watching.ignore import default_patterns, patterns
from cocosearchd.watching.ignore.scope import Scope

_TOO_LONG = f"it is left out by its length: {default_patterns.LENGTH_RULE}"


def why_absent(scope: Scope, settings: IndexingSettings, path: bytes) -> str | None:
    """The reason, for a path relative to the root; None for a file that belongs into the index.
    Blocking.
    """
    if path.startswith(b"/") or b".." in path.split(b"/"):
        return f"it is outside of the root {encode_path(scope.root)}"
    # before the disk is asked, which may take no name of this length
    if default_patterns.too_long(path):
        return _TOO_LONG
    try:
        return _on_disk(scope.root, path) or _by_rules(scope, settings, path)
    except OSError as error:
        place = (
            f"{encode_path(os.fsencode(error.filename))}: " if error.filename is not None else ""
        )
        return f"the rules that decide cannot be read now: {place}{error.strerror}; ask again soon"


def why_left_out(scope: Scope, settings: IndexingSettings, path: bytes) -> str | None:
    """Which rule leaves a path out, whether or not there is a file; None if none does or can be
    read now. Blocking.
    """
    try:
        return None if scope.allows(path) else _by_rules(scope, settings, path)
    except OSError:
        return None


def _on_disk(root: bytes, path: bytes) -> str | None:
    """What is at the path is no file of the root."""
    parts = path.split(b"/")
    for depth in range(1, len(parts) + 1):
        here = b"/".join(parts[:depth])
        try:
            mode = os.lstat(os.path.join(root, here)).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return "there is no such file"
        except OSError as error:
            return f"it cannot be looked at: {error.strerror}"
        if stat.S_ISLNK(mode):
            return f"{encode_path(here)} is a symbolic link, and links are not followed"
    if stat.S_ISDIR(mode):
        return "it is a directory: name a file in it"
    return None if stat.S_ISREG(mode) else "it is no regular file"


def _by_rules(scope: Scope, settings: IndexingSettings, path: bytes) -> str | None:
    for directory in _above(path):
        if scope.excludes(directory, directory=True):
            return f"its directory {encode_path(directory)}/ is left out by {_rule(scope, settings, directory + b'/')}"
    if scope.excludes(path):
        return f"it is left out by {_rule(scope, settings, path)}"
    if scope.allows(path):
        return None
    name = path.rpartition(b"/")[2]
    if not settings.index_secrets and default_patterns.SECRETS.ignores(path, name):
        return "its name is one of files with secrets (indexing.index_secrets)"
    if settings.include:
        return "it matches none of indexing.include"
    return (
        None
        if is_supported(encode_path(name))
        else "its type is not one that is indexed (indexing.extend_include)"
    )


def _above(path: bytes) -> Iterator[bytes]:
    """The directories that a path is in, the outermost first."""
    parts = path.split(b"/")[:-1]
    return (b"/".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def _rule(scope: Scope, settings: IndexingSettings, entry: bytes) -> str:
    """Which rule leaves out an entry that is left out; a directory ends in `/`. In the order of
    `Scope`.
    """
    if default_patterns.too_long(entry):
        return f"its length: {default_patterns.LENGTH_RULE}"
    name = entry.rstrip(b"/").rpartition(b"/")[2] + (b"/" if entry.endswith(b"/") else b"")
    ours = patterns.parse("\n".join((*settings.exclude, *settings.extend_exclude)).encode())
    if name.rstrip(b"/") != b".git" and ours.ignores(entry, name):
        return "indexing.exclude or indexing.extend_exclude"
    if found := _line(scope.root, entry, name, b".cocosearchignore", up=False):
        return found
    if default_patterns.EXCLUDED.ignores(entry, name):
        return "the built-in exclusions (what tools install, generate or keep for themselves)"
    if default_patterns.OUTPUT_DIRECTORIES.ignores(entry, name):
        return "the built-in exclusions: what builds put out, unless git tracks it"
    return (
        _line(scope.root, entry, name, b".gitignore", up=True)
        or "git's info/exclude or core.excludesFile"
    )


def _line(root: bytes, entry: bytes, name: bytes, file_name: bytes, *, up: bool) -> str | None:
    """Place and text of the line that decides, in the nearest file of this name; `up`: also above
    the root.
    """
    place = os.path.join(root, entry.rstrip(b"/"))
    end = b"/" if entry.endswith(b"/") else b""
    directory = os.path.dirname(place)
    while True:
        file = os.path.join(directory, file_name)
        text = read_ignore_file(file, follow_links=False).content
        found = patterns.deciding(text, os.path.relpath(place, directory) + end, name)
        if found is not None:
            number, line = found
            shown = (
                os.path.relpath(file, root)
                if not up or file.startswith(root.rstrip(b"/") + b"/")
                else file
            )
            return f"{encode_path(shown)}:{number}: {encode_path(line)}"
        top = repository_at(directory) is not None if up else directory == root
        if top or os.path.dirname(directory) == directory:
            return None
        directory = os.path.dirname(directory)
