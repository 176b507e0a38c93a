"""Explains in one sentence why a file is not in an index: its state on disk, else the rule.

People ask for these sentences: the ignore file that decides is read again, to name its line.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.exclusion import SCOPE_EXCLUSIONS, ScopeCode
from cocosearchd.forms.path_forms import path_text
from cocosearchd.languages.detect import is_supported
from cocosearchd.watching.ignore import default_patterns, patterns
from cocosearchd.watching.ignore.ignore_layers import IgnoreLayer, last_part
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.ignore_files import read_ignore_file


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that leaves an entry out; `detail` makes its row of `SCOPE_EXCLUSIONS` exact.

    `layer` is the ignore file of the rule. Its line is found later, as that takes time.
    """

    code: ScopeCode
    detail: str = ""
    layer: IgnoreLayer | None = None

    @property
    def name(self) -> str:
        """The name of the rule, for a sentence about the entry."""
        return SCOPE_EXCLUSIONS[self.code].name_rule(self.detail)

    @property
    def sentence(self) -> str:
        """The cause, as a sentence with the entry as its subject."""
        return SCOPE_EXCLUSIONS[self.code].explain(self.detail)


_LENGTH = Rule("length", default_patterns.LENGTH_RULE)
# A client can write the escape of this byte, and no system call accepts it.
_NUL = b"\0"
_NUL_REASON = "no file has a NUL in its name"


def why_absent(scope: RootScope, settings: IndexingSettings, path: bytes) -> str | None:
    """Say why a path is not in the index; None for a file that belongs there. Blocking.

    The path is relative to the root.
    """
    if _is_outside(path):
        return f"it is outside of the root {path_text(scope.root)}"
    # checked before the disk, which may refuse a name of this length
    if default_patterns.too_long(path):
        return _LENGTH.sentence
    if _NUL in path:
        return _NUL_REASON
    try:
        return _on_disk(scope.root, path) or _by_rules(scope, settings, path)
    except OSError as error:
        file = f"{path_text(os.fsencode(error.filename))}: " if error.filename is not None else ""
        return f"the rules that decide cannot be read now: {file}{error.strerror}; ask again soon"


def why_left_out(scope: RootScope, settings: IndexingSettings, path: bytes) -> str | None:
    """Return the rule that leaves a path out, whether or not there is a file. Blocking.

    A directory has no type, whatever its name ends with.
    None if there is no such rule, if the rules cannot be read now, or for a path outside of the root.
    """
    if _is_outside(path):
        return None
    if _NUL in path:
        return _NUL_REASON
    if os.path.isdir(os.path.join(scope.root, path)):
        path = path.rstrip(b"/") + b"/"
    try:
        return None if scope.is_in_scope(path) else _by_rules(scope, settings, path)
    except OSError:
        return None


def _is_outside(path: bytes) -> bool:
    """Return whether a path may lead out of the root that it is relative to."""
    return path.startswith(b"/") or b".." in path.split(b"/")


def _on_disk(root: bytes, path: bytes) -> str | None:
    """Say why the path is no regular file of the root, if it is none."""
    parts = path.split(b"/")
    for depth in range(1, len(parts) + 1):
        parent = b"/".join(parts[:depth])
        try:
            mode = os.lstat(os.path.join(root, parent)).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return "there is no such file"
        except OSError as error:
            return f"it cannot be looked at: {error.strerror}"
        if stat.S_ISLNK(mode):
            return f"{path_text(parent)} is a symbolic link, and links are not followed"
    if stat.S_ISDIR(mode):
        return "it is a directory: name a file in it"
    return None if stat.S_ISREG(mode) else "it is no regular file"


def _by_rules(scope: RootScope, settings: IndexingSettings, path: bytes) -> str | None:
    for directory in _directories_above(path):
        if (rule := deciding_rule(scope, settings, directory + b"/")) is not None:
            name = _with_line(scope.root, directory + b"/", rule).name
            return f"its directory {path_text(directory)}/ is left out by {name}"
    rule = deciding_rule(scope, settings, path)
    return None if rule is None else _with_line(scope.root, path, rule).sentence


def deciding_rule(scope: RootScope, settings: IndexingSettings, entry: bytes) -> Rule | None:
    """Return the rule that leaves out an entry of a directory in scope; None if none does.

    A directory ends in `/`. Blocking. Raises `OSError` if the rules cannot be read now.
    """
    path = entry.rstrip(b"/")
    if scope.is_left_out(path, directory=entry != path):
        return _rule(scope, entry)
    if entry != path or scope.is_in_scope(path):
        return None
    name = path.rpartition(b"/")[2]
    if not settings.index_secrets and default_patterns.SECRETS.ignores(path, name):
        return Rule("secret_name")
    if settings.include:
        return Rule("include")
    return None if is_supported(path_text(name)) else Rule("type")


def _directories_above(path: bytes) -> Iterator[bytes]:
    """Yield the directories that a path is in, the outermost first."""
    parts = path.split(b"/")[:-1]
    return (b"/".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def _rule(scope: RootScope, entry: bytes) -> Rule:
    """Return the rule that excludes an excluded entry; a directory ends in `/`.

    The order is that of `RootScope`.
    """
    if default_patterns.too_long(entry):
        return _LENGTH
    name = last_part(entry)
    rules = scope.excluding_rules(entry)
    if name.rstrip(b"/") != b".git" and rules.by_settings:
        return Rule("exclude")
    if rules.own_layer is not None:
        return Rule("cocosearchignore", layer=rules.own_layer)
    if default_patterns.TOOL_FILES.ignores(entry, name):
        return Rule("built_in", default_patterns.TOOL_FILES_RULE)
    if default_patterns.OUTPUT_DIRECTORIES.ignores(entry, name):
        return Rule("built_in", default_patterns.OUTPUT_RULE)
    layer = rules.git_layer
    return Rule("gitignore", layer=layer) if layer and layer.file else Rule("git_excludes")


def _with_line(root: bytes, entry: bytes, rule: Rule) -> Rule:
    """Return the rule with file, number and text of the line that decides, if it is of a file."""
    layer = rule.layer
    if layer is None:
        return rule
    in_root = layer.file.startswith(root.rstrip(b"/") + b"/")
    label = path_text(os.path.relpath(layer.file, root) if in_root else layer.file)
    text = read_ignore_file(layer.file, follow_links=False).content
    line = patterns.deciding_line(
        text, layer.relative(entry), last_part(entry), ignore_case=layer.patterns.ignore_case
    )
    # None if the file has just changed
    detail = label if line is None else f"{label}:{line[0]}: {path_text(line[1])}"
    return replace(rule, detail=detail)
