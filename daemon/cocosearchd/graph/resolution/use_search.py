"""Searches the uses of a definition, by its name and its aliases, lazily."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from cocosearchd.graph.code_files import (
    WHOLE_FILE,
    CodeFile,
    CodeFiles,
    DefinitionKey,
    Resolution,
    ResolvedImport,
    ResolvedUse,
)
from cocosearchd.graph.resolution.candidates import resolution
from cocosearchd.graph.resolution.file_names import mentions_of, names_of
from cocosearchd.graph.resolution.modules.rules_table import rules_of
from cocosearchd.graph.resolution.overrides import OverriddenMembers
from cocosearchd.graph.use_cache import (
    ImportAlias,
    NameUses,
    UseCache,
    UsedNames,
    UseMeaning,
    select_meanings,
)
from cocosearchd.languages.code_facts import TOP_LEVEL, Import, Use
from cocosearchd.languages.patterns.path_roles import DIRECTORY_STEMS
from cocosearchd.languages.symbols import FUNCTION_KINDS
from cocosearchd.model import Symbol

# Names under which one definition is imported; only generated code has more.
MAX_ALIASES = 100
# Files with a name that are searched for its declaration and its definitions.
_MAX_DECLARING = 200
# Bytes of resolved uses and imports that a question caches.
MAX_REMEMBERED = 100 << 20
_IMPORT_BYTES = 300
# Files that are loaded at once: one round trip to the store, and some 40 ms of unpacking.
_BATCH = 256
# Uses of a file that are resolved between two checks of the time: a file may have 50,000, and each
# may take milliseconds.
_CHECKED_USES = 64
_DEFAULT = "default"


class ForwardResolver(Protocol):
    """Resolves uses to definitions: the search asks it about each candidate."""

    def resolve(self, file: CodeFile, use: Use) -> Resolution:
        """Return the definitions that a use may mean."""

    def definitions_of_import(self, file: CodeFile, item: Import) -> Resolution:
        """Return the definitions that an import may mean."""

    def overridden_by(self, key: DefinitionKey) -> OverriddenMembers:
        """Return the members of base classes that a member overrides."""

    def classes_of_receiver(self, file: CodeFile, use: Use) -> Sequence[DefinitionKey]:
        """Return the classes of the object whose member a use means; empty if unknown."""


class _UseTarget(NamedTuple):
    """A definition whose uses are searched, with its overloads and the names of its uses."""

    meanings: frozenset[DefinitionKey]
    overridden: OverriddenMembers
    used: UsedNames
    is_imported: bool  # an import may mean it
    is_local: bool  # a function inside of a function: code outside of its file cannot use it

    @property
    def names(self) -> frozenset[str]:
        """The names of its uses."""
        return self.used.names

    @property
    def candidates(self) -> frozenset[DefinitionKey]:
        """The definitions whose uses may be uses of the target."""
        return self.meanings | self.overridden.members


class UseSearch:
    """Searches files that mention the names of a definition, and resolves each mention."""

    def __init__(self, files: CodeFiles, resolver: ForwardResolver, cache: UseCache) -> None:
        """`cache` must be from the same moment as the files."""
        self._files = files
        self._resolver = resolver
        self._cache = cache
        # Definitions often share their names: the uses of each set of names are resolved once.
        self._uses: dict[UsedNames, NameUses] = {}
        # Imports that give a name an alias, by the name and whether it is the definition's own
        self._imports: dict[tuple[str, bool], Sequence[ImportAlias]] = {}
        self._remembered = 0  # bytes
        self._targets: dict[DefinitionKey, _UseTarget] = {}

    def mentioning_paths(self, definition: DefinitionKey) -> Sequence[str]:
        """Return the paths of all files that may use or import a definition, sorted."""
        target = self._make_target(definition)
        return [definition.path] if target.is_local else self._mentioning_paths(target.names)

    def may_mention(self, definition: DefinitionKey, path: str) -> bool:
        """Return False if a file is known to have neither a use nor an import of a definition."""
        target = self._make_target(definition)
        uses = self._uses_of(target.used)
        return target.is_imported or path not in uses or uses.may_use(path, target.candidates)

    def uses_in(self, definition: DefinitionKey, file: CodeFile) -> Iterator[ResolvedUse]:
        """Yield the uses in a file that mean a definition."""
        return self._uses_in(self._make_target(definition), file)

    def _uses_in(self, target: _UseTarget, file: CodeFile) -> Iterator[ResolvedUse]:
        uses = self._find_uses(file, target.used, target.candidates)
        if not target.overridden.members:  # then all uses mean the target itself
            yield from (ResolvedUse(file, item.use, item.resolution) for item in uses)
            return
        certain = set(map(id, select_meanings(uses, target.meanings)))
        for meaning in uses:
            if id(meaning) in certain:
                yield ResolvedUse(file, meaning.use, meaning.resolution)
            elif self._may_run_override(target, file, meaning.use):
                yield ResolvedUse(
                    file, meaning.use, resolution(sorted(target.meanings), "through_base")
                )

    def _may_run_override(self, target: _UseTarget, file: CodeFile, use: Use) -> bool:
        """Return True if the receiver of a use has a base class whose member the target overrides."""
        classes = self._resolver.classes_of_receiver(file, use)
        return not target.overridden.classes.isdisjoint(classes)

    def imports_in(self, definition: DefinitionKey, file: CodeFile) -> Iterator[ResolvedImport]:
        """Yield the imports in a file that mean a definition."""
        target = self._make_target(definition)
        if not target.is_imported:
            return
        for item in mentions_of(file).find(target.names):
            meaning = self._resolver.definitions_of_import(file, item)
            if not target.meanings.isdisjoint(meaning.definitions):
                yield ResolvedImport(file, item, meaning)

    def uses_of(self, definition: DefinitionKey) -> Iterator[ResolvedUse]:
        """Yield the uses that mean a definition, by path."""
        target = self._make_target(definition)
        for batch in _batches(self.mentioning_paths(definition)):
            for file in self._load_users(batch, target.used, target.candidates):
                yield from self._uses_in(target, file)

    def subclass_uses_of(self, definition: DefinitionKey) -> Iterator[ResolvedUse]:
        """Yield the uses of a class by its subclasses; the other uses are not resolved."""
        target = self._make_target(definition)
        used = UsedNames(target.names, only_bases=True)
        for batch in _batches(self.mentioning_paths(definition)):
            for file in self._load_users(batch, used, target.meanings):
                for _, use, meaning in self._find_uses(file, used, target.meanings):
                    yield ResolvedUse(file, use, meaning)

    def _load_users(
        self, batch: Sequence[str], used: UsedNames, definitions: frozenset[DefinitionKey]
    ) -> Iterator[CodeFile]:
        """Yield, in order, the files of a batch that may have a use of one of `definitions`."""
        uses = self._uses_of(used)
        # This comes before the next line reads the users: otherwise files that another question
        # adds in between would be in neither set.
        unknown = {path for path in batch if path not in uses}
        users = uses.using_paths(definitions) | unknown
        paths = [path for path in batch if path in users]
        code_files = self._files.load(paths) if paths else {}
        yield from (code_files[path] for path in paths if path in code_files)

    def imports_of(self, definition: DefinitionKey) -> Iterator[ResolvedImport]:
        """Yield the imports that mean a definition, by path."""
        target = self._make_target(definition)
        for file in self._load_mentioning_files(target.names) if target.is_imported else ():
            yield from self.imports_in(definition, file)

    def _uses_of(self, names: UsedNames) -> NameUses:
        """Return the uses of some names that are already resolved, by any question."""
        uses = self._uses.get(names)
        if uses is None:
            uses = self._uses[names] = self._cache.of_names(names)
        return uses

    def _find_uses(
        self, file: CodeFile, names: UsedNames, definitions: frozenset[DefinitionKey]
    ) -> Sequence[UseMeaning]:
        """Return the uses of `names` in a file that may mean one of `definitions`."""
        uses = self._uses_of(names)
        if file.path in uses:
            return uses.find(file, definitions)
        meanings = list[UseMeaning]()
        for number, row in enumerate(_select_rows(file, names), 1):
            use = file.facts.uses[row]
            meanings.append(UseMeaning(row, use, self._resolver.resolve(file, use)))
            if number % _CHECKED_USES == 0:
                self._files.load(())
        # An empty load raises `LimitReached` if the time is over: then the resolver's results may
        # be incomplete and must not be cached.
        self._files.load(())
        if self._remembered < MAX_REMEMBERED:
            self._remembered += self._cache.add(names, uses, file.path, meanings)
            if file.path not in uses:  # another question is about a later moment
                self._uses[names] = self._cache.of_names(names)
        return select_meanings(meanings, definitions)

    def _make_target(self, definition: DefinitionKey) -> _UseTarget:
        if definition not in self._targets:
            meanings = self._meanings(definition)
            is_imported = any(map(self._can_be_imported, _by_path(meanings)))
            is_local = not is_imported and all(map(self._is_local, meanings))
            names = frozenset(self._names_of(definition, meanings, is_imported=is_imported))
            overridden = self._resolver.overridden_by(definition)
            needs_receiver = not is_imported and self._needs_receiver(definition)
            used = UsedNames(names, needs_receiver)
            target = _UseTarget(meanings, overridden, used, is_imported, is_local)
            # one shared target: a definition may have ten thousand overloads
            overloads = (key for key in meanings if key.path == definition.path)
            self._targets |= dict.fromkeys((definition, *overloads), target)
        return self._targets[definition]

    def _meanings(self, definition: DefinitionKey) -> frozenset[DefinitionKey]:
        """Return a definition with its overloads and, in C and C++, its declarations."""
        file = self._files.load([definition.path]).get(definition.path)
        if file is None or definition.position == WHOLE_FILE:
            return frozenset({definition})
        if not rules_of(file.language).has_prototypes:
            positions = names_of(file).same_definition(definition.position)
            return frozenset(DefinitionKey(definition.path, position) for position in positions)
        return self._declarations(definition, file.symbols[definition.position])

    def _declarations(self, definition: DefinitionKey, symbol: Symbol) -> frozenset[DefinitionKey]:
        """Return a definition with its overloads and its declarations in other files."""
        paths = [definition.path, *self._files.files_defining(symbol.name)[:_MAX_DECLARING]]
        kinds = {
            DefinitionKey(path, position): item.kind
            for path, code_file in self._files.load(paths).items()
            for position, item in enumerate(code_file.symbols)
            if item.qualified_name == symbol.qualified_name
        }
        # definitions in several files count as one only if there is a declaration
        if "prototype" not in kinds.values():
            return frozenset(key for key in kinds if key.path == definition.path)
        return frozenset(kinds)

    def _names_of(
        self, definition: DefinitionKey, meanings: frozenset[DefinitionKey], *, is_imported: bool
    ) -> set[str]:
        """Return the names under which a definition is used: its own, and its import aliases."""
        file = self._files.load([definition.path]).get(definition.path)
        if file is None:
            return set()
        stem = module_name(definition.path)
        is_file = definition.position == WHOLE_FILE
        names = {stem} if is_file else {file.symbols[definition.position].name}
        if not is_imported:
            return names
        # a default export may be imported under any name, but the import names the module
        if any(item.local == _DEFAULT and not item.module for item in file.facts.imports):
            return self._with_aliases(names, {*names, stem}, meanings)
        return self._with_aliases(names, names, meanings)

    def _with_aliases(
        self, own_names: set[str], imported_names: set[str], meanings: frozenset[DefinitionKey]
    ) -> set[str]:
        """Return names with their import aliases, followed transitively."""
        names = set(own_names)
        waiting = [*imported_names]
        while waiting and len(names) < MAX_ALIASES:
            name = waiting.pop()
            new_aliases = set(self._aliases(name, meanings, is_own=name in names)) - names
            names |= new_aliases
            waiting += sorted(new_aliases)
        return names

    def _can_be_imported(self, keys: Sequence[DefinitionKey]) -> bool:
        """Return False for definitions (of one name and file) that no import can mean: methods."""
        path, position = keys[0]
        file = self._files.load([path]).get(path)
        if file is None or position == WHOLE_FILE or rules_of(file.language).has_packages:
            return True
        names, name = names_of(file), file.symbols[position].name
        exported = {*names.nested(TOP_LEVEL, name), *names.contained(name)}
        return any(key.position in exported for key in keys)

    def _needs_receiver(self, key: DefinitionKey) -> bool:
        """Return True if other files can use a definition that no import means only as a member."""
        file = self._files.load([key.path]).get(key.path)
        rules = rules_of("" if file is None else file.language)
        return rules.needs_import and not rules.members_visible

    def _is_local(self, key: DefinitionKey) -> bool:
        file = self._files.load([key.path]).get(key.path)
        if file is None or key.position == WHOLE_FILE:
            return False
        names = names_of(file)
        outer = names.parents[key.position]
        if outer == TOP_LEVEL or names.kinds[key.position] != "function":
            return False
        return names.kinds[outer] in FUNCTION_KINDS

    def _aliases(
        self, name: str, meanings: frozenset[DefinitionKey], *, is_own: bool
    ) -> Iterator[str]:
        """Yield the aliases under which files import a definition by a name.

        `is_own` means that the definition is used under this name, so it is no alias.
        """
        for alias in self._imports_with_alias(name, is_own=is_own):
            if not meanings.isdisjoint(alias.definitions):
                yield alias.local

    def _imports_with_alias(self, name: str, *, is_own: bool) -> Sequence[ImportAlias]:
        """Return the imports of a name under another one, resolved and cached.

        Most imports keep the name: they need not be resolved to find aliases.
        """
        aliases = self._imports.get((name, is_own))
        if aliases is None:
            aliases = self._cache.aliases.get(name, is_own=is_own)
        if aliases is None:
            aliases = self._find_aliases(name, is_own=is_own)
            self._files.load(())  # as in `_find_uses`: after a limit, nothing is cached
            self._cache.aliases.put(name, aliases, is_own=is_own)
        if self._remembered < MAX_REMEMBERED:
            self._imports[name, is_own] = aliases
            self._remembered += _IMPORT_BYTES * len(aliases)
        return aliases

    def _find_aliases(self, name: str, *, is_own: bool) -> Sequence[ImportAlias]:
        no_aliases = {"", _DEFAULT, *([name] if is_own else [])}
        imports = (
            (file, item)
            for file in self._load_mentioning_files([name])
            for item in mentions_of(file).find({name})
            if item.local not in no_aliases
        )
        # Thousands of files may give a name one alias.
        aliases = (
            ImportAlias(item.local, self._resolver.definitions_of_import(file, item).definitions)
            for file, item in imports
        )
        return tuple(dict.fromkeys(aliases))

    def _load_mentioning_files(self, names: Iterable[str]) -> Iterator[CodeFile]:
        """Yield the files that use, import or export one of the names, by path."""
        for batch in _batches(self._mentioning_paths(names)):
            code_files = self._files.load(batch)
            yield from (code_files[path] for path in batch if path in code_files)

    def _mentioning_paths(self, names: Iterable[str]) -> Sequence[str]:
        return sorted({path for name in names for path in self._files.files_using(name)})


def _select_rows(file: CodeFile, names: UsedNames) -> Sequence[int]:
    """Return the positions of the uses in a file that may mean a definition with such names.

    A method of Python may have the name of a function that thousands of files call.
    """
    facts = file.facts
    if names.only_bases:
        rows = facts.rows_of_uses(names.names)
        return [row for row in rows if facts.uses[row].kind == "inherit"]
    is_whole = not names.needs_receiver or file.precise_uses is not None
    if is_whole or any(names_of(file).named(name) for name in names.names):
        return facts.rows_of_uses(names.names)
    return facts.rows_of_member_uses(names.names)


def _by_path(keys: Iterable[DefinitionKey]) -> Iterable[Sequence[DefinitionKey]]:
    """Group keys by file."""
    groups: dict[str, list[DefinitionKey]] = {}
    for key in keys:
        groups.setdefault(key.path, []).append(key)
    return groups.values()


def module_name(path: str) -> str:
    """Return the name that imports use for a file: its stem, or the name of its directory."""
    parts = path.split("/")
    stem = parts[-1].partition(".")[0]
    return parts[-2] if stem in DIRECTORY_STEMS and len(parts) > 1 else stem


def _batches(paths: Iterable[str]) -> Iterator[list[str]]:
    items = iter(paths)
    while batch := list(islice(items, _BATCH)):
        yield batch
