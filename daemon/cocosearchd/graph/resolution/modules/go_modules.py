"""Module rules of Go: a directory is a package, and its import path begins with that of a module."""

from collections.abc import Sequence

from cocosearchd.graph.code_files import CodeFile, CodeFiles
from cocosearchd.graph.resolution.modules.base import ModuleRules
from cocosearchd.graph.resolution.modules.module_paths import (
    directory_of,
    files_with_suffix,
    nearest,
    tails,
)
from cocosearchd.languages.references.import_trees import last_part

_MANIFEST = "go.mod"
# Directories of modules that are searched for one import.
_MAX_MODULES = 50
_BUILTIN_MEMBERS = (
    "Error String Read Write Close Len Less Swap Add Done Wait Lock Unlock Get Set Put Next Name "
    "Type Value Header Do Scan Print Println Printf Format Seek Reset Bytes Run Flush"
)


def find_module(files: CodeFiles, file: CodeFile, module: str) -> tuple[str, ...]:
    """Return the files of the package with an import path; empty for the standard library."""
    parts = [part for part in module.split("/") if part]
    if not parts:
        return ()
    is_library = "." not in parts[0]
    package_tails = [module] if is_library else list(tails(parts[1:]))
    for manifest in _manifests(files, file.path):
        root = directory_of(manifest)
        paths = _first_package(files, root, package_tails)
        if not paths and not is_library and _has_package(files, root, last_part(module)):
            paths = _sources(files, root)
        if paths:
            return paths
    return ()


def _first_package(files: CodeFiles, root: str, package_tails: Sequence[str]) -> tuple[str, ...]:
    """Return the sources of the first of `package_tails` that is a package below a module."""
    candidates = (_sources(files, f"{root}/{tail}" if root else tail) for tail in package_tails)
    return next(filter(None, candidates), ())


def find_neighbours(files: CodeFiles, file: CodeFile) -> Sequence[str]:
    """Return the other files of the package: the Go files of the directory."""
    paths = files_with_suffix(files, directory_of(file.path), ".go")
    return [path for path in paths if path != file.path]


def _manifests(files: CodeFiles, path: str) -> Sequence[str]:
    """Return the manifests of modules, the nearest to a file first."""
    manifests = files.paths_ending(_MANIFEST)
    near = nearest(manifests, path)
    return [*near, *(item for item in manifests if item not in near)][:_MAX_MODULES]


def _sources(files: CodeFiles, directory: str) -> tuple[str, ...]:
    paths = files_with_suffix(files, directory, ".go")
    return tuple(path for path in paths if not path.endswith("_test.go"))


def _has_package(files: CodeFiles, directory: str, name: str) -> bool:
    """Return True if a directory has a package with a name."""
    paths = _sources(files, directory)[:1]
    return any(file.facts.package == name for file in files.load(paths).values())


GO = ModuleRules(
    family="go",
    find_module=find_module,
    find_neighbours=find_neighbours,
    builtin_members=frozenset(_BUILTIN_MEMBERS.split()),
    needs_import=True,
    is_static=True,
)
