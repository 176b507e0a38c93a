"""Finds definitions that a use may mean by its name alone, for unknown receivers."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from cocosearchd.graph.code_files import DefinitionKey, Resolution
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

# Kind of use -> kinds of definitions that it can mean; a "name" can mean any definition.
_KINDS_OF_USE: dict[UseKind, frozenset[str]] = {
    "call": CALL_TARGET_KINDS,
    "type": TYPE_TARGET_KINDS,
    "inherit": BASE_TARGET_KINDS,
}


class _PossibleKeys:
    """The definitions that a name may mean, in order.

    `is_one` means that all are one definition with its overloads.
    """

    def __init__(self, keys: Sequence[DefinitionKey], *, is_one: bool) -> None:
        self.keys = keys
        self.is_one = is_one
        self._by_path: dict[str, list[DefinitionKey]] = {}
        for key in keys:
            self._by_path.setdefault(key.path, []).append(key)
        self._paths = list(self._by_path)

    def nearest_to(self, path: str) -> Iterator[DefinitionKey]:
        """Yield the definitions by descending length of the common prefix of their path and `path`.

        Paths are sorted, so those that share a prefix follow each other. The cost depends on what
        is read, not on the number of paths.
        """
        first = after = bisect_left(self._paths, path)
        while first > 0 or after < len(self._paths):
            beside = self._paths[max(0, first - 1) : first] + self._paths[after : after + 1]
            prefix = path[: max(_shared_prefix(neighbour, path) for neighbour in beside)]
            start = bisect_left(self._paths, prefix, hi=first)
            end = bisect_right(
                self._paths, prefix, lo=after, key=lambda candidate: candidate[: len(prefix)]
            )
            for number in (*range(start, first), *range(after, end)):
                yield from self._by_path[self._paths[number]]
            first, after = start, end


class NameCandidates:
    """Finds definitions by name, with a cache for one question."""

    def __init__(self, names: NameLookup) -> None:
        self._names = names
        self._keys: dict[tuple[str, str], tuple[DefinitionKey, ...]] = {}
        # keyed by family, name, kind of use, and whether there is a receiver
        self._possible: dict[tuple[str, str, UseKind, bool], _PossibleKeys] = {}
        # keyed by path, name, kind of use, and whether there is a receiver
        self._resolutions: dict[tuple[str, str, UseKind, bool], Resolution] = {}

    def find(self, path: str, use: Use) -> Resolution:
        """Return the definitions with the name of a use, nearest first."""
        look_up = path, use.name, use.kind, bool(use.receiver)
        if look_up not in self._resolutions:
            self._resolutions[look_up] = self._resolve(path, use)
        return self._resolutions[look_up]

    def _resolve(self, path: str, use: Use) -> Resolution:
        rules = self._names.rules(path)
        possible = self._find_possible(rules.family, use)
        if not possible.keys:
            return resolution((), "unresolved")
        is_proof = use.kind == "call" and use.name not in rules.builtin_members
        if possible.is_one and (is_proof or not use.receiver):
            return resolution(possible.keys, "unique_name")
        nearest = islice(possible.nearest_to(path), MAX_CANDIDATES)
        return resolution(nearest, "name_only")

    def _find_possible(self, family: str, use: Use) -> _PossibleKeys:
        look_up = family, use.name, use.kind, bool(use.receiver)
        if look_up not in self._possible:
            keys = [
                key for key in self._keys_of_name(family, use.name) if self._is_possible(key, use)
            ]
            meanings = {(key.path, self._qualified_name(key)) for key in keys}
            self._possible[look_up] = _PossibleKeys(keys, is_one=len(meanings) == 1)
        return self._possible[look_up]

    def _keys_of_name(self, family: str, name: str) -> tuple[DefinitionKey, ...]:
        if (family, name) not in self._keys:
            self._keys[family, name] = tuple(self._search(family, name))
        return self._keys[family, name]

    def _search(self, family: str, name: str) -> Iterable[DefinitionKey]:
        paths = self._names.files.files_defining(name)[:_MAX_FILES]
        self._names.load(paths)
        for path in paths:
            names = self._names.file_names(path)
            if names is not None and rules_of(names.file.language).family == family:
                for position in names.named(name):
                    # a function inside of a function is not visible elsewhere
                    outer = names.parents[position]
                    if outer < 0 or names.kinds[outer] not in FUNCTION_KINDS:
                        yield DefinitionKey(path, position)

    def _is_possible(self, key: DefinitionKey, use: Use) -> bool:
        names = self._names.file_names(key.path)
        if names is None:
            return False
        symbol = names.file.symbols[key.position]
        allowed = _KINDS_OF_USE.get(use.kind)
        if allowed is not None and symbol.kind not in allowed:
            return False
        # an unknown receiver is an object, so the definition must be a member
        return not use.receiver or symbol.parent is not None

    def _qualified_name(self, key: DefinitionKey) -> str:
        names = self._names.file_names(key.path)
        return "" if names is None else names.file.symbols[key.position].qualified_name


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
