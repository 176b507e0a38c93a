"""Finds overridden members: a call through a base class may run the member of a subclass."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from cocosearchd.graph.code_files import CodeFile, DefinitionKey, ResolvedUse
from cocosearchd.graph.resolution.block_bindings import ANYWHERE
from cocosearchd.graph.resolution.modules.rules_table import rules_of
from cocosearchd.graph.resolution.name_lookup import NameLookup
from cocosearchd.graph.resolution.type_inference import MAX_CLASSES, TypeInference
from cocosearchd.languages.code_facts import TOP_LEVEL, Use
from cocosearchd.languages.references.chain_text import first_name


class OverriddenMembers(NamedTuple):
    """The members of base classes that a member overrides, and all base classes.

    `classes` also has base classes that only inherit the member.
    """

    members: frozenset[DefinitionKey] = frozenset()
    classes: frozenset[DefinitionKey] = frozenset()


NOTHING_OVERRIDDEN = OverriddenMembers()


UsesOf = Callable[[DefinitionKey], Iterable[ResolvedUse]]


class OverrideLookup:
    """Finds overridden and overriding members, for one question. It caches base classes."""

    def __init__(self, names: NameLookup, types: TypeInference) -> None:
        self._names = names
        self._types = types
        self._base_classes: dict[DefinitionKey, tuple[DefinitionKey, ...]] = {}
        self._direct_subclasses: dict[DefinitionKey, tuple[DefinitionKey, ...]] = {}

    def overridden_by(self, key: DefinitionKey) -> OverriddenMembers:
        """Return the members that a member overrides; none for constructors and non-members."""
        classes = frozenset(
            base for owner in self._classes_of(key) for base in self._find_base_classes(owner)
        )
        members = frozenset(member for base in classes for member in self._same_member(key, base))
        return OverriddenMembers(members, classes) if members else NOTHING_OVERRIDDEN

    def overriders_of(self, key: DefinitionKey, base_uses_of: UsesOf) -> Iterator[DefinitionKey]:
        """Yield the members of subclasses that override a member, nearest first.

        Indirect subclasses are included. `base_uses_of` yields the uses of a class as a base class.
        """
        owners = self._classes_of(key)
        visited = set(owners)
        waiting = deque(owners)
        while waiting and len(visited) <= MAX_CLASSES:
            owner = waiting.popleft()
            if owner not in self._direct_subclasses:
                self._direct_subclasses[owner] = tuple(_subclasses(base_uses_of(owner)))
            for subclass in self._direct_subclasses[owner]:
                if subclass not in visited:
                    visited.add(subclass)
                    waiting.append(subclass)
                    yield from self._same_member(key, subclass)

    def classes_of_receiver(
        self, file: CodeFile, use: Use, region: int = ANYWHERE
    ) -> tuple[DefinitionKey, ...]:
        """Return the classes of the object whose member a use means.

        The result is empty if the receiver is a class itself or the base class (`super().close()`):
        such a use runs no overriding member. `region` is the block of the receiver's first
        variable.
        """
        rules = rules_of(file.language)
        if not use.receiver:
            is_implied = rules.members_visible
            return self._types.classes_around(file.path, use.symbol) if is_implied else ()
        if first_name(use.receiver) in rules.parent_names:
            return ()
        value = self._types.evaluate(file.path, use.symbol, use.receiver, use.is_local, region)
        return value.definitions if value.kind == "instance" else ()

    def _classes_of(self, key: DefinitionKey) -> tuple[DefinitionKey, ...]:
        """Return the classes of a member that can be overridden; empty for constructors."""
        symbol = self._types.symbol(key)
        if symbol is None or not self._names.is_method(key):
            return ()
        if symbol.name in self._names.rules(key.path).constructor_names:
            return ()
        return self._types.classes_around(key.path, key.position)

    def _same_member(self, key: DefinitionKey, owner: DefinitionKey) -> tuple[DefinitionKey, ...]:
        """Return the member of a class with the same name as another member."""
        symbol = self._types.symbol(key)
        return () if symbol is None else self._types.own_members(owner, symbol.name)

    def _find_base_classes(self, key: DefinitionKey) -> tuple[DefinitionKey, ...]:
        if key not in self._base_classes:
            self._base_classes[key] = tuple(self._walk_base_classes(key))
        return self._base_classes[key]

    def _walk_base_classes(self, key: DefinitionKey) -> Iterator[DefinitionKey]:
        """Yield the direct and indirect base classes of a class, nearest first."""
        visited = {key}
        waiting = deque([key])
        while waiting and len(visited) <= MAX_CLASSES:
            new_bases = [
                base for base in self._types.bases(waiting.popleft()) if base not in visited
            ]
            yield from new_bases
            visited.update(new_bases)
            waiting += new_bases


def _subclasses(uses: Iterable[ResolvedUse]) -> Iterator[DefinitionKey]:
    """Yield the direct subclasses of a class, from its uses as a base class."""
    for match in uses:
        if match.use.symbol != TOP_LEVEL:
            yield DefinitionKey(match.file.path, match.use.symbol)
