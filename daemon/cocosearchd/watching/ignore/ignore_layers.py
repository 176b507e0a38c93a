"""Ignore layers: the ignore files in effect for a directory, and their decision. Pure."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cocosearchd.watching.git.repository import GitRules
from cocosearchd.watching.ignore import default_patterns, pattern_cache, patterns
from cocosearchd.watching.ignore.patterns import EMPTY, Patterns

# Ignore files of one kind in effect for a path; people nest two or three.
MAX_LAYERS = 64


@dataclass(frozen=True, slots=True)
class IgnoreLayer:
    """An ignore file in effect.

    `base` is the length of its directory in paths relative to the root, with `/`. For a file above
    the root, `outer` is the prefix that makes a path of the root relative to the file's directory.
    `file` is absolute; b"" for files of git that are in no tree.
    """

    patterns: Patterns
    base: int
    outer: bytes = b""
    file: bytes = b""

    def relative(self, path: bytes) -> bytes:
        """Return a path of the root relative to the directory of the file."""
        return self.outer + path[self.base :]


@dataclass(frozen=True, slots=True)
class ExcludingRules:
    """The patterns that leave an entry out, by source: several may."""

    by_settings: bool
    own_layer: IgnoreLayer | None  # a `.cocosearchignore`
    git_layer: IgnoreLayer | None


@dataclass(frozen=True, slots=True)
class DirectoryRules:
    """The rules for the entries of one directory. Layers are in order of precedence.

    `rules` are of the repository that the directory is in; its work tree starts `base` bytes into
    paths relative to the root, or `outer` above it.
    """

    left_out: bool  # excluded itself, so everything in it is
    kept_by_git: bool = False  # excluded itself, but git tracks something in it
    own_layers: tuple[IgnoreLayer, ...] = ()  # of `.cocosearchignore`
    git_layers: tuple[IgnoreLayer, ...] = ()
    rules: GitRules | None = None
    base: int = 0
    outer: bytes = b""

    @property
    def ignore_case(self) -> bool:
        return self.rules is not None and self.rules.ignore_case

    def tracks(self, path: bytes) -> bool:
        """Return whether git tracks a path, or something in it."""
        return self.rules is not None and self.rules.tracks(self.outer + path[self.base :])


def parts_below(top: bytes, directory: bytes) -> list[bytes]:
    """Return the names of the directories from `top`, which is not among them, to a directory."""
    return os.path.relpath(directory, top).split(b"/") if directory != top else []


def is_left_out_unless_tracked(folder: DirectoryRules, path: bytes, name: bytes) -> bool:
    """Return whether git's rules leave an entry out, or it is a directory of build output.

    It is in scope all the same if git tracks it, or something in it.
    """
    return (
        folder.kept_by_git
        or default_patterns.OUTPUT_DIRECTORIES.ignores(path, name) is True
        or first_decision(folder.git_layers, path, name) is True
    )


def excluding_layer(layers: Iterable[IgnoreLayer], entry: bytes) -> IgnoreLayer | None:
    """Return the layer that leaves an entry out; a directory ends in `/`. None if none does."""
    name = last_part(entry)
    for layer in layers:
        decision = layer.patterns.ignores(layer.relative(entry), name)
        if decision is not None:
            return layer if decision else None
    return None


def last_part(entry: bytes) -> bytes:
    """Return the name of an entry, with the `/` at the end of a directory."""
    return entry[entry.rstrip(b"/").rfind(b"/") + 1 :]


def first_decision(layers: Iterable[IgnoreLayer], path: bytes, name: bytes) -> bool | None:
    """Return the decision of the first layer that has one: True to ignore the path. None if none has."""
    for layer in layers:
        decision = layer.patterns.ignores(layer.outer + path[layer.base :], name)
        if decision is not None:
            return decision
    return None


def fits(added: Patterns, layers: Sequence[IgnoreLayer]) -> bool:
    """Return whether a path can be compared with one more layer.

    The bounds on the wildcards of one file hold for all files in effect for a path.
    """
    wildcards = added.wildcards + sum(layer.patterns.wildcards for layer in layers)
    size = added.wildcard_size + sum(layer.patterns.wildcard_size for layer in layers)
    return (
        len(layers) < MAX_LAYERS
        and wildcards <= patterns.MAX_WILDCARDS
        and size <= patterns.MAX_WILDCARDS_BYTES
    )


def omission_warning(source: str, parsed: Patterns) -> str:
    """Describe the patterns of a source that are not used; empty if all are."""
    if not parsed.omitted:
        return ""
    bounds = (
        f"at most {patterns.MAX_WILDCARDS:,} with wildcards,"
        f" of {patterns.MAX_WILDCARD_BYTES:,} bytes each"
        f" and {patterns.MAX_WILDCARDS_BYTES:,} together, of {MAX_LAYERS} nested files"
        f" and {pattern_cache.MAX_ROOT_LINES:,} lines"
        f" and {pattern_cache.MAX_ROOT_BYTES >> 20} MB in a root, are"
    )
    return f"{source}: {parsed.omitted:,} of its patterns are not used ({bounds})"


def patterns_of_settings(*lines: str) -> Patterns:
    return patterns.parse("\n".join(lines).encode()) if lines else EMPTY
