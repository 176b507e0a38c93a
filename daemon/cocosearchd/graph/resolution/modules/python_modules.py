"""Module rules of Python: relative and absolute modules, packages, and several source roots."""

import sys
from collections.abc import Sequence
from io import BytesIO, TextIOWrapper

from cocosearchd.graph.code_files import CodeFile, CodeFiles
from cocosearchd.graph.resolution.modules.base import ModuleRules
from cocosearchd.graph.resolution.modules.module_paths import (
    directory_of,
    first_indexed,
    join,
    nearest,
)

# Top directories of a repository that contain packages but are no packages.
SOURCE_DIRECTORIES = frozenset({"", "src", "lib", "python"})
_BUILTIN_TYPES = (str, bytes, list, dict, set, tuple, int, float, Exception, TextIOWrapper, BytesIO)
# Names of members of paths, processes, threads, locks, matches and mocks in the standard library.
_LIBRARY_MEMBERS = (
    "absolute acquire as_posix cancel communicate compile connect done exists findall finditer "
    "fullmatch get_nowait glob group groups is_dir is_file is_set iterdir joinpath kill match mkdir "
    "notify open poll put read_bytes read_text release rename resolve result run save search send "
    "set_result shutdown sleep span start stat submit terminate touch unlink utcoffset wait with_name "
    "write_bytes write_text"
)


def find_module(files: CodeFiles, file: CodeFile, module: str) -> tuple[str, ...]:
    """Return the file of a module.

    For a directory without `__init__.py`, return its path with a final "/".
    """
    if module.startswith("."):
        return _find_relative(files, file.path, module)
    return _find_absolute(files, file.path, module)


def find_submodule(files: CodeFiles, paths: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the file of a module inside of a package."""
    for path in paths:
        if path.endswith(("/", "/__init__.py", "/__init__.pyi")) or path == "__init__.py":
            base = join(directory_of(path), name)
            if base and (module := _find_at(files, base)):
                return module
    return ()


def _find_relative(files: CodeFiles, path: str, module: str) -> tuple[str, ...]:
    name = module.lstrip(".")
    parents = "../" * (len(module) - len(name) - 1)
    base = join(directory_of(path), parents + name.replace(".", "/"))
    return () if base is None else _find_at(files, base)


def _find_at(files: CodeFiles, base: str) -> tuple[str, ...]:
    """Return the module with the path `base`, which has no extension."""
    package = f"{base}/" if base else ""
    names = [f"{package}__init__.py", f"{base}.py", f"{package}__init__.pyi", f"{base}.pyi"]
    module_files = first_indexed(files, names)
    if module_files:
        return module_files
    return (package,) if package and files.paths_in(base) else ()


def _find_absolute(files: CodeFiles, path: str, module: str) -> tuple[str, ...]:
    tail = module.replace(".", "/")
    candidates = [
        candidate
        for suffix in (f"{tail}/__init__.py", f"{tail}.py", f"{tail}.pyi")
        for candidate in files.paths_ending(suffix)
        if _is_root(files, candidate.removesuffix(suffix).rstrip("/"), path, module)
    ]
    if candidates:
        return nearest(candidates, path)[:1]
    bases = (f"{root}/{tail}" if root else tail for root in sorted(SOURCE_DIRECTORIES))
    return next(((f"{base}/",) for base in bases if files.paths_in(base)), ())


def _is_root(files: CodeFiles, root: str, path: str, module: str) -> bool:
    """Return True if Python may search a directory for the modules that a file imports.

    The directory of a package is never searched. A name of the standard library means that library,
    unless the module is beside the file.
    """
    if root and files.has_path(f"{root}/__init__.py"):
        return False
    if module.partition(".")[0] in sys.stdlib_module_names:
        return root == directory_of(path)
    return root in SOURCE_DIRECTORIES or path.startswith(f"{root}/") or "." in module


PYTHON = ModuleRules(
    family="python",
    find_module=find_module,
    find_submodule=find_submodule,
    modules_by_directory=True,
    instance_names=frozenset({"self", "cls"}),
    parent_names=frozenset({"super"}),
    constructor_names=frozenset({"__init__", "__new__"}),
    builtin_members=frozenset(name for kind in _BUILTIN_TYPES for name in dir(kind))
    | frozenset(_LIBRARY_MEMBERS.split()),
    needs_import=True,
    exports_imports=True,
)
