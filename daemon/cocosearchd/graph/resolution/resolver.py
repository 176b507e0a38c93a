"""Resolves uses to definitions, layer by layer, with a reason each. It never guesses silently."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress
from operator import not_
from typing import NamedTuple

from cocosearchd.graph.code_files import (
    CodeFile,
    CodeFiles,
    DefinitionKey,
    Resolution,
    ResolvedImport,
    ResolvedUse,
)
from cocosearchd.graph.resolution.block_bindings import ANYWHERE
from cocosearchd.graph.resolution.candidates import NameCandidates, resolution
from cocosearchd.graph.resolution.file_names import ScopeDefinitions
from cocosearchd.graph.resolution.inferred_value import Value
from cocosearchd.graph.resolution.modules.rules_table import rules_of
from cocosearchd.graph.resolution.name_lookup import NameLookup
from cocosearchd.graph.resolution.overrides import OverriddenMembers, OverrideLookup
from cocosearchd.graph.resolution.precise_resolution import PreciseResolver
from cocosearchd.graph.resolution.type_inference import TypeInference
from cocosearchd.graph.resolution.use_search import UseSearch
from cocosearchd.graph.use_cache import UseCache
from cocosearchd.languages.code_facts import Import, Use
from cocosearchd.languages.references.chain_text import first_name
from cocosearchd.languages.symbols import TYPE_KINDS

_TYPE_USES = frozenset({"type", "inherit"})
_SCOPE_REASONS = frozenset({"same_scope", "same_file"})
# Classes of one object that are compared: more are no answer.
_MAX_CLASSES = 8


class _DefinitionKinds(NamedTuple):
    """Definitions with one name, split by kind."""

    definitions: tuple[DefinitionKey, ...]
    types: tuple[DefinitionKey, ...]
    values: tuple[DefinitionKey, ...]


class MeaningResolver:
    """Resolves uses and imports to definitions at one moment. It caches all look-ups."""

    def __init__(self, files: CodeFiles) -> None:
        self._precise = PreciseResolver(files)
        self._names = NameLookup(files)
        self._types = TypeInference(self._names)
        self._candidates = NameCandidates(self._names)
        self.overrides = OverrideLookup(self._names, self._types)
        self._resolutions: dict[tuple[str, int, str, str, str, bool, int], Resolution] = {}
        # Equal resolutions are one object: a file may use a name with thousands of definitions in
        # thousands of functions.
        self._shared: dict[Resolution, Resolution] = {}
        # By the id of the definitions, which an entry keeps, and the reason: to hash thousands of
        # definitions for each of thousands of uses would take seconds
        self._shared_by_id: dict[tuple[int, str], Resolution] = {}
        # By the id of a shared resolution
        self._scope_definitions: dict[int, ScopeDefinitions] = {}
        # By the id of the definitions of a value, which an entry keeps
        self._kinds: dict[int, _DefinitionKinds] = {}

    def resolve(self, file: CodeFile, use: Use) -> Resolution:
        """Return the definitions that a use may mean, best first."""
        precise = self._precise.resolve(file, use) if file.precise_uses is not None else None
        if precise is not None:
            return precise
        region = self._region(file, use)
        key = (file.path, use.symbol, use.receiver, use.name, use.kind, use.is_local, region)
        if key not in self._resolutions:
            resolved = self._resolve(file, use, region)
            self._resolutions[key] = self._share(resolved)
        return self._nearest(file, use, self._resolutions[key])

    def _share(self, resolved: Resolution) -> Resolution:
        """Return the resolution that stands for all equal ones."""
        key = (id(resolved.definitions), resolved.reason)
        shared = self._shared_by_id.get(key)
        if shared is None:
            shared = self._shared.setdefault(resolved, resolved)
            if shared is resolved:
                self._shared_by_id[key] = shared
        return shared

    def imported_files(self, file: CodeFile, item: Import) -> tuple[str, ...]:
        """Return the indexed files that the module of an import means; empty if it is external."""
        if not item.module:
            return ()
        if rules_of(file.language).has_packages and item.name not in ("", "*"):
            value = self._names.find_import(file.path, item)
            return tuple(dict.fromkeys(key.path for key in value.definitions))
        paths = list(self._names.find_module(file, item.module))
        if item.name not in ("", "*"):
            value = self._names.find_import(file.path, item)
            # `from package import module` means the module
            if value.kind == "module":
                paths = list(value.paths)
        return tuple(path for path in paths if not path.endswith("/"))

    def definitions_of_import(self, file: CodeFile, item: Import) -> Resolution:
        """Return the definitions, or the whole files, that an import means."""
        value = self._names.find_import(file.path, item)
        if value.kind == "module":
            return self._module_resolution(value)
        return self._choose(value, "name", "import")

    def overridden_by(self, key: DefinitionKey) -> OverriddenMembers:
        """Return the members of base classes that a member overrides."""
        return self.overrides.overridden_by(key)

    def classes_of_receiver(self, file: CodeFile, use: Use) -> tuple[DefinitionKey, ...]:
        """Return the classes of the object whose member a use means; empty if unknown."""
        return self.overrides.classes_of_receiver(file, use, self._region(file, use))

    def _region(self, file: CodeFile, use: Use) -> int:
        """Return the region of the first variable in the receiver of a use."""
        names = self._names.file_names(file.path) if use.receiver else None
        if names is None:
            return ANYWHERE
        return names.blocks.region(first_name(use.receiver), use.line)

    def _resolve(self, file: CodeFile, use: Use, region: int) -> Resolution:
        if use.receiver:
            return self._resolve_member(file, use, region)
        resolved = self._resolve_name(file, use)
        if use.kind != "name" or not rules_of(file.language).methods_need_calls:
            return resolved
        keys = tuple(key for key in resolved.definitions if not self._names.is_method(key))
        return replace(resolved, definitions=keys) if keys else resolution((), "unresolved")

    def _resolve_name(self, file: CodeFile, use: Use) -> Resolution:
        value = self._names.find_name(file.path, use.symbol, use.name)
        if rules_of(file.language).members_visible and value.reason != "same_scope":
            member = self._types.member_of_scope(file.path, use.symbol, use.name)
            if member.kind == "definition":
                return self._choose(member, use.kind, member.reason)
        if value.kind == "module":
            return self._module_resolution(value)
        if value.is_usable:
            return self._choose(value, use.kind, value.reason)
        if value.kind == "foreign" or rules_of(file.language).needs_import:
            return resolution((), "foreign")
        return self._candidates.find(file.path, use)

    def _nearest(self, file: CodeFile, use: Use, resolved: Resolution) -> Resolution:
        """Select, from several definitions in the use's own scope, the nearest one before the use.

        This is needed because several unnamed callbacks may each define the same name. `resolved`
        is one of the shared resolutions.
        """
        keys = resolved.definitions
        names = self._names.file_names(file.path)
        if len(keys) < 2 or resolved.reason not in _SCOPE_REASONS or names is None:
            return resolved
        scope = self._scope_definitions.get(id(resolved))
        if scope is None:
            scope = self._scope_definitions[id(resolved)] = ScopeDefinitions(names, resolved)
        return scope.nearest(use.line)

    def _resolve_member(self, file: CodeFile, use: Use, region: int) -> Resolution:
        value = self._types.evaluate(file.path, use.symbol, use.receiver, use.is_local, region)
        member = self._types.member(value, use.name)
        if member.kind == "module":
            return self._module_resolution(member)
        if member.kind == "definition" and not member.is_content:
            return self._choose(member, use.kind, self._member_reason(value, member))
        if member.is_usable:  # a known attribute without a definition of its own
            return resolution((), "unresolved")
        if member.kind == "foreign" or value.kind in ("module", "foreign"):
            return resolution((), "foreign")
        return self._resolve_by_name(file, use, value)

    def _resolve_by_name(self, file: CodeFile, use: Use, value: Value) -> Resolution:
        """Resolve by name alone, unless the language declares all members of the known type."""
        rules = rules_of(file.language)
        is_path = value.kind == "definition" and rules.has_static_paths
        if value.is_usable and (rules.is_static or is_path):
            return resolution((), "unresolved")
        return self._candidates.find(file.path, use)

    def _member_reason(self, value: Value, member: Value) -> str:
        has_several = value.kind == "instance" and len(value.definitions) > 1
        if has_several and len(self._meanings(member.definitions)) > 1:
            return "several_types"
        return "inferred_member" if member.is_inferred else member.reason

    def _choose(self, value: Value, kind: str, reason: str) -> Resolution:
        """Return the definitions of a value that fit the kind of use: types or values."""
        kinds = self._kinds_of(value.definitions)
        keys = value.definitions
        if kinds.types and kinds.values:
            keys = kinds.types if kind in _TYPE_USES else kinds.values
        return resolution(keys, reason)

    def _kinds_of(self, keys: tuple[DefinitionKey, ...]) -> "_DefinitionKinds":
        kinds = self._kinds.get(id(keys))
        if kinds is None:
            are_types = list(map(self._is_type, keys))
            kinds = self._kinds[id(keys)] = _DefinitionKinds(
                keys,
                tuple(compress(keys, are_types)),
                tuple(compress(keys, map(not_, are_types))),
            )
        return kinds

    def _is_type(self, key: DefinitionKey) -> bool:
        symbol = self._types.symbol(key)
        return symbol is not None and symbol.kind in TYPE_KINDS - {"class", "enum"}

    def _meanings(self, keys: tuple[DefinitionKey, ...]) -> set[tuple[str, str]]:
        symbols = ((key.path, self._types.symbol(key)) for key in keys[:_MAX_CLASSES])
        return {(path, symbol.qualified_name) for path, symbol in symbols if symbol is not None}

    def _module_resolution(self, value: Value) -> Resolution:
        keys = (DefinitionKey(path, -1) for path in value.paths if not path.endswith("/"))
        return resolution(keys, "import")


class Resolver:
    """Resolves uses at one moment, in both directions. Create one per question.

    Nothing in it refers back to it, so its memory is returned with it: the garbage of a question
    may be a hundred megabytes, and a full collection would block all threads for seconds.
    """

    def __init__(self, files: CodeFiles, cache: UseCache | None = None) -> None:
        """`cache` must be from the same moment as the files; with None, it starts empty."""
        self._meanings = MeaningResolver(files)
        self._search = UseSearch(files, self._meanings, cache or UseCache())

    def resolve(self, file: CodeFile, use: Use) -> Resolution:
        """Return the definitions that a use may mean, best first."""
        return self._meanings.resolve(file, use)

    def imported_files(self, file: CodeFile, item: Import) -> tuple[str, ...]:
        """Return the indexed files that the module of an import means; empty if it is external."""
        return self._meanings.imported_files(file, item)

    def definitions_of_import(self, file: CodeFile, item: Import) -> Resolution:
        """Return the definitions, or the whole files, that an import means."""
        return self._meanings.definitions_of_import(file, item)

    def overridden_by(self, key: DefinitionKey) -> OverriddenMembers:
        """Return the members of base classes that a member overrides."""
        return self._meanings.overridden_by(key)

    def classes_of_receiver(self, file: CodeFile, use: Use) -> tuple[DefinitionKey, ...]:
        """Return the classes of the object whose member a use means; empty if unknown."""
        return self._meanings.classes_of_receiver(file, use)

    def overriders_of(self, key: DefinitionKey) -> Iterator[DefinitionKey]:
        """Yield the members of subclasses that override a member, nearest first."""
        return self._meanings.overrides.overriders_of(key, self._search.subclass_uses_of)

    def uses_of(self, definition: DefinitionKey) -> Iterator[ResolvedUse]:
        """Yield the uses that mean a definition, by path, lazily.

        If the definition overrides a member of a base class, calls through the base class are
        included with the confidence `possible`.
        """
        return self._search.uses_of(definition)

    def mentioning_paths(self, definition: DefinitionKey) -> Sequence[str]:
        """Return the paths of all files that may use or import a definition, sorted."""
        return self._search.mentioning_paths(definition)

    def may_mention(self, definition: DefinitionKey, path: str) -> bool:
        """Return False if a file is known to have neither a use nor an import of a definition."""
        return self._search.may_mention(definition, path)

    def uses_in(self, definition: DefinitionKey, file: CodeFile) -> Iterator[ResolvedUse]:
        """Yield the uses in a file that mean a definition."""
        return self._search.uses_in(definition, file)

    def imports_in(self, definition: DefinitionKey, file: CodeFile) -> Iterator[ResolvedImport]:
        """Yield the imports in a file that mean a definition."""
        return self._search.imports_in(definition, file)

    def imports_of(self, definition: DefinitionKey) -> Iterator[ResolvedImport]:
        """Yield the imports that mean a definition, or a file as a whole."""
        return self._search.imports_of(definition)
