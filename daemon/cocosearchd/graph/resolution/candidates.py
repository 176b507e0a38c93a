"""Finds definitions that a use may mean by its name alone, for unknown receivers."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from cocosearchd.graph.code_files import DefinitionKey, Resolution
from cocosearchd.graph.resolution.file_names import FileNames
from cocosearchd.graph.resolution.modules.rules_table import rules_of
from cocosearchd.graph.resolution.name_lookup import NameLookup
from cocosearchd.graph.resolution.reasons import REASONS
from cocosearchd.languages.code_facts import Use, UseKind
from cocosearchd.languages.symbols import (
    BASE_TARGET_KINDS,
    CALL_TARGET_KINDS,
    FUNCTION_KINDS,
    TYPE_TARGET_KINDS,
)

# Limits of definitions per resolution, and of files that are read for it.
MAX_CANDIDATES = 20
_MAX_FILES = 200
# Files that are loaded at once, nearest first.
_BATCH_FILES = 32

# Kind of use -> kinds of definitions that it can mean; a "name" can mean any definition.
_KINDS_OF_USE: dict[UseKind, frozenset[str]] = {
    "call": CALL_TARGET_KINDS,
    "type": TYPE_TARGET_KINDS,
    "inherit": BASE_TARGET_KINDS,
}


class NameCandidates:
    """Finds definitions by name, with a cache for one question.

    A name may have definitions in hundreds of files, of which few are near a use: files are read
    only as far as an answer needs them.
    """

    def __init__(self, names: NameLookup) -> None:
        self._names = names
        self._paths: dict[str, Sequence[str]] = {}
        # keyed by family, name, kind of use, and whether there is a receiver; then by path
        self._possible: dict[tuple[str, str, UseKind, bool], dict[str, Sequence[DefinitionKey]]] = (
            defaultdict(dict)
        )
        # keyed by family, name, kind of use, and whether there is a receiver: None if there are
        # several definitions
        self._single: dict[tuple[str, str, UseKind, bool], Sequence[DefinitionKey] | None] = {}
        # keyed in the same way, by the path of the use
        self._resolutions: dict[tuple[str, str, UseKind, bool], Resolution] = {}

    def find(self, path: str, use: Use) -> Resolution:
        """Return the definitions with the name of a use, nearest first."""
        look_up = path, use.name, use.kind, bool(use.receiver)
        if look_up not in self._resolutions:
            self._resolutions[look_up] = self._resolve(path, use)
        return self._resolutions[look_up]

    def _resolve(self, path: str, use: Use) -> Resolution:
        rules = self._names.rules(path)
        single = self._find_single(rules.family, use)
        if single is not None and not single:
            return resolution((), "unresolved")
        is_proof = use.kind == "call" and use.name not in rules.builtin_members
        if single and (is_proof or not use.receiver):
            return resolution(single, "unique_name")
        paths = nearest_paths(self._defining_paths(use.name), path)
        nearest = islice(self._find_possible(paths, rules.family, use), MAX_CANDIDATES)
        return resolution(nearest, "name_only")

    def _find_single(self, family: str, use: Use) -> Sequence[DefinitionKey] | None:
        """Return the only definition that a use may mean, with its overloads.

        Return no definitions if there are none, and None if there are several.
        """
        look_up = family, use.name, use.kind, bool(use.receiver)
        if look_up not in self._single:
            self._single[look_up] = self._search_single(family, use)
        return self._single[look_up]

    def _search_single(self, family: str, use: Use) -> Sequence[DefinitionKey] | None:
        keys = list[DefinitionKey]()
        meanings = set[tuple[str, str]]()
        for key in self._find_possible(self._defining_paths(use.name), family, use):
            keys.append(key)
            meanings.add((key.path, self._qualified_name(key)))
            if len(meanings) > 1:
                return None
        return keys

    def _defining_paths(self, name: str) -> Sequence[str]:
        if name not in self._paths:
            self._paths[name] = self._names.files.files_defining(name)[:_MAX_FILES]
        return self._paths[name]

    def _find_possible(
        self, paths: Iterable[str], family: str, use: Use
    ) -> Iterator[DefinitionKey]:
        """Yield the definitions in some files that a use may mean; files are read in batches."""
        possible = self._possible[family, use.name, use.kind, bool(use.receiver)]
        remaining = iter(paths)
        while batch := list(islice(remaining, _BATCH_FILES)):
            self._names.load([path for path in batch if path not in possible])
            for path in batch:
                if path not in possible:
                    possible[path] = self._possible_in(path, family, use)
                yield from possible[path]

    def _possible_in(self, path: str, family: str, use: Use) -> Sequence[DefinitionKey]:
        """Return the definitions in a file that a use in another file may mean."""
        names = self._names.file_names(path)
        if names is None or rules_of(names.file.language).family != family:
            return ()
        return tuple(
            DefinitionKey(path, position)
            for position in names.named(use.name)
            if _is_possible(names, position, use)
        )

    def _qualified_name(self, key: DefinitionKey) -> str:
        names = self._names.file_names(key.path)
        return "" if names is None else names.file.symbols[key.position].qualified_name


def _is_possible(names: FileNames, position: int, use: Use) -> bool:
    # a function inside of a function is not visible elsewhere
    outer = names.parents[position]
    if outer >= 0 and names.kinds[outer] in FUNCTION_KINDS:
        return False
    allowed = _KINDS_OF_USE.get(use.kind)
    if allowed is not None and names.kinds[position] not in allowed:
        return False
    # an unknown receiver is an object, so the definition must be a member
    return not use.receiver or names.file.symbols[position].parent is not None


def nearest_paths(paths: Sequence[str], path: str) -> Iterator[str]:
    """Yield sorted paths by descending length of the prefix that they share with `path`.

    Paths that share a prefix follow each other. The cost depends on what is read, not on the number
    of paths.
    """
    first = after = bisect_left(paths, path)
    while first > 0 or after < len(paths):
        beside = [*paths[max(0, first - 1) : first], *paths[after : after + 1]]
        prefix = path[: max(_shared_prefix(neighbour, path) for neighbour in beside)]
        start = bisect_left(paths, prefix, hi=first)
        end = bisect_right(paths, prefix, lo=after, key=lambda candidate: candidate[: len(prefix)])
        yield from paths[start:first]
        yield from paths[after:end]
        first, after = start, end


def resolution(keys: Iterable[DefinitionKey], reason: str) -> Resolution:
    """Make a resolution with the confidence of its reason."""
    return Resolution(tuple(keys), REASONS[reason].confidence, reason)


def _shared_prefix(first: str, second: str) -> int:
    """Return the length of the common prefix of two paths."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first.startswith(second[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low
