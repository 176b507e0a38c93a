"""Module rules of Rust: paths that begin with the crate, a module or a crate of the workspace."""

from collections.abc import Iterator, Sequence

from cocosearchd.graph.code_files import CodeFile, CodeFiles
from cocosearchd.graph.resolution.modules.base import ModuleRules
from cocosearchd.graph.resolution.modules.module_paths import (
    directories_above,
    directory_of,
    first_indexed,
    nearest,
    nearest_file,
)

_MANIFEST = "Cargo.toml"
# Root files of a crate, in its directory of sources.
_ROOTS = ("lib.rs", "main.rs")
# Crates of a workspace that are searched for one name.
_MAX_CRATES = 200
_BUILTIN_MEMBERS = (
    "new next iter into_iter map unwrap expect clone into from len push pop get insert remove "
    "collect as_ref as_mut as_bytes as_str to_string to_vec to_owned is_empty contains extend ok "
    "err is_some is_none is_ok is_err unwrap_or filter fold find position any all take skip zip "
    "chain rev read write flush lock send recv join spawn fmt eq cmp hash drop default deref index "
    "borrow parse split trim lines chars bytes keys values entry sort push_str starts_with run "
    "load store swap replace path metadata file_type open create append start end wait finish"
)


def find_module(files: CodeFiles, file: CodeFile, module: str) -> tuple[str, ...]:
    """Return the files of the longest module path that is a prefix of `module`.

    In an inline module, which has no file of its own, `super` means the file itself. Therefore the
    result has both the file and the parent module.
    """
    head, *tail = module.split("::")
    paths: tuple[str, ...]
    if head == "crate":
        paths = _crate_roots(files, file.path)
    elif head == "self":
        paths = (file.path,)
    elif head == "super":
        paths = (file.path, *_parent_module(files, file.path))
    else:
        paths = find_submodule(files, (file.path,), head) or _find_crate(files, file.path, head)
    for name in tail:
        if name == "super":
            paths = tuple(parent for path in paths for parent in _parent_module(files, path))
        else:
            paths = find_submodule(files, paths, name) or paths
    return tuple(dict.fromkeys(paths))


def find_submodule(files: CodeFiles, paths: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the file of a module inside of a module."""
    for path in paths:
        candidates = (
            candidate
            for directory in _child_directories(path)
            for candidate in _module_files(directory, name)
        )
        if submodule := first_indexed(files, candidates):
            return submodule
    return ()


def _module_files(directory: str, name: str) -> Iterator[str]:
    prefix = f"{directory}/" if directory else ""
    yield f"{prefix}{name}.rs"
    yield f"{prefix}{name}/mod.rs"


def _child_directories(path: str) -> Iterator[str]:
    """Yield the directories that may contain the submodules of a file."""
    directory = directory_of(path)
    stem = path.rpartition("/")[2].removesuffix(".rs")
    if stem not in ("mod", "lib", "main"):
        yield f"{directory}/{stem}" if directory else stem
    yield directory


def _parent_module(files: CodeFiles, path: str) -> tuple[str, ...]:
    directory = directory_of(path)
    name = path.rpartition("/")[2]
    if name == "mod.rs":
        directory, _, _ = directory.rpartition("/")
    elif name not in _ROOTS:
        prefix = f"{directory}/" if directory else ""
        around = (f"{prefix}mod.rs", *(prefix + root for root in _ROOTS), f"{directory}.rs")
        return first_indexed(files, around)
    prefix = f"{directory}/" if directory else ""
    return first_indexed(files, (f"{prefix}mod.rs", *(prefix + root for root in _ROOTS)))


def _crate_roots(files: CodeFiles, path: str) -> tuple[str, ...]:
    """Return the root files of the crate around a file; in `tests`, a file beside it."""
    for directory in directories_above(path):
        prefix = f"{directory}/" if directory else ""
        roots = tuple(prefix + name for name in _ROOTS if files.has_path(prefix + name))
        if roots:
            return roots
        if files.has_path(prefix + _MANIFEST):
            break
    stem = directory_of(path).rpartition("/")[2]
    candidates = (f"{directory_of(path)}/{stem}.rs", f"{directory_of(path)}/main.rs", path)
    return first_indexed(files, candidates)


def _find_crate(files: CodeFiles, path: str, name: str) -> tuple[str, ...]:
    """Return the root of the crate with a name in the repository.

    If there is no such crate, return a module of the file's crate.
    """
    manifests = files.paths_ending(_MANIFEST)[:_MAX_CRATES]
    for manifest, file in sorted(files.load(manifests).items()):
        if file.facts.package.replace("-", "_") == name:
            directory = directory_of(manifest)
            prefix = f"{directory}/" if directory else ""
            candidates = (f"{prefix}src/lib.rs", f"{prefix}lib.rs", f"{prefix}src/main.rs")
            return first_indexed(files, candidates)
    # no crate has the name: try a module in the root of the file's crate
    crate = nearest_file(files, path, _MANIFEST)
    if crate is None:
        return ()
    roots = [root for root in _crate_roots(files, path) if root != path]
    return find_submodule(files, nearest(roots, path), name) if roots else ()


RUST = ModuleRules(
    family="rust",
    find_module=find_module,
    find_submodule=find_submodule,
    instance_names=frozenset({"self", "Self"}),
    builtin_members=frozenset(_BUILTIN_MEMBERS.split()),
    path_heads=frozenset({"crate", "super"}),
    library_names=frozenset({"std", "core", "alloc"}),
    needs_import=True,
    has_static_paths=True,
    modules_visible=True,
)
