"""Module rules of JavaScript and TypeScript: relative paths, index files, packages of a workspace."""

from collections.abc import Iterator

from cocosearchd.graph.code_files import CodeFile, CodeFiles
from cocosearchd.graph.resolution.modules.base import ModuleRules
from cocosearchd.graph.resolution.modules.module_paths import (
    directory_of,
    first_indexed,
    join,
    nearest,
)
from cocosearchd.languages.code_facts import Import

EXTENSIONS = (".ts", ".tsx", ".mts", ".cts", ".d.ts", ".js", ".jsx", ".mjs", ".cjs")
# Extension in an import -> extensions of the sources that it may be compiled from.
_COMPILED = {
    ".js": (".ts", ".tsx", ".d.ts", ".jsx"),
    ".jsx": (".tsx",),
    ".mjs": (".mts", ".d.mts"),
    ".cjs": (".cts", ".d.cts"),
}
# Usual directories of sources within the directory of a package.
_SOURCE_FOLDERS = ("src", "", "source", "lib")
# Prefixes that projects map to their own source folder.
_ROOT_ALIASES = ("@/", "~/", "#/", "$lib/")
# Files that map module names to paths. Editors read the first two; builds read all.
_SETTINGS = ("tsconfig.json", "jsconfig.json", "tsconfig.base.json", "package.json")
# Length of a chain of settings files that extend each other.
_MAX_EXTENDED = 8
# Members of arrays, promises, maps, strings, functions and DOM nodes.
_BUILTIN_MEMBERS = (
    "apply at bind call catch charAt charCodeAt clear concat cookie delete endsWith entries every "
    "fill filter finally find findIndex flat flatMap forEach get getAll getTime has hasOwnProperty "
    "includes indexOf join keys lastIndexOf length map match matchAll message name next normalize "
    "padEnd padStart pop push raw reduce replace replaceAll resolve reject return reverse search "
    "set shift size slice some sort splice split startsWith stack substring test then throw "
    "toFixed toISOString toJSON toLowerCase toString toUpperCase trim trimEnd trimStart unshift "
    "valueOf values addEventListener removeEventListener dispatchEvent append json text blob "
    "arrayBuffer formData clone body headers status url method abort log error warn info debug "
    "parse stringify create assign freeze isArray from of all race any now add close open read "
    "write end on off once emit exec default prototype constructor"
)


def find_module(files: CodeFiles, file: CodeFile, module: str) -> tuple[str, ...]:
    """Return the file of a module.

    It is found by relative path, by settings, or in a package of the repository.
    """
    if module.startswith("."):
        base = join(directory_of(file.path), module)
        return () if base is None else first_indexed(files, _candidates(base))
    mapped_files = _find_by_settings(files, file.path, module)
    if not mapped_files and module.startswith(_ROOT_ALIASES):
        return _find_from_root(files, file.path, module.partition("/")[2])
    return mapped_files or _find_package(files, file.path, module)


def _candidates(base: str) -> Iterator[str]:
    """Yield the file paths that a module path may mean, best first."""
    if not base:
        yield from (f"index{extension}" for extension in EXTENSIONS)
        return
    stem, dot, extension = base.rpartition(".")
    for source in _COMPILED.get(dot + extension, ()):
        yield stem + source
    yield base
    yield from (base + suffix for suffix in EXTENSIONS)
    yield from (f"{base}/index{suffix}" for suffix in EXTENSIONS)


def _find_from_root(files: CodeFiles, path: str, tail: str) -> tuple[str, ...]:
    """Return the file with the path `tail` below the nearest source folder."""
    directory = path
    while directory:
        directory = directory_of(directory)
        for folder in ("src", ""):
            base = join(directory, f"{folder}/{tail}")
            if base and (module := first_indexed(files, _candidates(base))):
                return module
    return ()


def _find_by_settings(files: CodeFiles, path: str, module: str) -> tuple[str, ...]:
    """Return the file of a module that the nearest settings map to a path."""
    for settings in _settings_above(files, path):
        for manifest, item in _mapped_names(files, settings):
            target = _map_name(item, module)
            base = None if target is None else join(directory_of(manifest), target)
            if base is not None and (module_files := first_indexed(files, _candidates(base))):
                return module_files
    return ()


def _settings_above(files: CodeFiles, path: str) -> Iterator[str]:
    """Yield the settings files in the directories of a file, nearest first."""
    directory = path
    while directory:
        directory = directory_of(directory)
        for name in _SETTINGS:
            manifest = f"{directory}/{name}" if directory else name
            if files.has_path(manifest):
                yield manifest


def _mapped_names(files: CodeFiles, manifest: str) -> Iterator[tuple[str, Import]]:
    """Yield the mappings of names to paths in a settings file and in those that it extends."""
    waiting = [manifest]
    visited = {manifest}
    while waiting and len(visited) <= _MAX_EXTENDED:
        path = waiting.pop(0)
        file = files.load([path]).get(path)
        for item in file.facts.imports if file is not None else ():
            if item.name == "*":
                yield path, item
            elif item.module.startswith("."):
                parent = join(directory_of(path), item.module) or ""
                parent = parent if parent.endswith(".json") else f"{parent}.json"
                if parent not in visited:
                    visited.add(parent)
                    waiting.append(parent)


def _map_name(item: Import, module: str) -> str | None:
    """Return the path of a module by a mapping such as `@/*`; None if the mapping does not match."""
    prefix, star, suffix = item.local.partition("*")
    if not star:
        return item.module if module == item.local else None
    middle = len(module) - len(prefix) - len(suffix)
    if middle < 0 or not (module.startswith(prefix) and module.endswith(suffix)):
        return None
    return item.module.replace("*", module[len(prefix) : len(prefix) + middle], 1)


def _find_package(files: CodeFiles, path: str, module: str) -> tuple[str, ...]:
    """Return a file of a package in the repository, found by the package's name or directory."""
    parts = module.split("/")
    width = 2 if module.startswith("@") else 1
    if len(parts) < width:
        return ()
    name = "/".join(parts[:width])
    manifests = [item for item in files.files_using(name) if _is_package(files, item, name)]
    manifests = manifests or list(files.paths_ending(f"{parts[width - 1]}/package.json"))
    tail = "/".join(parts[width:])
    for manifest in nearest(manifests, path):
        for folder in _SOURCE_FOLDERS:
            base = join(directory_of(manifest), f"{folder}/{tail}")
            if base is not None and (module_files := first_indexed(files, _candidates(base))):
                return module_files
    return ()


def is_package_manifest(path: str) -> bool:
    """Return True for a file that is found by the name of the package that it declares."""
    return path.rpartition("/")[2] == "package.json"


def _is_package(files: CodeFiles, path: str, name: str) -> bool:
    if not is_package_manifest(path):
        return False
    file = files.load([path]).get(path)
    return file is not None and file.facts.package == name


JAVASCRIPT = ModuleRules(
    family="javascript",
    find_module=find_module,
    instance_names=frozenset({"this"}),
    parent_names=frozenset({"super"}),
    constructor_names=frozenset({"constructor"}),
    builtin_members=frozenset(_BUILTIN_MEMBERS.split()),
    needs_import=True,
)
