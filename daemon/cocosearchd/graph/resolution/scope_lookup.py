"""Looks up names: in enclosing definitions, the file, its imports and its package; and exports"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cocosearchd.graph.code_files import CodeFile, CodeFiles, DefinitionKey
from cocosearchd.graph.resolution.file_names import VALUE_KINDS, FileNames, names_of
from cocosearchd.graph.resolution.inferred_value import FOREIGN, UNKNOWN, Value
from cocosearchd.graph.resolution.modules.base import ModuleRules
from cocosearchd.graph.resolution.modules.rules_table import rules_of
from cocosearchd.languages.code_facts import TOP_LEVEL, Import
from cocosearchd.languages.symbols import TYPE_KINDS

# Steps from export to export, and files behind wildcards, that one name is followed through.
MAX_EXPORTS = 1000
# A module of more files is asked for its definitions by name, without its re-exports.
_MAX_MODULE_FILES = 4
# Files with a name that are looked at for a package.
_MAX_PACKAGE_FILES = 200


class _Export(NamedTuple):
    path: str
    name: str
    reason: str


class ScopeLookup:
    """Looks up names without receivers, for one question."""

    def __init__(self, files: CodeFiles) -> None:
        self.files = files
        self._scopes: dict[str, FileNames | None] = {}
        self._modules: dict[tuple[str, str], tuple[str, ...]] = {}
        self._names: dict[tuple[str, int, str], Value] = {}
        self._exports: dict[tuple[tuple[str, ...], str], Value] = {}
        self._packages: dict[tuple[str, str, str], Value] = {}
        self._neighbours: dict[str, Sequence[str]] = {}

    def scope(self, path: str) -> FileNames | None:
        """Return the scope of a file, None if it is not indexed."""
        if path not in self._scopes:
            self.load([path])
        return self._scopes[path]

    def load(self, paths: Iterable[str]) -> None:
        """Load several files at once, which costs less."""
        missing = [path for path in paths if path not in self._scopes]
        code_files = self.files.load(missing) if missing else {}
        for path in missing:
            file = code_files.get(path)
            self._scopes[path] = None if file is None else names_of(file)

    def is_method(self, key: DefinitionKey) -> bool:
        """Return True for a function of a class."""
        scope = self.scope(key.path)
        if scope is None or key.symbol < 0:
            return False
        outer = scope.parents[key.symbol]
        is_inside = outer != TOP_LEVEL and scope.kinds[outer] in TYPE_KINDS
        kind = scope.kinds[key.symbol]
        return kind == "method" or (kind == "prototype" and is_inside)

    def rules(self, path: str) -> ModuleRules:
        """Return the rules of a file's language."""
        scope = self.scope(path)
        return rules_of("" if scope is None else scope.file.language)

    def find_name(self, path: str, symbol: int, name: str) -> Value:
        """Return what a name without receiver means in the body of a symbol of a file."""
        key = (path, symbol, name)
        if key not in self._names:
            self._names[key] = self._find_name(path, symbol, name)
        return self._names[key]

    def find_module(self, file: CodeFile, module: str) -> tuple[str, ...]:
        """Return the files that a module means as it is written in a file."""
        key = (file.path, module)
        if key not in self._modules:
            self._modules[key] = rules_of(file.language).find_module(self.files, file, module)
        return self._modules[key]

    def find_import(self, path: str, item: Import) -> Value:
        """Return what an import means."""
        scope = self.scope(path)
        if scope is None:
            return UNKNOWN
        if not item.module:
            return self.find_export(rules_of(scope.file.language), (path,), item.local)
        module = _bound_module(item)
        rules = rules_of(scope.file.language)
        if rules.has_packages and item.name not in ("", "*"):
            return self.find_in_package(rules.family, item.module, item.name)
        paths = self.find_module(scope.file, module)
        if not paths:
            return FOREIGN
        if item.name in ("", "*"):
            return Value("module", paths=paths, reason="import")
        return self.find_export(rules, paths, item.name)

    def find_export(self, rules: ModuleRules, paths: Sequence[str], name: str) -> Value:
        """Return what a name means that is taken from a module."""
        key = (tuple(paths), name)
        if key not in self._exports:
            self._exports[key] = UNKNOWN  # for circles of imports
            self._exports[key] = self._find_export(rules, paths, name)
        return self._exports[key]

    def find_visible(self, path: str, name: str) -> Value:
        """Return what a name means in the other files that a file sees."""
        scope = self.scope(path)
        return UNKNOWN if scope is None else self._find_visible(scope, name)

    def neighbours(self, file: CodeFile) -> Sequence[str]:
        """Return the files whose names are visible in a file without an import."""
        if file.path not in self._neighbours:
            find = rules_of(file.language).find_neighbours
            self._neighbours[file.path] = find(self.files, file)
        return self._neighbours[file.path]

    def _find_name(self, path: str, symbol: int, name: str) -> Value:
        scope = self.scope(path)
        if scope is None:
            return UNKNOWN
        value = self._find_enclosing(scope, symbol, name)
        if value is not None:
            return value
        local_symbols = scope.nested(TOP_LEVEL, name)
        if local_symbols:
            return _definition(path, local_symbols, "same_file")
        imports = scope.imports(name)
        values = [
            self.find_import(path, item) for item in imports if item.module or not item.exported
        ]
        usable = next((value for value in values if value.is_usable), None)
        if usable is not None:
            return usable.because("import")
        if values:
            return values[-1]
        if name in scope.dotted_imports:
            paths = self.find_module(scope.file, name)
            return Value("module", paths=paths, reason="import") if paths else FOREIGN
        return self._find_visible(scope, name)

    def _find_enclosing(self, scope: FileNames, symbol: int, name: str) -> Value | None:
        """Return what a name means in the definitions around a symbol, None if nothing."""
        rules = rules_of(scope.file.language)
        for outer in scope.enclosing(symbol):
            kind = scope.kinds[outer]
            is_type = kind in TYPE_KINDS and outer != symbol
            if kind in VALUE_KINDS or (is_type and not rules.members_visible):
                continue
            local_symbols = scope.nested(outer, name)
            if local_symbols:
                return _definition(scope.file.path, local_symbols, "same_scope")
        return None

    def _find_visible(self, scope: FileNames, name: str) -> Value:
        """Return what a name means in the other files that are visible: of the package, by `*`."""
        rules = rules_of(scope.file.language)
        if rules.has_packages:
            return self._find_in_packages(scope, rules, name)
        value = self._find_defined(self.neighbours(scope.file), name)
        if value.is_usable:
            return value.because("package")
        is_open = False
        for item in scope.wildcards:
            paths = self.find_module(scope.file, item.module)
            value = self.find_export(rules, paths, name) if paths else UNKNOWN
            if value.is_usable:
                return value.because("wildcard_import")
            is_open = is_open or not paths
        return FOREIGN if rules.needs_import and not is_open else UNKNOWN

    def definitions_of(self, family: str, name: str, limit: int) -> list[DefinitionKey]:
        """Return the definitions with a name in the first files, up to a limit of files."""
        keys: list[DefinitionKey] = []
        paths = self.files.files_defining(name)[:limit]
        self.load(paths)
        for path in paths:
            scope = self.scope(path)
            if scope is not None and rules_of(scope.file.language).family == family:
                keys += [DefinitionKey(path, position) for position in scope.named(name)]
        return keys

    def find_in_package(self, family: str, package: str, name: str) -> Value:
        """Return what a name means in a package, or in a class that is named by its package."""
        key = (family, package, name)
        if key not in self._packages:
            self._packages[key] = FOREIGN  # for circles
            self._packages[key] = self._search_package(family, package, name)
        return self._packages[key]

    def _search_package(self, family: str, package: str, name: str) -> Value:
        keys: list[DefinitionKey] = []
        paths = self.files.files_defining(name)[:_MAX_PACKAGE_FILES]
        self.load(paths)
        for path in paths:
            scope = self.scope(path)
            if scope is None or scope.file.facts.package != package:
                continue
            if rules_of(scope.file.language).family == family:
                positions = scope.nested(TOP_LEVEL, name) or scope.contained(name)
                keys += [DefinitionKey(path, position) for position in positions]
        if keys:
            return Value("definition", tuple(keys), "import")
        outer, mark, owner = package.rpartition("\\" if "\\" in package else ".")
        if not mark:
            return FOREIGN
        owners = self.find_in_package(family, outer, owner)
        return self._members_of(owners, name)

    def _members_of(self, owners: Value, name: str) -> Value:
        keys: list[DefinitionKey] = []
        for key in owners.definitions:
            scope = self.scope(key.path)
            if scope is not None:
                qualified_name = scope.file.symbols[key.symbol].qualified_name
                positions = scope.members(qualified_name, name)
                keys += [DefinitionKey(key.path, position) for position in positions]
        return Value("definition", tuple(keys), "import") if keys else FOREIGN

    def _find_in_packages(self, scope: FileNames, rules: ModuleRules, name: str) -> Value:
        """Return what a name means in the own package, and in those that are imported whole."""
        package = scope.file.facts.package
        own_packages = [package]
        while rules.has_outer_packages and "." in package:
            package = package.rpartition(".")[0]
            own_packages.append(package)
        for package in own_packages:
            value = self.find_in_package(rules.family, package, name)
            if value.is_usable:
                return value.because("package")
        for item in scope.wildcards:
            value = self.find_in_package(rules.family, item.module, name)
            if value.is_usable:
                return value.because("wildcard_import")
        return FOREIGN if rules.needs_import else UNKNOWN

    def _sources(self, scope: FileNames, name: str) -> Iterator[Import]:
        """Yield the imports from which a file exports a name, with its local exports followed."""
        for item in scope.imports(name):
            if not item.module:
                yield from (source for source in scope.imports(item.name) if source.module)
            elif self._is_exported(scope, item):
                yield item

    def _find_export(self, rules: ModuleRules, paths: Sequence[str], name: str) -> Value:
        if len(paths) > _MAX_MODULE_FILES:
            return self._find_defined(paths, name)
        self.load(paths)
        starts = {(path, name): _Export(path, name, "import") for path in paths}
        waiting = deque(starts.values())
        visited = dict.fromkeys(starts)
        while waiting and len(visited) < MAX_EXPORTS:
            export = waiting.popleft()
            scope = self.scope(export.path)
            if scope is None:
                continue
            value = self._read_export(scope, export) or UNKNOWN
            if value.is_usable:
                return value
            following = self._following_by_key(scope, export)
            waiting.extend(item for key, item in following.items() if key not in visited)
            visited |= dict.fromkeys(following)
        return self._find_submodule(rules, visited)

    def _following_by_key(
        self, scope: FileNames, export: _Export
    ) -> dict[tuple[str, str], _Export]:
        return {(item.path, item.name): item for item in self._following(scope, export)}

    def _read_export(self, scope: FileNames, export: _Export) -> Value | None:
        """Return what a file itself exports under a name, None if nothing."""
        path = scope.file.path
        local_symbols = scope.nested(TOP_LEVEL, export.name) or scope.contained(export.name)
        if local_symbols:
            return _definition(path, local_symbols, export.reason)
        for item in scope.imports(export.name):
            if not item.module and scope.nested(TOP_LEVEL, item.name):
                return _definition(path, scope.nested(TOP_LEVEL, item.name), export.reason)
        for item in self._sources(scope, export.name):
            if item.name in ("", "*"):
                paths = self.find_module(scope.file, _bound_module(item))
                return Value("module", paths=paths, reason="import") if paths else FOREIGN
        return None

    def _following(self, scope: FileNames, export: _Export) -> Iterable[_Export]:
        """Yield where a file takes the names from that it passes on."""
        wildcards = (item for item in scope.wildcards if self._is_exported(scope, item))
        for item in (*self._sources(scope, export.name), *wildcards):
            is_wildcard = item.name == "*"
            if is_wildcard and export.name == "default":
                continue
            paths = self.find_module(scope.file, item.module)
            if len(paths) > _MAX_MODULE_FILES:
                paths = tuple(self._defining(paths, export.name))
            name = export.name if is_wildcard else item.name
            yield from (_Export(path, name, export.reason) for path in paths)

    def _is_exported(self, scope: FileNames, item: Import) -> bool:
        return item.exported or rules_of(scope.file.language).exports_imports

    def _find_submodule(self, rules: ModuleRules, exports: Iterable[tuple[str, str]]) -> Value:
        for path, name in exports:
            inner = rules.find_submodule(self.files, (path,), name)
            if inner:
                return Value("module", paths=inner, reason="import")
        return UNKNOWN

    def _find_defined(self, paths: Sequence[str], name: str) -> Value:
        """Return the definitions with a name at the top level of some files."""
        keys: list[DefinitionKey] = []
        defining = self._defining(paths, name)
        self.load(defining)
        for path in defining:
            scope = self.scope(path)
            if scope is not None:
                positions = scope.nested(TOP_LEVEL, name) or scope.contained(name)
                keys += [DefinitionKey(path, position) for position in positions]
        return Value("definition", tuple(keys), "package") if keys else UNKNOWN

    def _defining(self, paths: Sequence[str], name: str) -> list[str]:
        if not paths:
            return []
        members = set(paths)
        return [path for path in self.files.files_defining(name) if path in members]


def _bound_module(item: Import) -> str:
    """Return the module that the local name means: `import a.b` binds `a`."""
    first, dot, _ = item.module.partition(".")
    return first if dot and not item.name and item.local == first else item.module


def _definition(path: str, positions: Sequence[int], reason: str) -> Value:
    return Value("definition", tuple(DefinitionKey(path, item) for item in positions), reason)
