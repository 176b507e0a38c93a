"""The interface of module rules: everything that resolution needs to know about a language."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cocosearchd.graph.code_files import CodeFile, CodeFiles

# Returns the files that a module, as written in a file, means; empty if it is outside of the index.
# A path that ends with "/" is a directory that is a module without its own file.
FindModule = Callable[[CodeFiles, CodeFile, str], tuple[str, ...]]
# Returns the files of the module with a name inside of the module with the given paths.
FindSubmodule = Callable[[CodeFiles, Sequence[str], str], tuple[str, ...]]
# Returns the other files with top-level names that are visible in a file without an import.
FindNeighbours = Callable[[CodeFiles, CodeFile], Sequence[str]]


def find_no_module(files: CodeFiles, file: CodeFile, module: str) -> tuple[str, ...]:  # noqa: ARG001
    """Return no file, for a language without modules that files can name."""
    return ()


def find_no_submodule(files: CodeFiles, paths: Sequence[str], name: str) -> tuple[str, ...]:  # noqa: ARG001
    """Return no file, for a language without modules inside of modules."""
    return ()


def find_no_neighbours(files: CodeFiles, file: CodeFile) -> Sequence[str]:  # noqa: ARG001
    """Return no file, for a language in which names of other files need an import."""
    return ()


@dataclass(frozen=True, slots=True)
class ModuleRules:
    """The rules of a language family. Its functions are pure over the port."""

    family: str  # files of one family can use each other's names
    find_module: FindModule = find_no_module
    find_submodule: FindSubmodule = find_no_submodule
    find_neighbours: FindNeighbours = find_no_neighbours

    modules_by_directory: bool = False  # an import means the same in all files of a directory

    # Names with a receiver
    instance_names: frozenset[str] = frozenset()  # names of the object itself: self, this
    parent_names: frozenset[str] = frozenset()  # names of its base class: super, base
    constructor_names: frozenset[str] = frozenset()  # names of methods that make objects
    # first words of module paths: `crate` of Rust
    path_heads: frozenset[str] = frozenset()
    library_names: frozenset[str] = frozenset()  # modules of the language's own library: `System`
    has_namespaces: bool = False  # a namespace may continue in other files: C++, C#

    # Names without a receiver
    members_visible: bool = False  # members of the enclosing class need no receiver: Java
    # True: a name that is not defined, imported or visible is foreign (Python). False: it may mean
    # any definition with that name (C).
    needs_import: bool = False
    # a name belongs to the package that its file declares, wherever the file is: Java, Kotlin
    has_packages: bool = False
    has_outer_packages: bool = False  # outer packages of a file's package are visible: C#
    modules_visible: bool = False  # a module needs no import: Rust
    exports_imports: bool = False  # other files can import what a file imports: Python
    methods_need_calls: bool = False  # a name without a call is never a method: Java

    # Members of types all members of a type are declared, so a name that a known type lacks has no
    # meaning: Go, Java
    is_static: bool = False
    has_static_paths: bool = False  # the same only for `Type::name`, not for objects: Rust
    # Member names of types in the language's own library: even a unique definition of such a name
    # proves nothing.
    builtin_members: frozenset[str] = frozenset()
    has_prototypes: bool = False  # a declaration and its definition count as one: C, C++
