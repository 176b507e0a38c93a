"""Looks up names in enclosing definitions, the file, its imports and its package; follows exports."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cocosearchd.graph.code_files import CodeFile, CodeFiles, DefinitionKey
from cocosearchd.graph.resolution.file_names import FileNames, names_of
from cocosearchd.graph.resolution.inferred_value import FOREIGN, UNKNOWN, Value
from cocosearchd.graph.resolution.modules.base import ModuleRules
from cocosearchd.graph.resolution.modules.module_paths import directory_of
from cocosearchd.graph.resolution.modules.rules_table import rules_of
from cocosearchd.languages.code_facts import TOP_LEVEL, Import
from cocosearchd.languages.symbols import TYPE_KINDS, VALUE_KINDS

# Limit of re-exports, and of files behind wildcards, that are followed for one name.
MAX_EXPORTS = 1000
# In a module with more files, only definitions are searched by name; re-exports are not followed.
_MAX_MODULE_FILES = 4
# Files with a name that are searched for one package.
_MAX_PACKAGE_FILES = 200


class _Export(NamedTuple):
    path: str
    name: str
    reason: str


class NameLookup:
    """Looks up names without receivers, for one question."""

    def __init__(self, files: CodeFiles) -> None:
        self.files = files
        self._file_names: dict[str, FileNames | None] = {}
        # Keyed by the file, or by its directory if that decides, and the module
        self._modules: dict[tuple[str, str], tuple[str, ...]] = {}
        self._names: dict[tuple[str, int, str], Value] = {}
        # Keyed by path and name: most scopes of a file define none of the names that they use
        self._file_values: dict[tuple[str, str], Value] = {}
        # Keyed by path, scope and name: the values of all users of a scope are one object
        self._scopes: dict[tuple[str, int, str], Value] = {}
        self._exports: dict[tuple[tuple[str, ...], str], Value] = {}
        self._packages: dict[tuple[str, str, str], Value] = {}
        self._neighbours: dict[str, Sequence[str]] = {}

    def file_names(self, path: str) -> FileNames | None:
        """Return the names of a file; None if it is not indexed."""
        if path not in self._file_names:
            self.load([path])
        return self._file_names[path]

    def load(self, paths: Iterable[str]) -> None:
        """Load several files at once, which costs less than one by one."""
        missing = [path for path in paths if path not in self._file_names]
        code_files = self.files.load(missing) if missing else {}
        for path in missing:
            file = code_files.get(path)
            self._file_names[path] = None if file is None else names_of(file)

    def is_method(self, key: DefinitionKey) -> bool:
        """Return True for a function of a class."""
        names = self.file_names(key.path)
        if names is None or key.position < 0:
            return False
        outer = names.parents[key.position]
        is_inside = outer != TOP_LEVEL and names.kinds[outer] in TYPE_KINDS
        kind = names.kinds[key.position]
        return kind == "method" or (kind == "prototype" and is_inside)

    def rules(self, path: str) -> ModuleRules:
        """Return the rules of a file's language."""
        names = self.file_names(path)
        return rules_of("" if names is None else names.file.language)

    def find_name(self, path: str, position: int, name: str) -> Value:
        """Return the meaning of a name without receiver in the body of a symbol of a file."""
        key = (path, position, name)
        if key not in self._names:
            self._names[key] = self._find_name(path, position, name)
        return self._names[key]

    def find_module(self, file: CodeFile, module: str) -> tuple[str, ...]:
        """Return the files that a module, as written in a file, means."""
        rules = rules_of(file.language)
        importer = f"{directory_of(file.path)}/" if rules.modules_by_directory else file.path
        key = (importer, module)
        if key not in self._modules:
            self._modules[key] = rules.find_module(self.files, file, module)
        return self._modules[key]

    def find_import(self, path: str, item: Import) -> Value:
        """Return the value of an import."""
        names = self.file_names(path)
        if names is None:
            return UNKNOWN
        if not item.module:
            return self.find_export(rules_of(names.file.language), (path,), item.local)
        module = _bound_module(item)
        rules = rules_of(names.file.language)
        if rules.has_packages and item.name not in ("", "*"):
            return self.find_in_package(rules.family, item.module, item.name)
        paths = self.find_module(names.file, module)
        if not paths:
            return FOREIGN
        if item.name in ("", "*"):
            return Value("module", paths=paths, reason="import")
        return self.find_export(rules, paths, item.name)

    def find_export(self, rules: ModuleRules, paths: Sequence[str], name: str) -> Value:
        """Return the meaning of a name that is imported from a module."""
        key = (tuple(paths), name)
        if key not in self._exports:
            self._exports[key] = UNKNOWN  # ends circular imports
            self._exports[key] = self._find_export(rules, paths, name)
        return self._exports[key]

    def find_visible(self, path: str, name: str) -> Value:
        """Return the meaning of a name in other files that are visible in a file."""
        names = self.file_names(path)
        return UNKNOWN if names is None else self._find_visible(names, name)

    def neighbours(self, file: CodeFile) -> Sequence[str]:
        """Return the other files with names that are visible in a file without an import."""
        if file.path not in self._neighbours:
            find = rules_of(file.language).find_neighbours
            self._neighbours[file.path] = find(self.files, file)
        return self._neighbours[file.path]

    def _find_name(self, path: str, position: int, name: str) -> Value:
        names = self.file_names(path)
        if names is None:
            return UNKNOWN
        value = self._find_enclosing(names, position, name)
        if value is not None:
            return value
        key = (path, name)
        if key not in self._file_values:
            self._file_values[key] = self._find_in_file(names, name)
        return self._file_values[key]

    def _find_in_file(self, names: FileNames, name: str) -> Value:
        """Return the meaning of a name that no definition around its use has."""
        if names.nested(TOP_LEVEL, name):
            return self._find_nested(names, TOP_LEVEL, name, "same_file")
        imports = names.imports(name)
        values = [
            self.find_import(names.file.path, item)
            for item in imports
            if item.module or not item.exported
        ]
        usable = next((value for value in values if value.is_usable), None)
        if usable is not None:
            return usable.because("import")
        if values:
            return values[-1]
        if name in names.dotted_imports:
            paths = self.find_module(names.file, name)
            return Value("module", paths=paths, reason="import") if paths else FOREIGN
        return self._find_visible(names, name)

    def _find_enclosing(self, names: FileNames, position: int, name: str) -> Value | None:
        """Return the meaning of a name in the definitions around a symbol; None without one."""
        rules = rules_of(names.file.language)
        for outer in names.enclosing(position):
            kind = names.kinds[outer]
            is_type = kind in TYPE_KINDS and outer != position
            if kind in VALUE_KINDS or (is_type and not rules.members_visible):
                continue
            if names.nested(outer, name):
                return self._find_nested(names, outer, name, "same_scope")
        return None

    def _find_nested(self, names: FileNames, outer: int, name: str, reason: str) -> Value:
        """Return the definitions with a name directly in a scope."""
        key = (names.file.path, outer, name)
        if key not in self._scopes:
            self._scopes[key] = _definition(names.file.path, names.nested(outer, name), reason)
        return self._scopes[key]

    def _find_visible(self, names: FileNames, name: str) -> Value:
        """Return the meaning of a name in other files that are visible.

        Files of the package are visible, and files of wildcard imports.
        """
        rules = rules_of(names.file.language)
        if rules.has_packages:
            return self._find_in_packages(names, rules, name)
        value = self._find_defined(self.neighbours(names.file), name)
        if value.is_usable:
            return value.because("package")
        is_open = False
        for item in names.wildcards:
            paths = self.find_module(names.file, item.module)
            value = self.find_export(rules, paths, name) if paths else UNKNOWN
            if value.is_usable:
                return value.because("wildcard_import")
            is_open = is_open or not paths
        return FOREIGN if rules.needs_import and not is_open else UNKNOWN

    def definitions_of(self, family: str, name: str, limit: int) -> list[DefinitionKey]:
        """Return the definitions with a name in at most `limit` files."""
        keys: list[DefinitionKey] = []
        paths = self.files.files_defining(name)[:limit]
        self.load(paths)
        for path in paths:
            names = self.file_names(path)
            if names is not None and rules_of(names.file.language).family == family:
                keys += [DefinitionKey(path, position) for position in names.named(name)]
        return keys

    def find_in_package(self, family: str, package: str, name: str) -> Value:
        """Return the meaning of a name in a package, or in a class that `package` names."""
        key = (family, package, name)
        if key not in self._packages:
            self._packages[key] = FOREIGN  # ends circles
            self._packages[key] = self._search_package(family, package, name)
        return self._packages[key]

    def _search_package(self, family: str, package: str, name: str) -> Value:
        keys: list[DefinitionKey] = []
        paths = self.files.files_defining(name)[:_MAX_PACKAGE_FILES]
        self.load(paths)
        for path in paths:
            names = self.file_names(path)
            if names is None or names.file.facts.package != package:
                continue
            if rules_of(names.file.language).family == family:
                positions = names.nested(TOP_LEVEL, name) or names.contained(name)
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
            names = self.file_names(key.path)
            if names is not None:
                qualified_name = names.file.symbols[key.position].qualified_name
                positions = names.members(qualified_name, name)
                keys += [DefinitionKey(key.path, position) for position in positions]
        return Value("definition", tuple(keys), "import") if keys else FOREIGN

    def _find_in_packages(self, names: FileNames, rules: ModuleRules, name: str) -> Value:
        """Return the meaning of a name in the packages of a file.

        These are its own package, and the packages that it imports as a whole.
        """
        package = names.file.facts.package
        own_packages = [package]
        while rules.has_outer_packages and "." in package:
            package = package.rpartition(".")[0]
            own_packages.append(package)
        for package in own_packages:
            value = self.find_in_package(rules.family, package, name)
            if value.is_usable:
                return value.because("package")
        for item in names.wildcards:
            value = self.find_in_package(rules.family, item.module, name)
            if value.is_usable:
                return value.because("wildcard_import")
        return FOREIGN if rules.needs_import else UNKNOWN

    def _sources(self, names: FileNames, name: str) -> Iterator[Import]:
        """Yield the imports that a file re-exports under a name; local exports are followed."""
        for item in names.imports(name):
            if not item.module:
                yield from (source for source in names.imports(item.name) if source.module)
            elif self._is_exported(names, item):
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
            names = self.file_names(export.path)
            if names is None:
                continue
            value = self._read_export(names, export) or UNKNOWN
            if value.is_usable:
                return value
            next_exports = self._next_exports_by_key(names, export)
            waiting.extend(item for key, item in next_exports.items() if key not in visited)
            visited |= dict.fromkeys(next_exports)
        return self._find_submodule(rules, visited)

    def _next_exports_by_key(
        self, names: FileNames, export: _Export
    ) -> dict[tuple[str, str], _Export]:
        return {(item.path, item.name): item for item in self._next_exports(names, export)}

    def _read_export(self, names: FileNames, export: _Export) -> Value | None:
        """Return the value that a file itself exports under a name; None without one."""
        path = names.file.path
        local_symbols = names.nested(TOP_LEVEL, export.name) or names.contained(export.name)
        if local_symbols:
            return _definition(path, local_symbols, export.reason)
        for item in names.imports(export.name):
            if not item.module and names.nested(TOP_LEVEL, item.name):
                return _definition(path, names.nested(TOP_LEVEL, item.name), export.reason)
        for item in self._sources(names, export.name):
            if item.name in ("", "*"):
                paths = self.find_module(names.file, _bound_module(item))
                return Value("module", paths=paths, reason="import") if paths else FOREIGN
        return None

    def _next_exports(self, names: FileNames, export: _Export) -> Iterable[_Export]:
        """Yield the exports of other files that a file re-exports under a name."""
        wildcards = (item for item in names.wildcards if self._is_exported(names, item))
        for item in (*self._sources(names, export.name), *wildcards):
            is_wildcard = item.name == "*"
            if is_wildcard and export.name == "default":
                continue
            paths = self.find_module(names.file, item.module)
            if len(paths) > _MAX_MODULE_FILES:
                paths = tuple(self._select_defining(paths, export.name))
            name = export.name if is_wildcard else item.name
            yield from (_Export(path, name, export.reason) for path in paths)

    def _is_exported(self, names: FileNames, item: Import) -> bool:
        return item.exported or rules_of(names.file.language).exports_imports

    def _find_submodule(self, rules: ModuleRules, exports: Iterable[tuple[str, str]]) -> Value:
        for path, name in exports:
            inner = rules.find_submodule(self.files, (path,), name)
            if inner:
                return Value("module", paths=inner, reason="import")
        return UNKNOWN

    def _find_defined(self, paths: Sequence[str], name: str) -> Value:
        """Return the top-level definitions with a name in some files.

        If a file has none, its definitions in namespaces count as top-level.
        """
        keys: list[DefinitionKey] = []
        defining = self._select_defining(paths, name)
        self.load(defining)
        for path in defining:
            names = self.file_names(path)
            if names is not None:
                positions = names.nested(TOP_LEVEL, name) or names.contained(name)
                keys += [DefinitionKey(path, position) for position in positions]
        return Value("definition", tuple(keys), "package") if keys else UNKNOWN

    def _select_defining(self, paths: Sequence[str], name: str) -> list[str]:
        if not paths:
            return []
        members = set(paths)
        return [path for path in self.files.files_defining(name) if path in members]


def _bound_module(item: Import) -> str:
    """Return the module that an import binds to its local name: `import a.b` binds `a`."""
    first, dot, _ = item.module.partition(".")
    return first if dot and not item.name and item.local == first else item.module


def _definition(path: str, positions: Sequence[int], reason: str) -> Value:
    return Value("definition", tuple(DefinitionKey(path, item) for item in positions), reason)
