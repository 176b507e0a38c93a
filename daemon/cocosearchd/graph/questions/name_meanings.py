"""Finds the definitions of a name, or of the names at a location. Re-exports are followed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from cocosearch_ipc.graph_vocabulary import Confidence
from cocosearchd.errors import NotFound
from cocosearchd.filters.filter_fields import Filter, file_passes
from cocosearchd.graph.code_files import (
    WHOLE_FILE,
    CodeFile,
    CodeFiles,
    DefinitionKey,
)
from cocosearchd.graph.questions.file_locations import imports_at, starting_symbol, uses_at
from cocosearchd.graph.questions.named_definitions import find_named
from cocosearchd.graph.questions.target import Target, require_target
from cocosearchd.graph.questions.target_search import (
    NameResolver,
    find_file,
    load_file,
    nothing_at,
    unknown_name,
)

MAX_NAMES = 50  # names that are resolved on a line
MAX_DEFINITIONS = 50  # definitions of one name
_BATCH_FILES = 256  # files that are loaded at once, for a filter
# A reason in addition to those of resolutions: the target itself is the definition.
NAMED = "named"


@dataclass(frozen=True, slots=True)
class NameMeaning:
    """A name and the definitions that it may mean, best first.

    Line and column are 0 if the name has no location.
    """

    name: str
    line: int
    column: int
    keys: tuple[DefinitionKey, ...]
    confidence: Confidence
    reason: str


@dataclass(frozen=True, slots=True)
class Meanings:
    """The names of a target with their definitions. `path` is the file of the location, or ""."""

    path: str
    names: tuple[NameMeaning, ...]
    is_complete: bool = True


def find_meanings(
    files: CodeFiles, resolver: NameResolver, target: Target, where: Filter
) -> Meanings:
    """Find the definitions of a target in the files that pass a filter.

    Raises `NotFound` and `InvalidInput`.
    """
    require_target(target)
    if target.is_location:
        meanings = _find_at_location(resolver, load_file(files, target), target)
        return _select_names(files, where, target, meanings)
    path = find_file(files, target)
    if path is not None:
        keys = (DefinitionKey(path, WHOLE_FILE),)
        return Meanings("", (NameMeaning(path, 0, 0, keys, "certain", NAMED),))
    return _find_by_name(files, target, where)


def _select_names(files: CodeFiles, where: Filter, target: Target, meanings: Meanings) -> Meanings:
    """Return the names that have a definition which passes a filter, or none at all.

    A name without definitions is shown as unknown, so one whose definitions all fail is left out.
    Raises `NotFound` if no name is left.
    """
    paths = (key.path for name in meanings.names for key in name.keys)
    passing = _passing_paths(files, where, paths)
    names = list[NameMeaning]()
    for name in meanings.names:
        keys = tuple(key for key in name.keys if key.path in passing)
        if keys or not name.keys:
            names.append(replace(name, keys=keys))
    if not names:
        raise NotFound(f"no definition at {target.text!r} passes the filters", "ask without them")
    return replace(meanings, names=tuple(names))


def _find_by_name(files: CodeFiles, target: Target, where: Filter) -> Meanings:
    """Find the definitions of a name in the files that pass a filter. Raises `NotFound`."""
    definitions = find_named(files, target.name_parts)
    if not definitions.matches:
        raise unknown_name(files, target, definitions.similar)
    passing = _passing_paths(files, where, (match.path for match in definitions.matches))
    matches = [match for match in definitions.matches if match.path in passing]
    if not matches:
        raise NotFound(
            f"no definition of {target.text!r} passes the filters",
            f"without them, the first is {definitions.matches[0].location}",
        )
    shown_matches = matches[:MAX_DEFINITIONS]
    keys = tuple(key for match in shown_matches for key in match.keys)
    name = NameMeaning(target.text, 0, 0, keys, "certain", NAMED)
    return Meanings("", (name,), definitions.complete and len(shown_matches) == len(matches))


def _passing_paths(files: CodeFiles, where: Filter, paths: Iterable[str]) -> frozenset[str]:
    """Return the paths of the files that pass a filter. Files are read in batches."""
    distinct = dict.fromkeys(paths)
    if where == Filter():
        return frozenset(distinct)
    passing = set[str]()
    remaining = iter(distinct)
    while batch := list(islice(remaining, _BATCH_FILES)):
        loaded = files.load(batch)
        passing |= {path for path, file in loaded.items() if file_passes(where, file)}
    return frozenset(passing)


def _find_at_location(resolver: NameResolver, file: CodeFile, target: Target) -> Meanings:
    names = list(_names_at(resolver, file, target))
    if not names:
        raise nothing_at(file, target, "nothing is defined or used")
    return Meanings(file.path, tuple(names[:MAX_NAMES]), len(names) <= MAX_NAMES)


def _names_at(resolver: NameResolver, file: CodeFile, target: Target) -> Iterator[NameMeaning]:
    """Yield the name at a column, or all names that are defined, used or imported on a line."""
    uses = uses_at(file, target.line, target.column)
    starting = starting_symbol(file, target.line)
    if starting != WHOLE_FILE and not (target.column and uses):
        keys = (DefinitionKey(file.path, starting),)
        yield NameMeaning(file.symbols[starting].name, target.line, 0, keys, "certain", NAMED)
    texts = set[tuple[str, str]]()
    for use in uses:
        if (use.receiver, use.name) not in texts and len(texts) <= MAX_NAMES:
            texts.add((use.receiver, use.name))
            resolution = resolver.resolve(file, use)
            yield NameMeaning(
                use.name,
                use.line,
                use.column,
                resolution.definitions,
                resolution.confidence,
                resolution.reason,
            )
    if not uses:
        yield from _imported_names(resolver, file, target.line)


def _imported_names(resolver: NameResolver, file: CodeFile, line: int) -> Iterator[NameMeaning]:
    for item in imports_at(file, line):
        resolution = resolver.definitions_of_import(file, item)
        name = item.name if item.name not in ("", "*") else item.module
        yield NameMeaning(
            name, line, 0, resolution.definitions, resolution.confidence, resolution.reason
        )
