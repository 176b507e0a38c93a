"""Finds the definitions of targets: by name, at a location, or a whole file.

It never guesses silently.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cocosearchd.errors import InvalidInput, NotFound
from cocosearchd.graph.code_files import (
    WHOLE_FILE,
    CodeFile,
    CodeFiles,
    DefinitionKey,
    Resolution,
)
from cocosearchd.graph.questions.file_locations import (
    enclosing_symbol,
    imports_at,
    near_symbols,
    starting_symbol,
    uses_at,
)
from cocosearchd.graph.questions.named_definitions import NamedDefinition, find_named
from cocosearchd.graph.questions.target import Target, require_target
from cocosearchd.languages.code_facts import Import, Use
from cocosearchd.languages.patterns.path_roles import is_test

MAX_SUGGESTIONS = 8
_NEAR = 3  # suggestions in a message: definitions near a location without any, and similar paths


class NameResolver(Protocol):
    """Resolves the names of a file to definitions."""

    def resolve(self, file: CodeFile, use: Use) -> Resolution:
        """Return the definitions that a use may mean, best first."""

    def definitions_of_import(self, file: CodeFile, item: Import) -> Resolution:
        """Return the definitions or the files that an import means."""


class UnknownName(NotFound):
    """No definition has the name of a target. `name` is its last part."""

    def __init__(self, message: str, hint: str, name: str) -> None:
        super().__init__(message, hint)
        self.name = name


@dataclass(frozen=True, slots=True)
class TargetDefinitions:
    """The definition that a target means, with its overloads. `notes` state the assumptions."""

    keys: tuple[DefinitionKey, ...]
    notes: tuple[str, ...] = ()


def find_file(files: CodeFiles, target: Target) -> str | None:
    """Return the indexed file that a target names; None if there is none."""
    return next((path for path in target.paths if files.has_path(path)), None)


def find_target_definitions(
    files: CodeFiles, resolver: NameResolver, target: Target
) -> TargetDefinitions:
    """Find the meaning of a target: a definition or a whole file.

    Raises `NotFound` with the nearest names, and `InvalidInput` if several definitions have the
    name.
    """
    require_target(target)
    path = find_file(files, target)
    if target.is_location:
        file = load_file(files, target)
        return _find_at_location(files, resolver, file, target)
    if path is not None:
        return TargetDefinitions((DefinitionKey(path, WHOLE_FILE),))
    return find_by_name(files, target)


def find_by_name(files: CodeFiles, target: Target) -> TargetDefinitions:
    """Find the only definition with a name. Raises like `find_target_definitions`."""
    definitions = find_named(files, target.name_parts)
    if not definitions.matches:
        raise unknown_name(files, target, definitions.similar)
    code = [
        match for match in definitions.matches if not is_test(match.path)
    ] or definitions.matches
    if len(code) > 1 or not definitions.complete:
        raise _ambiguous_error(target, definitions.matches, is_complete=definitions.complete)
    note: tuple[str, ...] = ()
    if len(definitions.matches) > 1:
        rest = ", ".join(match.location for match in definitions.matches[1 : 1 + _NEAR])
        count = len(definitions.matches) - 1
        note = (f"{count} more of this name in tests: {rest}",)
    return TargetDefinitions(code[0].keys, note)


def load_file(files: CodeFiles, target: Target) -> CodeFile:
    """Load the file of a location. Raises `NotFound` with similar paths."""
    path = find_file(files, target)
    file = files.load([path]).get(path) if path is not None else None
    if file is None:
        raise missing_file(files, target)
    return file


def missing_file(files: CodeFiles, target: Target) -> NotFound:
    """Make the error for a path that is not indexed; its hint names similar paths."""
    similar = files.paths_ending(target.path.rpartition("/")[2])[:_NEAR]
    hint = f"did you mean {' or '.join(similar)}?" if similar else "`cocosearchctl files` lists all"
    return NotFound(f"the index has no file {target.path}", hint)


def unknown_name(files: CodeFiles, target: Target, similar: Sequence[NamedDefinition]) -> NotFound:
    """Make the error for a name without a definition; its hint names similar definitions."""
    if hint := _path_hint(files, target):
        return NotFound(f"no definition or file is named {target.text!r}", hint)
    if "/" in target.path and not similar:
        return missing_file(files, target)
    name = (target.name_parts or [""])[-1]
    message = f"no definition is named {target.text!r}"
    if similar:
        return UnknownName(message, f"did you mean {_list_locations(similar)}?", name)
    users = files.files_using(name)
    hint = f"it is used in {users[0]}, and defined outside of the index" if users else ""
    return UnknownName(message, hint, name)


def _path_hint(files: CodeFiles, target: Target) -> str:
    """Return a hint for a target that is a directory, or the end of a path; "" for another one."""
    paths = files.paths()
    for directory in filter(None, (path.strip("/") for path in target.paths)):
        first = bisect_left(paths, f"{directory}/")
        if first < len(paths) and paths[first].startswith(f"{directory}/"):
            return f"it is a directory: name a file in it, such as {paths[first]}"
    similar = files.paths_ending(target.path)[:_NEAR]
    return f"did you mean {' or '.join(similar)}?" if similar else ""


def describe_key(file: CodeFile, key: DefinitionKey) -> str:
    """Return the name and location of a definition, for hints."""
    if key.position == WHOLE_FILE:
        return file.path
    symbol = file.symbols[key.position]
    return f"{symbol.qualified_name} ({file.path}:{symbol.start_line})"


def nothing_at(file: CodeFile, target: Target, problem: str) -> NotFound:
    """Make the error for a location without a definition or use; its hint names definitions nearby."""
    near = near_symbols(file, target.line, _NEAR)
    names = ", ".join(describe_key(file, DefinitionKey(file.path, position)) for position in near)
    hint = f"near it: {names}" if names else f"{file.path} has no definitions"
    return NotFound(f"{problem} at {file.path}:{_position(target)}", hint)


def _find_at_location(
    files: CodeFiles, resolver: NameResolver, file: CodeFile, target: Target
) -> TargetDefinitions:
    if target.column and (uses := uses_at(file, target.line, target.column)):
        return _find_used(files, resolver, file, uses[0])
    starting = starting_symbol(file, target.line)
    if starting != WHOLE_FILE:
        return TargetDefinitions((DefinitionKey(file.path, starting),))
    if imported := _find_imported(resolver, file, target.line):
        return imported
    enclosing = enclosing_symbol(file, target.line)
    if enclosing != WHOLE_FILE:
        name = file.symbols[enclosing].qualified_name
        note = f"{file.path}:{target.line} is in {name}"
        return TargetDefinitions((DefinitionKey(file.path, enclosing),), (note,))
    uses = uses_at(file, target.line)
    if len({(use.receiver, use.name) for use in uses}) == 1:
        return _find_used(files, resolver, file, uses[0])
    if uses:
        locations = ", ".join(f"{use.name} ({target.line}:{use.column})" for use in uses[:_NEAR])
        raise InvalidInput(
            f"{file.path}:{target.line} uses {len(uses)} names: {locations}",
            "add the column of one, as in path:line:column",
        )
    raise nothing_at(file, target, "nothing is defined or used")


def _find_used(
    files: CodeFiles, resolver: NameResolver, file: CodeFile, use: Use
) -> TargetDefinitions:
    resolution = resolver.resolve(file, use)
    position = f"{file.path}:{use.line}:{use.column}"
    if not resolution.definitions:
        raise UnknownName(
            f"{use.name} at {position} has no definition in the index",
            "it is of another project, or its definition was not recognised: search for the name",
            use.name,
        )
    note: tuple[str, ...] = ()
    if resolution.confidence != "certain":
        note = (f"{use.name} at {position} means this definition: {resolution.confidence}",)
    first, *rest = resolution.definitions
    if rest and not _are_overloads(files, resolution.definitions):
        described = ", ".join(_describe_keys(files, resolution.definitions[:MAX_SUGGESTIONS]))
        raise InvalidInput(
            f"{use.name} at {position} may mean {1 + len(rest)} definitions",
            f"name one: {described}",
        )
    return TargetDefinitions((first, *rest), note)


def _find_imported(resolver: NameResolver, file: CodeFile, line: int) -> TargetDefinitions | None:
    """Return the definition that the imports on a line mean; None if it is not exactly one."""
    items = imports_at(file, line)
    keys = {key for item in items for key in resolver.definitions_of_import(file, item).definitions}
    return TargetDefinitions(tuple(keys)) if len(keys) == 1 else None


def _are_overloads(files: CodeFiles, keys: Sequence[DefinitionKey]) -> bool:
    if any(key.position == WHOLE_FILE for key in keys):
        return False
    loaded = files.load({key.path for key in keys})
    names = {
        (key.path, loaded[key.path].symbols[key.position].qualified_name)
        for key in keys
        if key.path in loaded
    }
    return len(names) == 1


def _describe_keys(files: CodeFiles, keys: Iterable[DefinitionKey]) -> list[str]:
    listed = list(keys)
    loaded = files.load({key.path for key in listed})
    return [describe_key(loaded[key.path], key) for key in listed if key.path in loaded]


def _ambiguous_error(
    target: Target, matches: Sequence[NamedDefinition], *, is_complete: bool
) -> InvalidInput:
    count = f"{len(matches):,}" if is_complete else f"more than {len(matches):,}"
    return InvalidInput(
        f"{target.text!r} names {count} definitions",
        f"name one by its location or a longer name: {_list_locations(matches)}",
    )


def _list_locations(matches: Sequence[NamedDefinition]) -> str:
    listed = [
        f"{match.symbol.qualified_name} ({match.location})" for match in matches[:MAX_SUGGESTIONS]
    ]
    rest = len(matches) - len(listed)
    return ", ".join(listed) + (f" and {rest:,} more" if rest else "")


def _position(target: Target) -> str:
    return f"{target.line}:{target.column}" if target.column else str(target.line)
