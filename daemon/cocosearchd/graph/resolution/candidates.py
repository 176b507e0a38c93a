"""Definitions that a use may mean by its name alone, for receivers that are not known"""

from collections.abc import Iterable

from cocosearchd.graph.code_files import DefinitionKey, Resolution
from cocosearchd.graph.resolution.modules.rules_table import rules_of
from cocosearchd.graph.resolution.reasons import REASONS
from cocosearchd.graph.resolution.scope_lookup import ScopeLookup
from cocosearchd.languages.code_facts import Use, UseKind
from cocosearchd.languages.symbols import FUNCTION_KINDS, MINOR_KINDS, TYPE_KINDS

# Definitions of a resolution, and files that are read for them.
MAX_CANDIDATES = 20
_MAX_FILES = 200

_CALLABLE_KINDS = FUNCTION_KINDS | TYPE_KINDS | MINOR_KINDS
# The kinds of definitions that a use of a kind can mean; a "name" can mean anything.
_KINDS_OF_USE: dict[UseKind, frozenset[str]] = {
    "call": _CALLABLE_KINDS,
    "type": TYPE_KINDS | {"namespace", "concept"},
    "inherit": TYPE_KINDS | {"constant"},
}


class NameCandidates:
    """Finds definitions by name, once a name for one question."""

    def __init__(self, names: ScopeLookup) -> None:
        self._names = names
        self._keys: dict[tuple[str, str], tuple[DefinitionKey, ...]] = {}

    def find(self, path: str, use: Use) -> Resolution:
        """Return the definitions with the name of a use, the nearest first."""
        rules = self._names.rules(path)
        keys = [key for key in self._all(rules.family, use.name) if self._is_possible(key, use)]
        if not keys:
            return resolution((), "unresolved")
        meanings = {(key.path, self._qualified(key)) for key in keys}
        is_proof = use.kind == "call" and use.name not in rules.builtin_members
        if len(meanings) == 1 and (is_proof or not use.receiver):
            return resolution(keys, "unique_name")
        keys.sort(key=lambda key: (-_shared_prefix(key.path, path), key))
        return resolution(keys[:MAX_CANDIDATES], "name_only")

    def _all(self, family: str, name: str) -> tuple[DefinitionKey, ...]:
        if (family, name) not in self._keys:
            self._keys[family, name] = tuple(self._search(family, name))
        return self._keys[family, name]

    def _search(self, family: str, name: str) -> Iterable[DefinitionKey]:
        paths = self._names.files.files_defining(name)[:_MAX_FILES]
        self._names.load(paths)
        for path in paths:
            scope = self._names.scope(path)
            if scope is not None and rules_of(scope.file.language).family == family:
                symbols = scope.file.symbols
                for position in scope.named(name):
                    # a function of a function is not seen from elsewhere
                    outer = scope.parents[position]
                    if outer < 0 or symbols[outer].kind not in FUNCTION_KINDS:
                        yield DefinitionKey(path, position)

    def _is_possible(self, key: DefinitionKey, use: Use) -> bool:
        scope = self._names.scope(key.path)
        if scope is None:
            return False
        symbol = scope.file.symbols[key.symbol]
        allowed = _KINDS_OF_USE.get(use.kind)
        if allowed is not None and symbol.kind not in allowed:
            return False
        # a receiver that is not known is an object: it has members
        return not use.receiver or symbol.parent is not None

    def _qualified(self, key: DefinitionKey) -> str:
        scope = self._names.scope(key.path)
        return "" if scope is None else scope.file.symbols[key.symbol].qualified_name


def resolution(keys: Iterable[DefinitionKey], reason: str) -> Resolution:
    """Return a resolution with the confidence of its reason."""
    return Resolution(tuple(keys), REASONS[reason].confidence, reason)


def _shared_prefix(first: str, second: str) -> int:
    length = min(len(first), len(second))
    return next((i for i in range(length) if first[i] != second[i]), length)
